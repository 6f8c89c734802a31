#include "device/cuda/foreign_memory.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <string>

#include "node/node.h"

namespace forklift::inline abi_0_1::device::cuda {

using memory_pool::OriginHandle;
using memory_pool::PoolRef;

namespace {

constexpr useconds_t kPollMicroseconds = 2000;

// The pools of this process's domain, which it makes if there is none.
Result<memory_pool::Pools*> pools() {
  const Result<node::Node*> node = node::Node::home();
  if (!node) return node.status();
  return &(*node)->memory_pools();
}

// The driver writes as many bytes as the attribute has, eight at most, and its header does not say how many: there is
// room for all of them. On the little-endian machines that have GPUs, the value is in the first ones.
template <class Value>
Result<Value> attribute(const Driver& driver, PointerAttribute which, Pointer memory) {
  static_assert(std::endian::native == std::endian::little && sizeof(Value) <= sizeof(std::uint64_t));
  std::uint64_t word = 0;
  Status got =
      driver.call("cuPointerGetAttribute", driver.functions().pointer_get_attribute, &word, which, memory);
  if (!got) return got;
  return static_cast<Value>(word);
}

}  // namespace

Result<ForeignMemory::Block> ForeignMemory::block_of(Pointer memory, std::size_t bytes) const {
  const Driver& driver = *place_.driver;
  const Result<unsigned> type = attribute<unsigned>(driver, PointerAttribute::kMemoryType, memory);
  const Result<int> device = attribute<int>(driver, PointerAttribute::kDeviceOrdinal, memory);
  if (!type || !device || static_cast<MemoryType>(*type) != MemoryType::kDevice || *device != place_.device)
    return Status(Code::kInvalid, "address " + std::to_string(memory) + " is no memory of this GPU");
  Block block;
  Status found = driver.call("cuMemGetAddressRange", driver.functions().mem_get_address_range, &block.base,
                             &block.bytes, memory);
  if (!found) return found;
  if (memory < block.base || bytes > block.bytes || memory - block.base > block.bytes - bytes)
    return Status(Code::kNotFound, "memory in several allocations");
  return block;
}

Result<ForeignMemory::Base> ForeignMemory::by_handle(const Block& block) const {
  IpcMemoryHandle handle{};
  Status got = place_.driver->call("cuIpcGetMemHandle", place_.driver->functions().ipc_get_mem_handle,
                                   &handle, block.base);
  if (!got) return got;
  Base base{.bytes = block.bytes};
  static_assert(sizeof base.handle == sizeof handle.bytes);
  std::memcpy(base.handle.data(), handle.bytes, sizeof handle.bytes);
  return base;
}

// Entered here, since the descriptor goes to the broker with it.
Result<ForeignMemory::Base> ForeignMemory::by_descriptor(const Block& block, Pointer memory) const {
  const Driver& driver = *place_.driver;
  const Functions& functions = driver.functions();
  Allocation allocation = 0;
  Status kept = driver.call("cuMemRetainAllocationHandle", functions.mem_retain_allocation_handle,
                            &allocation, reinterpret_cast<void*>(memory));
  if (!kept) return kept;
  int file = -1;
  Status exported = driver.call("cuMemExportToShareableHandle", functions.mem_export_to_shareable_handle,
                                &file, allocation, HandleType::kFileDescriptor, 0ULL);
  (void)driver.call("cuMemRelease", functions.mem_release, allocation);
  if (!exported) return exported;
  os::Fd descriptor(file);
  if (Status closed = descriptor.set_close_on_exec(); !closed) return closed;
  const Result<memory_pool::Pools*> table = pools();
  if (!table) return table.status();
  const Result<PoolRef> pool = (*table)->enter(std::move(descriptor), block.bytes, uuid_,
                                               std::make_shared<Imported>(Imported{block.base, nullptr}));
  if (!pool) return pool.status();
  return Base{.pool = *pool, .bytes = block.bytes};
}

// The base may have been freed and its address allocated anew since it was entered: then its handle is another one.
Result<ForeignMemory::Base*> ForeignMemory::base_for(const Block& block, Pointer memory) {
  const Driver& driver = *place_.driver;
  const Result<int> legacy = attribute<int>(driver, PointerAttribute::kIsLegacyIpcCapable, memory);
  Result<Base> made = Status(Code::kUnsupported, "memory that the driver does not share");
  const auto known = bases_.find(block.base);
  if (legacy && *legacy != 0) {
    made = by_handle(block);
    // Not of memory that another process owns and this one has open.
    if (!made) made = Status(Code::kUnsupported, std::string(made.status().what()));
    if (made && known != bases_.end() && known->second.handle == made->handle) return &known->second;
  } else if (known != bases_.end() && known->second.handle == memory_pool::kNoHandle) {
    // Kept by the pool's own reference: the address cannot mean other memory while something of it is held.
    if (!known->second.held.empty() && known->second.bytes == block.bytes) return &known->second;
    made = by_descriptor(block, memory);
  } else {
    const Result<int> types = attribute<int>(driver, PointerAttribute::kAllowedHandleTypes, memory);
    if (types && (*types & static_cast<int>(HandleType::kFileDescriptor)) != 0)
      made = by_descriptor(block, memory);
  }
  if (!made) return made.status();
  const Result<memory_pool::Pools*> table = pools();
  if (!table) return table.status();
  if (made->handle != memory_pool::kNoHandle) {
    const Result<PoolRef> pool = (*table)->enter_origin(
        made->handle, block.bytes, uuid_, std::make_shared<Imported>(Imported{block.base, nullptr}));
    if (!pool) return pool.status();
    made->pool = *pool;
  }
  if (known != bases_.end()) (void)(*table)->leave(known->second.pool);
  return &(bases_[block.base] = *std::move(made));
}

Result<arena::LeasePtr> ForeignMemory::share(Pointer memory, std::size_t bytes, const Owner& owner) {
  trim(kIdleBases);
  const Result<Block> block = block_of(memory, bytes);
  if (block.code() == Code::kNotFound) return copy(memory, bytes);
  if (!block) return block.status();
  std::unique_lock held(mutex_);
  const Result<Base*> base = base_for(*block, memory);
  if (base.code() == Code::kUnsupported) {
    held.unlock();
    return copy(memory, bytes);
  }
  if (!base) return base.status();
  const Result<memory_pool::Pools*> table = pools();
  if (!table) return table.status();
  const Range range{memory - block->base, bytes};
  Result<arena::LeasePtr> lease = (*table)->share((*base)->pool, range.offset, range.bytes);
  if (lease) (*base)->held.try_emplace(range, owner);
  return lease;
}

Status ForeignMemory::copy_within(Pointer to, Pointer from, std::size_t bytes) const {
  const Driver& driver = *place_.driver;
  // What its owner has queued is done first, on whatever stream.
  Status done = driver.call("cuCtxSynchronize", driver.functions().ctx_synchronize);
  if (done)
    done = driver.call("cuMemcpyDtoDAsync", driver.functions().memcpy_dtod_async, to, from, bytes, stream_);
  if (!done) return done;
  done = driver.call("cuStreamSynchronize", driver.functions().stream_synchronize, stream_);
  // The caller gives the copy up, which must not happen while it is still being made.
  if (!done) (void)driver.call("cuCtxSynchronize", driver.functions().ctx_synchronize);
  return done;
}

Result<arena::LeasePtr> ForeignMemory::copy(Pointer memory, std::size_t bytes) {
  const Result<Pointer> made = own_.allocate(bytes);
  if (!made) return made.status();
  Status copied = copy_within(*made, memory, bytes);
  Result<arena::LeasePtr> lease = copied ? own_.share(*made, bytes) : Result<arena::LeasePtr>(copied);
  own_.free(*made);  // the lease keeps it
  return lease;
}

// --- the end of what is shared

void ForeignMemory::collect(Base& base, std::vector<Owner>& dropped) {
  node::Node* const node = node::Node::existing();
  if (node == nullptr || base.held.empty() || !node->memory_pools().has_returned(base.pool)) return;
  (void)node->memory_pools().visit_returned(base.pool, [&](std::uint64_t offset, std::uint64_t bytes) {
    const auto range = base.held.find({offset, bytes});
    if (range == base.held.end()) return;
    dropped.push_back(std::move(range->second));
    base.held.erase(range);
  });
}

void ForeignMemory::collect() {
  auto dropped = std::make_unique<std::vector<Owner>>();  // after the lock: a deleter may take Python's
  const std::lock_guard held(mutex_);
  for (auto& [address, base] : bases_) collect(base, *dropped);
  if (leaving_ && !dropped->empty()) (void)dropped.release();
}

void ForeignMemory::trim(std::size_t kept) {
  collect();
  node::Node* const node = node::Node::existing();
  const std::lock_guard held(mutex_);
  std::erase_if(bases_, [&](const auto& each) {
    if (!each.second.held.empty()) return false;
    if (kept > 0) {
      --kept;
      return false;
    }
    return node == nullptr || node->memory_pools().leave(each.second.pool).ok();
  });
}

std::size_t ForeignMemory::shared() {
  collect();
  const std::lock_guard held(mutex_);
  std::size_t count = 0;
  for (const auto& [address, base] : bases_) count += base.held.size();
  return count;
}

// The copy and the place are exchanged before it is asked which processes hold the range: those that open it from
// now on find the copy.
Result<ForeignMemory::Moved> ForeignMemory::move_to_own(Pointer address, const Base& from,
                                                        const Range& range) {
  const Result<Pointer> made = own_.allocate(range.bytes);
  if (!made) return made.status();
  const auto move = [&]() -> Result<Moved> {
    if (Status copied = copy_within(*made, address + range.offset, range.bytes); !copied) return copied;
    memory_pool::Pools& table = node::Node::existing()->memory_pools();
    const Result<arena::LeasePtr> copy = own_.share(*made, range.bytes);
    if (!copy) return copy.status();
    const Result<memory_pool::PieceInfo> place = table.describe(**copy);
    if (!place) return place.status();
    Status moved = table.relocate(from.pool, range.offset, range.bytes, **copy);
    if (!moved) return moved;
    return Moved{place->pool, place->offset, range.bytes,
                 table.holders(place->pool, place->offset, range.bytes)};
  };
  Result<Moved> moved = move();
  own_.free(*made);  // what holds the range keeps it
  return moved;
}

std::vector<ForeignMemory::Moved> ForeignMemory::move_all(std::map<std::string, std::size_t>& failures) {
  std::vector<Moved> moved;
  const std::lock_guard held(mutex_);
  for (const auto& [address, base] : bases_) {
    if (base.handle == memory_pool::kNoHandle) continue;
    for (const auto& [range, owner] : base.held) {
      Result<Moved> one = move_to_own(address, base, range);
      if (one) {
        moved.push_back(*std::move(one));
      } else if (one.code() != Code::kInvalid) {  // that nobody holds it any more
        ++failures[one.status().to_string()];
      }
    }
  }
  return moved;
}

bool ForeignMemory::begin_to_leave() {
  {
    const std::lock_guard held(mutex_);
    leaving_ = true;
  }
  return shared() != 0;
}

std::string ForeignMemory::leave(os::Deadline deadline, bool wait_for_messages) {
  node::Node* const node = node::Node::existing();
  if (node == nullptr) return {};
  // Nothing tells that a range came back: it is looked for.
  const auto wait_while = [&](auto&& goes_on) {
    while (goes_on()) {
      if (deadline.passed()) return;
      ::usleep(kPollMicroseconds);
      node->domain().check_deaths();
    }
  };
  if (wait_for_messages) wait_while([&] { return shared() != 0; });
  collect();
  std::map<std::string, std::size_t> failures;
  const std::vector<Moved> moved = move_all(failures);
  const auto still_there = [&] {
    std::set<std::uint64_t> pids;
    for (const Moved& each : moved) {
      const std::vector<domain::SlotRef> now =
          node->memory_pools().holders(each.pool, each.offset, each.bytes);
      for (const domain::SlotRef slot : each.holders) {
        if (std::find(now.begin(), now.end(), slot) != now.end()) pids.insert(node->domain().pid_of(slot));
      }
    }
    return pids;
  };
  wait_while([&] { return !still_there().empty(); });
  std::string users;
  for (const std::uint64_t pid : still_there()) users += (users.empty() ? "" : ", ") + std::to_string(pid);
  std::string lost;
  if (!users.empty()) lost = "process " + users + " still has memory open that ends now";
  for (const auto& [why, count] : failures) {
    lost += (lost.empty() ? "" : "; ") + std::to_string(count) +
            " ranges that others hold could not be copied (" + why + ")";
  }
  return lost;
}

}  // namespace forklift::inline abi_0_1::device::cuda
