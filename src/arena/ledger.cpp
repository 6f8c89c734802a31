#include "arena/ledger.h"

#include <algorithm>
#include <bit>
#include <string>

namespace forklift::inline abi_0_1::arena {

namespace {

// Free blocks up to this stay warm whatever the budget.
constexpr std::uint64_t kAlwaysKept = std::uint64_t{64} << 20;

Status object_is_gone() { return {Code::kInvalid, "the object is gone"}; }
Status table_is_full() { return {Code::kNoSpace, "the lease table is full"}; }

// Sequences of messages count modulo 2^30.
std::uint64_t distance(std::uint32_t sequence, std::uint64_t from) { return (sequence - from) & 0x3fffffffU; }

}  // namespace

Status Ledger::lay_out(domain::Domain& domain) {
  static_assert(sizeof(ArenaState) <= 64 * 1024);
  const Rows rows(domain);
  if (Status status = rows.state().mutex.init(); !status) return status;
  // One free block for each half: everything else comes from splitting.
  const unsigned size_class = rows.largest_class();
  for (std::uint32_t kind = 0; kind < kKinds; ++kind) {
    rows.block(kind).offset.store(kind * rows.half());
    rows.block(kind).meta.store(
        BlockMeta{0, static_cast<std::uint8_t>(size_class), static_cast<Kind>(kind), BlockState::kFree, true}
            .pack());
    rows.state().cold[kind][size_class].store(kind + 1);
  }
  rows.state().blocks_used.store(kKinds);
  return {};
}

// Does the handle name something that is there? Why not, or nullptr.
const char* Ledger::problem_of(const Handle& handle) const {
  if (handle.segment == kNamedSegment || handle.segment == kPoolPiece) {
    const ObjectHooks& hooks = hooks_of(object_of(handle).kind);
    if (hooks.matches && hooks.matches(handle)) return nullptr;
    return handle.segment == kNamedSegment ? "no such named segment" : "no such piece of a memory pool";
  }
  if (handle.segment != kDataSegment) return "no such segment";
  if (handle.block >= rows_.blocks_used()) return "no such block";
  const BlockRow& row = rows_.block(handle.block);
  const BlockMeta meta = BlockMeta::unpack(row.meta.load(std::memory_order_relaxed));
  if (meta.state != BlockState::kHeld) return "the block is not in use";
  if (meta.generation != handle.generation) return "the block has another generation";
  const std::uint64_t start = row.start.load(std::memory_order_relaxed);
  const std::uint64_t bytes = std::uint64_t{1} << meta.size_class;
  if (handle.offset != row.offset.load(std::memory_order_relaxed) + start)
    return "the offset is not the block's";
  if (handle.length == 0 || handle.length > bytes || start > bytes - handle.length)
    return "the length is not within the block";
  return nullptr;
}

Status Ledger::check(const Handle& handle, Holder holder) const {
  const auto corrupt = [&](const char* why) {
    return Status(Code::kCorrupt,
                  std::string("a handle of a message is wrong: ") + why + " (segment " +
                      std::to_string(handle.segment) + ", block " + std::to_string(handle.block) +
                      ", generation " + std::to_string(handle.generation) + ", offset " +
                      std::to_string(handle.offset) + ", length " + std::to_string(handle.length) + ")");
  };
  if (const char* why = problem_of(handle)) return corrupt(why);
  if (handle.lease >= rows_.leases_used()) return corrupt("no such lease");
  const LeaseRow& right = rows_.lease(handle.lease);
  if (right.object.load(std::memory_order_relaxed) != object_of(handle).pack())
    return corrupt("the lease is for something else");
  if (right.holder.load(std::memory_order_relaxed) != holder.word)
    return corrupt("the lease is not this message's");
  return {};
}

Result<std::uint32_t> Ledger::share_row(const Handle& handle, Holder message) {
  sync::LockGuard guard = rows_.lock();
  if (!guard.ok()) return guard.status();
  // With the lock, the answer holds until the commit: whoever drops the message releases its row, which needs
  // the lock too.
  if (Status status = check(handle, message); !status) return status;
  Word& count = count_of(object_of(handle));
  sync::Transaction change = rows_.begin();
  const std::uint32_t row = rows_.take_lease(change);
  if (row >= rows_.lease_capacity()) return table_is_full();
  change.set(count, count.load(std::memory_order_relaxed) + 1);
  rows_.enter(change, row, object_of(handle), rows_.self());
  change.commit();
  return row;
}

template <class Also>
Result<std::uint32_t> Ledger::add_row_with(Object object, Holder holder, Also&& also) {
  sync::LockGuard guard = rows_.lock();
  if (!guard.ok()) return guard.status();
  Word& count = count_of(object);
  const std::uint64_t holders = count.load(std::memory_order_relaxed);
  if (holders == 0) return object_is_gone();
  sync::Transaction change = rows_.begin();
  const std::uint32_t row = rows_.take_lease(change);
  if (row >= rows_.lease_capacity()) return table_is_full();
  if (Status status = also(change, row); !status) return status;
  change.set(count, holders + 1);
  rows_.enter(change, row, object, holder);
  change.commit();
  return row;
}

Result<std::uint32_t> Ledger::add_row(Object object, Holder holder, bool offered) {
  return add_row_with(object, holder, [&](sync::Transaction& change, std::uint32_t row) -> Status {
    if (offered) change.set(rows_.lease(row).offered, 1);
    return {};
  });
}

Result<bool> Ledger::accept_row(std::uint32_t row, Object object) {
  sync::LockGuard guard = rows_.lock();
  if (!guard.ok()) return guard.status();
  LeaseRow& offer = rows_.lease(row);
  if (offer.offered.load(std::memory_order_relaxed) == 0 ||
      offer.object.load(std::memory_order_relaxed) != object.pack() ||
      offer.holder.load(std::memory_order_relaxed) != rows_.self().word) {
    return false;
  }
  sync::Transaction change = rows_.begin();
  change.set(offer.offered, 0);
  change.commit();
  return true;
}

Result<std::uint32_t> Ledger::add_new(Object& object, const Fill& fill) {
  sync::LockGuard guard = rows_.lock();
  if (!guard.ok()) return guard.status();
  sync::Transaction change = rows_.begin();
  const std::uint32_t row = rows_.take_lease(change);
  if (row >= rows_.lease_capacity()) return table_is_full();
  if (Status status = fill(change, object); !status) return status;
  change.set(count_of(object), 1);
  rows_.enter(change, row, object, rows_.self());
  change.commit();
  return row;
}

Status Ledger::hold_for(Object object, Holder holder) {
  const Result<std::uint32_t> row = add_row(object, holder, true);
  return row ? Status() : row.status();
}

Status Ledger::hold_for(Object object, Holder holder, const FillRow& fill) {
  if (!rows_.domain().attached()) return rows_.domain().not_attached();
  const Result<std::uint32_t> row = add_row_with(object, holder, fill);
  return row ? Status() : row.status();
}

Result<std::pair<std::uint32_t, Object>> Ledger::take_over(Holder holder, const ChooseRow& choose) {
  sync::LockGuard guard = rows_.lock();
  if (!guard.ok()) return guard.status();
  sync::Transaction change = rows_.begin();
  const Result<std::uint32_t> chosen = choose(change);
  if (!chosen) return chosen.status();
  const std::uint32_t row = *chosen;
  if (row >= rows_.lease_capacity() || rows_.lease(row).holder.load(std::memory_order_relaxed) != holder.word)
    return Status(Code::kCorrupt, "a row of the ledger is not held by its expected holder");
  const Object object = Object::unpack(rows_.lease(row).object.load(std::memory_order_relaxed));
  change.set(rows_.lease(row).holder, rows_.self().word);
  change.commit();
  return std::pair(row, object);
}

bool Ledger::release_row(std::uint32_t row, Holder holder) {
  std::uint64_t cached = 0;
  {
    sync::LockGuard guard = rows_.lock();
    if (!guard.ok()) return false;
    const std::uint64_t word = rows_.lease(row).object.load(std::memory_order_relaxed);
    // A caller that chose the row without the lock may have seen one that a dead process was giving up: by
    // now it is free or has another holder.
    if (word == 0 || rows_.lease(row).holder.load(std::memory_order_relaxed) != holder.word) return true;
    const Object object = Object::unpack(word);
    if (object.kind != ObjectKind::kBlock) {
      guard.unlock();
      return release_object_row(row, object);
    }
    free_blocks_.drop_lease(row, object.index);
    cached = state().cached.load(std::memory_order_relaxed);
  }
  if (cached > kAlwaysKept && cached > kept()) trim_to(kept());
  return true;
}

// So much free memory stays warm.
std::uint64_t Ledger::kept() const noexcept {
  return std::max(budget() / 4, kAlwaysKept) + rows_.domain().prefault();
}

// The last holder empties the object first, without the lock. If this process dies on the way, the row is
// still held, and whoever reaps it starts again here. A process that looked the object up by a name before that cannot
// take it up any more: it would get one that is being emptied under it.
bool Ledger::release_object_row(std::uint32_t row, Object object) {
  const ObjectHooks& hooks = hooks_of(object.kind);
  Word& count = hooks.count(object.index);
  for (bool emptied = false;; emptied = true) {
    if (emptied && !hooks.empty(object.index)) return false;
    sync::LockGuard guard = rows_.lock();
    if (!guard.ok()) return false;
    const std::uint64_t holders = count.load(std::memory_order_relaxed);
    sync::Transaction change = rows_.begin();
    if (holders == 1 && !emptied) {
      if (hooks.closing) {
        hooks.closing(change, object.index);
        change.commit();
      }
      continue;
    }
    rows_.put_lease(change, row);
    change.set(count, holders - 1);
    if (holders == 1) hooks.free(change, object.index);
    change.commit();
    guard.unlock();
    if (holders == 1 && hooks.gone) hooks.gone();
    return true;
  }
}

template <class Chosen>
bool Ledger::release_rows(Chosen&& chosen) {
  {
    // Completes what a dead process had committed: a row that the holder got last may be part of it.
    const sync::LockGuard settled = rows_.lock();
    if (!settled.ok()) return false;
  }
  const std::uint64_t used = rows_.leases_used();
  for (std::uint32_t row = 0; row < used; ++row) {
    const Holder holder{rows_.lease(row).holder.load(std::memory_order_acquire)};
    if (chosen(holder) && !release_row(row, holder)) return false;
  }
  return true;
}

bool Ledger::release_held_by(Holder holder) {
  return release_rows([&](Holder its) { return its == holder; });
}

bool Ledger::release_messages(std::uint32_t channel, std::uint32_t sequence, std::uint32_t count) {
  return release_rows([&](Holder its) {
    return its.is_message() && its.channel() == channel && distance(its.sequence(), sequence) < count;
  });
}

bool Ledger::release_receipts(std::uint32_t channel) {
  return release_rows([&](Holder its) { return its.is_receipt() && its.channel() == channel; });
}

bool Ledger::pass_held_by(Holder from, Holder to) {
  {
    const sync::LockGuard settled = rows_.lock();  // as in release_rows
    if (!settled.ok()) return false;
  }
  const std::uint64_t used = rows_.leases_used();
  for (std::uint32_t row = 0; row < used; ++row) {
    if (rows_.lease(row).holder.load(std::memory_order_acquire) == from.word) pass(row, to);
  }
  return true;
}

bool Ledger::release_strays(std::uint32_t topic, std::uint64_t sequence, std::uint64_t count) {
  return release_rows([&](Holder its) {
    return its.is_topic() && its.channel() == topic && distance(its.sequence(), sequence) >= count;
  });
}

std::vector<std::pair<std::uint32_t, Object>> Ledger::rows_of(Holder holder, ObjectKind kind) const {
  std::vector<std::pair<std::uint32_t, Object>> found;
  const std::uint64_t used = rows_.leases_used();
  for (std::uint32_t row = 0; row < used; ++row) {
    if (rows_.lease(row).holder.load(std::memory_order_acquire) != holder.word) continue;
    const std::uint64_t word = rows_.lease(row).object.load(std::memory_order_relaxed);
    if (word != 0 && Object::unpack(word).kind == kind) found.emplace_back(row, Object::unpack(word));
  }
  return found;
}

std::vector<domain::SlotRef> Ledger::processes_with(Object object) const {
  std::vector<domain::SlotRef> found;
  const std::uint64_t used = rows_.leases_used();
  for (std::uint32_t row = 0; row < used; ++row) {
    if (rows_.lease(row).object.load(std::memory_order_relaxed) != object.pack()) continue;
    const Holder holder{rows_.lease(row).holder.load(std::memory_order_acquire)};
    if (holder.is_process() && holder.word != rows_.self().word) found.push_back(holder.slot());
  }
  return found;
}

std::vector<std::uint32_t> Ledger::sequences_of(std::uint32_t topic) const {
  std::vector<std::uint32_t> found;
  const std::uint64_t used = rows_.leases_used();
  for (std::uint32_t row = 0; row < used; ++row) {
    const Holder holder{rows_.lease(row).holder.load(std::memory_order_acquire)};
    if (holder.is_topic() && holder.channel() == topic) found.push_back(holder.sequence());
  }
  return found;
}

std::vector<std::uint32_t> Ledger::places_of(std::uint32_t channel) const {
  std::vector<std::uint32_t> found;
  const std::uint64_t used = rows_.leases_used();
  for (std::uint32_t row = 0; row < used; ++row) {
    const Holder holder{rows_.lease(row).holder.load(std::memory_order_acquire)};
    if (holder.is_receipt() && holder.channel() == channel && holder != Holder::receipts(channel))
      found.push_back(holder.sequence());
  }
  return found;
}

bool Ledger::trim_by(std::uint64_t bytes) {
  const std::uint64_t cached = state().cached.load(std::memory_order_relaxed);
  if (trim_to(cached > bytes ? cached - bytes : 0) > 0) return true;
  return std::any_of(hooks_.begin(), hooks_.end(),
                     [&](const ObjectHooks& hooks) { return hooks.trim && hooks.trim(bytes) > 0; });
}

Stats Ledger::stats() const {
  Stats stats{};
  const sync::LockGuard guard = rows_.lock();
  stats.committed_bytes = state().committed.load(std::memory_order_relaxed);
  stats.cached_bytes = state().cached.load(std::memory_order_relaxed);
  stats.budget_bytes = budget();
  stats.chunk_bytes = chunk_bytes();
  const std::uint64_t blocks = rows_.blocks_used();
  std::uint64_t kept = 0;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    const BlockState state = BlockMeta::unpack(rows_.block(i).meta.load(std::memory_order_relaxed)).state;
    if (state == BlockState::kHeld) ++stats.held_blocks;
    if (state != BlockState::kKept) continue;
    ++kept;
    stats.cached_bytes += rows_.block(i).committed.load(std::memory_order_relaxed);
  }
  const std::uint64_t leases = rows_.leases_used();
  for (std::uint32_t i = 0; i < leases; ++i)
    stats.leases += rows_.lease(i).object.load(std::memory_order_relaxed) != 0 ? 1 : 0;
  stats.leases -= std::min(kept, stats.leases);  // each kept block has one lease that is not in use
  return stats;
}

}  // namespace forklift::inline abi_0_1::arena
