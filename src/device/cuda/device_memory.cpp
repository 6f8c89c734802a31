#include "device/cuda/device_memory.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "node/node.h"
#include "os/clock.h"
#include "os/limits.h"

namespace forklift::inline abi_0_1::device::cuda {

using memory_pool::PoolRef;

namespace {

constexpr double kBrokerSeconds = 2;

std::size_t round_up(std::size_t bytes, std::size_t unit) noexcept {
  return (bytes + unit - 1) / unit * unit;
}

Status no_range(Pointer memory) {
  return {Code::kInvalid,
          "no tensor of this process begins at address " + std::to_string(memory) + " of the device"};
}

}  // namespace

DeviceMemory::DeviceMemory(const MemoryPlace& place, const memory_pool::DeviceUuid& uuid, std::string name)
    : place_(place), uuid_(uuid), name_(std::move(name)) {}

Result<Pointer> DeviceMemory::allocate(std::size_t bytes) {
  if (bytes > SIZE_MAX / 2) return Status(Code::kInvalid, std::to_string(bytes) + " bytes on " + name_);
  const std::size_t wanted = round_up(bytes, kAlignment);
  const std::lock_guard held(mutex_);
  collect();
  Result<Pointer> found = take(wanted);
  if (found.code() != Code::kNotFound) return found;
  if (Status made = add_pool(wanted); !made) return made;
  return take(wanted);
}

// The smallest free range that fits. kNotFound: there is none.
Result<Pointer> DeviceMemory::take(std::size_t bytes) {
  const auto best = free_.lower_bound({bytes, 0});
  if (best == free_.end()) return Status(Code::kNotFound, "no free range");
  const Pointer address = best->second;
  free_.erase(best);
  Pool& pool = pool_of(address)->second;
  Range& range = pool.ranges.at(address);
  if (range.bytes > bytes) {
    const Range rest{range.bytes - bytes, State::kFree};
    pool.ranges.emplace(address + bytes, rest);
    free_.emplace(rest.bytes, address + bytes);
    range.bytes = bytes;
  }
  range.state = State::kUsed;
  return address;
}

void DeviceMemory::free(Pointer memory) noexcept {
  const std::lock_guard held(mutex_);
  const auto pool = pool_of(memory);
  if (pool == pools_.end()) return;
  const auto at = pool->second.ranges.find(memory);
  if (at == pool->second.ranges.end()) return;
  if (at->second.state == State::kShared) {
    at->second.state = State::kAway;
    collect();
  } else if (at->second.state == State::kUsed || at->second.state == State::kReturned) {
    release(pool->second, at);
  }
}

// Makes a range free, and one with its free neighbours.
void DeviceMemory::release(Pool& pool, std::map<Pointer, Range>::iterator at) {
  at->second.state = State::kFree;
  if (const auto next = std::next(at); next != pool.ranges.end() && next->second.state == State::kFree) {
    free_.erase({next->second.bytes, next->first});
    at->second.bytes += next->second.bytes;
    pool.ranges.erase(next);
  }
  if (at != pool.ranges.begin()) {
    if (const auto before = std::prev(at); before->second.state == State::kFree) {
      free_.erase({before->second.bytes, before->first});
      before->second.bytes += at->second.bytes;
      pool.ranges.erase(at);
      at = before;
    }
  }
  free_.emplace(at->second.bytes, at->first);
}

// Learns which shared ranges nobody holds any more.
void DeviceMemory::collect() {
  memory_pool::Pools* const table = this->table();
  if (table == nullptr) return;
  for (auto& [base, pool] : pools_) {
    if (pool.shared == 0 || !table->has_returned(pool.ref)) continue;
    const Pointer begin = base;
    Pool& mine = pool;
    // What cannot be learnt now is learnt at the next visit.
    (void)table->visit_returned(pool.ref, [&](std::uint64_t offset, std::uint64_t) {
      const auto at = mine.ranges.find(begin + offset);
      if (at == mine.ranges.end()) return;
      --mine.shared;
      if (at->second.state == State::kAway) {
        release(mine, at);
      } else {
        at->second.state = State::kReturned;
      }
    });
  }
}

Result<arena::LeasePtr> DeviceMemory::share(Pointer memory, std::size_t bytes) {
  const std::lock_guard held(mutex_);
  collect();
  const auto pool = pool_of(memory);
  if (pool == pools_.end()) return no_range(memory);
  const auto at = pool->second.ranges.find(memory);
  if (at == pool->second.ranges.end() || at->second.state == State::kFree || at->second.state == State::kAway)
    return no_range(memory);
  memory_pool::Pools* const table = this->table();
  if (table == nullptr) return Status(Code::kNotAttached, "this process belongs to no domain");
  Result<arena::LeasePtr> lease = table->share(pool->second.ref, memory - pool->first, bytes);
  if (lease && at->second.state != State::kShared) {
    at->second.state = State::kShared;
    ++pool->second.shared;
  }
  return lease;
}

DeviceMemory::Pools::iterator DeviceMemory::pool_of(Pointer memory) {
  auto next = pools_.upper_bound(memory);
  if (next == pools_.begin()) return pools_.end();
  --next;
  return memory - next->first < next->second.range->bytes() ? next : pools_.end();
}

memory_pool::Pools* DeviceMemory::table() const {
  node::Node* const node = node::Node::existing();
  return node == nullptr ? nullptr : &node->memory_pools();
}

// --- pools

Status DeviceMemory::add_pool(std::size_t bytes) {
  const Result<bool> is_virtual = DeviceRange::has_virtual_memory(place_);
  if (!is_virtual) return is_virtual.status();
  const Result<std::size_t> unit =
      *is_virtual ? DeviceRange::granularity(place_) : Result<std::size_t>(kAlignment);
  if (!unit) return unit.status();
  const std::size_t exact = round_up(bytes, *unit);
  const std::size_t usual = round_up(std::max(bytes, kPoolBytes), *unit);
  Status made = make_pool(usual);
  // Memory is short: what is kept for later goes back, and the pool is no larger than it must be.
  if (made.code() == Code::kNoSpace || made.code() == Code::kOverBudget) {
    const bool trimmed = trim_locked() != 0;
    made = make_pool(usual);
    // The broker has descriptors of what went back, until it has heard of it.
    const os::Deadline heard = os::Deadline::after_seconds(kBrokerSeconds);
    while (trimmed && made.code() == Code::kNoSpace && !heard.passed()) {
      ::usleep(1000);
      made = make_pool(usual);
    }
    if (!made && usual != exact) made = make_pool(exact);
  }
  return made.code() == Code::kNoSpace ? out_of_memory(bytes, made) : made;
}

Status DeviceMemory::make_pool(std::size_t bytes) {
  const Result<node::Node*> node = node::Node::home();
  if (!node) return node.status();
  if (Status status = check_budget(bytes); !status) return status;
  const Result<bool> is_virtual = DeviceRange::has_virtual_memory(place_);
  if (!is_virtual) return is_virtual.status();
  os::Fd descriptor;
  memory_pool::OriginHandle handle{};
  Result<std::shared_ptr<DeviceRange>> range = *is_virtual ? DeviceRange::create(place_, bytes, &descriptor)
                                                           : DeviceRange::allocate(place_, bytes, &handle);
  if (!range) return range.status();
  const auto memory = std::make_shared<Imported>(Imported{(*range)->base(), *range});
  memory_pool::Pools& table = (*node)->memory_pools();
  const Result<PoolRef> ref = *is_virtual ? table.enter(std::move(descriptor), bytes, uuid_, memory)
                                          : table.enter_origin(handle, bytes, uuid_, memory);
  if (!ref) return ref.status();
  if (!*is_virtual && !std::exchange(said_, true)) {
    const int version = place_.driver->version();
    log(Severity::kWarning,
        name_ + " has no virtual memory with descriptors (driver " + std::to_string(version / 1000) + "." +
            std::to_string(version % 1000 / 10) +
            "): its tensors are shared by legacy handles, and other processes lose them when "
            "this one ends");
  }
  const Pointer base = (*range)->base();
  Pool& pool = pools_[base];
  pool.range = *std::move(range);
  pool.ref = *ref;
  pool.ranges.emplace(base, Range{bytes, State::kFree});
  free_.emplace(bytes, base);
  return {};
}

Status DeviceMemory::check_budget(std::size_t bytes) const {
  const Result<std::uint64_t> budget = os::bytes_in_environment("FORKLIFT_DEVICE_BUDGET");
  if (!budget) return budget.status();
  if (*budget == UINT64_MAX) return {};
  const std::uint64_t in_use = table()->bytes_on(uuid_);
  if (bytes <= *budget && in_use <= *budget - bytes) return {};
  return {Code::kOverBudget, "asked " + std::to_string(bytes) + " bytes of " + name_ + ", " +
                                 std::to_string(in_use) + " are in use by all processes, " +
                                 std::to_string(*budget) + " are allowed (FORKLIFT_DEVICE_BUDGET)"};
}

std::size_t DeviceMemory::trim() {
  const std::lock_guard held(mutex_);
  collect();
  return trim_locked();
}

std::size_t DeviceMemory::trim_locked() {
  std::size_t bytes = 0;
  for (auto each = pools_.begin(); each != pools_.end();) {
    Pool& pool = each->second;
    if (pool.ranges.size() != 1 || pool.ranges.begin()->second.state != State::kFree ||
        !table()->leave(pool.ref)) {
      ++each;
      continue;
    }
    bytes += pool.range->bytes();
    free_.erase({pool.range->bytes(), each->first});
    each = pools_.erase(each);
  }
  return bytes;
}

Status DeviceMemory::out_of_memory(std::size_t bytes, const Status& why) {
  std::size_t free = 0;
  std::size_t total = 0;
  (void)place_.driver->call("cuMemGetInfo", place_.driver->functions().mem_get_info, &free, &total);
  std::size_t mine = 0;
  for (const auto& [base, pool] : pools_) mine += pool.range->bytes();
  return {Code::kNoSpace, name_ + " has no memory for " + std::to_string(bytes) +
                              " bytes: " + std::to_string(free) + " of " + std::to_string(total) +
                              " bytes are free, this process has " + std::to_string(mine) + " in " +
                              std::to_string(pools_.size()) + " pools; " + std::string(why.what())};
}

DeviceMemory::Stats DeviceMemory::stats() {
  const std::lock_guard held(mutex_);
  collect();
  Stats stats;
  for (const auto& [base, pool] : pools_) {
    ++stats.pools;
    stats.bytes += pool.range->bytes();
    for (const auto& [address, range] : pool.ranges) {
      if (range.state == State::kAway) stats.away += range.bytes;
      if (range.state != State::kAway && range.state != State::kFree) stats.used += range.bytes;
    }
  }
  return stats;
}

}  // namespace forklift::inline abi_0_1::device::cuda
