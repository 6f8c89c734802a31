// The process-private side: mapping, allocation, handles. Lease objects are in lease.cpp, transactions in
// ledger.cpp.
#include "arena/arena.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "os/memfd.h"

namespace forklift::arena {

namespace {
// Below this the page faults of first touches cost less than the calls that avoid them.
constexpr std::uint64_t kPopulateFrom = 64 * 1024;
}  // namespace

Status Arena::lay_out(domain::Domain& domain) {
  auto* state = reinterpret_cast<ArenaState*>(domain.region(domain::Region::kArena).data());
  static_assert(sizeof(ArenaState) <= 64 * 1024);
  if (Status status = state->mutex.init(); !status) return status;
  for (auto& kind : state->depots)
    for (Depot& depot : kind)
      if (Status status = depot.mutex.init(); !status) return status;
  // One free block for each half: everything else comes from splitting.
  const unsigned size_class = static_cast<unsigned>(std::countr_zero(domain.data_bytes() / 2));
  auto* blocks = reinterpret_cast<BlockRow*>(domain.region(domain::Region::kBlocks).data());
  for (std::uint32_t kind = 0; kind < kKinds; ++kind) {
    blocks[kind].offset.store(kind * (domain.data_bytes() / 2));
    blocks[kind].meta.store(
        BlockMeta{0, static_cast<std::uint8_t>(size_class), static_cast<Kind>(kind), BlockState::kFree, true}
            .pack());
    state->cold[kind][size_class].store(kind + 1);
  }
  state->blocks_used.store(kKinds);
  return {};
}

Arena::Arena(domain::Domain& domain)
    : domain_(domain),
      state_(reinterpret_cast<ArenaState*>(domain.region(domain::Region::kArena).data())),
      blocks_(reinterpret_cast<BlockRow*>(domain.region(domain::Region::kBlocks).data())),
      leases_(reinterpret_cast<LeaseRow*>(domain.region(domain::Region::kLeases).data())),
      block_capacity_(domain.region(domain::Region::kBlocks).size() / sizeof(BlockRow)),
      lease_capacity_(domain.region(domain::Region::kLeases).size() / sizeof(LeaseRow)),
      half_(domain.data_bytes() / 2),
      views_(domain.data_file(), half_, half_) {}

Result<std::unique_ptr<Arena>> Arena::open(domain::Domain& domain) {
  std::unique_ptr<Arena> arena(new Arena(domain));
  Result<os::Mapping> data = os::Mapping::shared(domain.data_file(), 0, domain.data_bytes());
  if (!data) return data.status();
  arena->data_ = *std::move(data);
  Arena* self = arena.get();
  domain.on_reap([self](domain::SlotRef slot, bool) { return self->release_held_by(Holder::process(slot)); });
  domain.on_attach([self] { self->forget_leases(); });
  arena->fork_ = std::make_unique<domain::ForkRegistration>(
      domain, domain::ForkHooks{[self](const domain::SlotRef* child) { self->before_fork(child); },
                                [self] { self->mutex_.unlock(); },
                                [self](bool attached) { self->after_fork_in_child(attached); }});
  return arena;
}

Arena::~Arena() = default;

std::uint64_t Arena::budget() noexcept {
  return domain_.budget(state_->committed.load(std::memory_order_relaxed));
}

Result<LeasePtr> Arena::allocate(Kind kind, std::size_t bytes, bool zeroed) {
  if (!domain_.attached()) return domain_.not_attached();
  if (bytes == 0) return Status(Code::kInvalid, "a block of 0 bytes");
  LeasePtr lease = blank_lease();
  const unsigned size_class = class_for(kind, bytes);
  Grant got;
  CachedBlock kept;
  bool found = false;
  bool unmapped = false;
  {
    const std::lock_guard<sync::SpinLock> lock(mutex_);
    found = magazine_.take(kind, size_class, pages_for(bytes, size_class), kept);
    if (found) {
      got = reopen(kept, kind, size_class, bytes);
      unmapped = enter_block(*lease, kind, bytes, got);
    }
  }
  if (!found) {
    if (Status status = obtain(kind, bytes, got); !status) return status;
    const std::lock_guard<sync::SpinLock> lock(mutex_);
    unmapped = enter_block(*lease, kind, bytes, got);
  }

  if (bytes >= kPopulateFrom && (unmapped || got.fresh_to > got.fresh_from)) {
    // fallocate and then populate is cheaper than populate alone; neither can report a shortage of memory,
    // which is what the budget is for.
    if (got.fresh_to > got.fresh_from && domain_.descriptors_intact()) {
      (void)os::allocate_range(domain_.data_file(), got.offset + got.fresh_from,
                               got.fresh_to - got.fresh_from);
    }
    os::populate_write(lease->data_, bytes);
  }
  if (zeroed) {
    // Pages that never existed, or were punched, read as zero already.
    std::memset(lease->data_, 0,
                std::min<std::uint64_t>(bytes, got.fresh_to > got.fresh_from ? got.fresh_from : bytes));
  }
  return lease;
}

// Private lock held. True: its pages are not in this process's page table, as far as known.
bool Arena::enter_block(Lease& lease, Kind kind, std::size_t bytes, const Grant& got) {
  const auto row = static_cast<std::uint32_t>(got.row);
  const auto block = static_cast<std::uint32_t>(got.block);
  lease.arena_ = this;
  lease.object_ = {ObjectKind::kBlock, block};
  lease.row_.store(row, std::memory_order_relaxed);
  lease.kind_ = kind;
  lease.size_ = bytes;
  lease.data_ = data_.data() + got.offset;
  lease.handle_ = {0, block, static_cast<std::uint32_t>(got.generation), row, got.offset, bytes};
  link(lease);
  return bytes >= kPopulateFrom && resident_.misses(block, bytes);
}

Result<LeasePtr> Arena::hold(Object object) {
  if (!domain_.attached()) return domain_.not_attached();
  Result<std::uint32_t> row = add_row(object, Holder::process(domain_.self()));
  if (!row) return row.status();
  LeasePtr lease = make_lease(object, *row);
  enlist(*lease);
  return lease;
}

Status Arena::check_child() const {
  if (!domain_.is_set_aside()) return {};
  return {Code::kInvalid,
          "the child is of another domain: what a module that the fork server has preloaded made cannot be "
          "an argument of processes"};
}

Status Arena::hold_for(Object object, Holder holder) {
  Result<std::uint32_t> row = add_row(object, holder, true);
  return row ? Status() : row.status();
}

// Only an offered row: others have Lease objects, also those that are just being made or given up elsewhere
// in this process.
Result<LeasePtr> Arena::claim_row_for_self(Object object) {
  for (const auto& [row, held] : rows_of(Holder::process(domain_.self()), object.kind)) {
    if (held.index != object.index || lease(row).offered.load(std::memory_order_relaxed) == 0) continue;
    Result<bool> mine = accept_row(row, object);
    if (!mine) return mine.status();
    if (!*mine) continue;
    LeasePtr lease = make_lease(object, row);
    enlist(*lease);
    return lease;
  }
  return Status(Code::kInvalid, "this process was handed no right to object " + std::to_string(object.index));
}

Result<Handle> Arena::offer(const LeasePtr& lease, domain::SlotRef child) {
  if (!domain_.attached()) return domain_.not_attached();
  if (!lease->held()) return Status(Code::kInvalid, "the lease was passed on already");
  if (Status status = check_child(); !status) return status;
  Result<std::uint32_t> row = add_row(lease->object_, Holder::process(child), true);
  if (!row) return row.status();
  const std::lock_guard<sync::SpinLock> lock(mutex_);
  Handle handle = lease->handle_;
  handle.lease = *row;
  return handle;
}

Result<LeasePtr> Arena::claim(const Handle& handle) {
  if (!domain_.attached()) return domain_.not_attached();
  if (Status status = check(handle, Holder::process(domain_.self())); !status) return status;
  Result<bool> mine = accept_row(handle.lease, {ObjectKind::kBlock, handle.block});
  if (!mine) return mine.status();
  if (!*mine) return Status(Code::kInvalid, "a block that was offered once was claimed twice");
  return materialise(handle);
}

std::vector<std::pair<std::uint32_t, Object>> Arena::rows_of(Holder holder, ObjectKind kind) const {
  std::vector<std::pair<std::uint32_t, Object>> found;
  const std::uint64_t used = std::min(state_->leases_used.load(std::memory_order_acquire), lease_capacity_);
  for (std::uint32_t row = 0; row < used; ++row) {
    if (lease(row).holder.load(std::memory_order_acquire) != holder.word) continue;
    const std::uint64_t word = lease(row).object.load(std::memory_order_relaxed);
    if (word != 0 && Object::unpack(word).kind == kind) found.emplace_back(row, Object::unpack(word));
  }
  return found;
}

Status Arena::check(const Handle& handle, Holder message) const {
  const auto corrupt = [&](const char* why) {
    return Status(Code::kCorrupt,
                  std::string("a handle of a message is wrong: ") + why + " (segment " +
                      std::to_string(handle.segment) + ", block " + std::to_string(handle.block) +
                      ", generation " + std::to_string(handle.generation) + ", offset " +
                      std::to_string(handle.offset) + ", length " + std::to_string(handle.length) + ")");
  };
  if (handle.segment != 0) return corrupt("no such segment");
  if (handle.block >= std::min(state_->blocks_used.load(std::memory_order_acquire), block_capacity_)) {
    return corrupt("no such block");
  }
  if (handle.lease >= std::min(state_->leases_used.load(std::memory_order_acquire), lease_capacity_)) {
    return corrupt("no such lease");
  }
  const BlockRow& row = block(handle.block);
  const BlockMeta meta = BlockMeta::unpack(row.meta.load(std::memory_order_relaxed));
  if (meta.state != BlockState::kHeld) return corrupt("the block is not in use");
  if (meta.generation != handle.generation) return corrupt("the block has another generation");
  const std::uint64_t begin = row.offset.load(std::memory_order_relaxed);
  const std::uint64_t bytes = std::uint64_t{1} << meta.size_class;
  if (handle.offset != begin) return corrupt("the offset is not the block's");
  if (handle.length == 0 || handle.length > bytes) return corrupt("the length is not within the block");
  const LeaseRow& right = lease(handle.lease);
  if (right.object.load(std::memory_order_relaxed) != Object{ObjectKind::kBlock, handle.block}.pack()) {
    return corrupt("the lease is for something else");
  }
  if (right.holder.load(std::memory_order_relaxed) != message.word)
    return corrupt("the lease is not this message's");
  return {};
}

void Arena::give(Lease& lease, Holder message) noexcept {
  const std::uint32_t row = lease.row_;
  if (row == Lease::kNoRow) return;  // another thread has just passed it on; the receiver's check will tell
  leases_[row].holder.store(message.word, std::memory_order_release);
  lease.row_ = Lease::kNoRow;
}

void Arena::take(const Handle& handle) noexcept {
  leases_[handle.lease].holder.store(Holder::process(domain_.self()).word, std::memory_order_release);
}

LeasePtr Arena::materialise(const Handle& handle) {
  LeasePtr lease = make_lease({ObjectKind::kBlock, handle.block}, handle.lease);
  lease->kind_ = BlockMeta::unpack(block(handle.block).meta.load(std::memory_order_relaxed)).kind;
  lease->size_ = handle.length;
  lease->handle_ = handle;
  lease->data_ = shared_data(handle);
  bool unmapped = false;
  {
    const std::lock_guard<sync::SpinLock> lock(mutex_);
    link(*lease);
    unmapped = lease->kind_ == Kind::kShare && handle.length >= kPopulateFrom &&
               resident_.misses(handle.block, handle.length);
  }
  if (unmapped) os::populate_write(lease->data_, handle.length);
  return lease;
}

Result<LeasePtr> Arena::share(const Handle& handle, Holder message) {
  if (!domain_.attached()) return domain_.not_attached();
  Result<std::uint32_t> row = share_row(handle, message);
  if (!row) return row.status();
  Handle mine = handle;
  mine.lease = *row;
  return materialise(mine);
}

Status Arena::privatise(Lease& lease) {
  if (lease.kind_ != Kind::kPrivate || lease.view_) return {};
  bool populate = false;
  {
    const std::lock_guard<sync::SpinLock> lock(mutex_);
    Result<View*> view = views_.current();
    if (!view) return view.status();
    lease.view_ = *view;
    ++(*view)->live;
    lease.data_ = views_.address(**view, lease.handle_.offset);
    populate = lease.size_ >= kPopulateFrom &&
               ((*view)->is_private || (*view)->resident.misses(lease.handle_.block, lease.size_));
  }
  if (populate) os::populate_read(lease.data_, lease.size_);
  return {};
}

}  // namespace forklift::arena
