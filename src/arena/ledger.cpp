// The ledger: every change of the arena's rows, as one redo transaction each. Invariants A1..A5 in
// arena/tables.h.
#include <algorithm>
#include <bit>
#include <string>

#include "arena/arena.h"
#include "os/mapping.h"

namespace forklift::arena {

namespace {

// Free blocks up to this stay warm whatever the budget.
constexpr std::uint64_t kAlwaysKept = std::uint64_t{64} << 20;

}  // namespace

sync::LockGuard Arena::lock() {
  return sync::LockGuard(state_->mutex, [this] {
    for (sync::RedoRecord& record : state_->redo) sync::Transaction::replay(record, domain_.base());
  });
}

unsigned Arena::largest_class() const noexcept { return static_cast<unsigned>(std::countr_zero(half_)); }

// Row of a free block of exactly this class, or the table's capacity when there is none.
std::uint32_t Arena::find_block(Kind kind, unsigned size_class) {
  const auto k = static_cast<std::size_t>(kind);
  if (const std::uint64_t head = state_->warm[k][size_class].load(std::memory_order_relaxed)) {
    return static_cast<std::uint32_t>(head - 1);
  }
  if (const std::uint64_t head = state_->cold[k][size_class].load(std::memory_order_relaxed)) {
    return static_cast<std::uint32_t>(head - 1);
  }
  return static_cast<std::uint32_t>(block_capacity_);
}

void Arena::unlink_block(sync::Transaction& change, std::uint32_t index, BlockMeta meta) {
  BlockRow& row = block(index);
  const std::uint64_t next = row.next.load(std::memory_order_relaxed);
  const std::uint64_t prev = row.prev.load(std::memory_order_relaxed);
  auto& heads = (meta.cold ? state_->cold : state_->warm)[static_cast<std::size_t>(meta.kind)];
  change.set(prev ? block(static_cast<std::uint32_t>(prev - 1)).next : heads[meta.size_class], next);
  if (next) change.set(block(static_cast<std::uint32_t>(next - 1)).prev, prev);
}

void Arena::link_block(sync::Transaction& change, std::uint32_t index, BlockMeta meta) {
  auto& heads = (meta.cold ? state_->cold : state_->warm)[static_cast<std::size_t>(meta.kind)];
  const std::uint64_t head = heads[meta.size_class].load(std::memory_order_relaxed);
  change.set(block(index).next, head);
  change.set(block(index).prev, 0);
  if (head) change.set(block(static_cast<std::uint32_t>(head - 1)).prev, std::uint64_t{index} + 1);
  change.set(heads[meta.size_class], std::uint64_t{index} + 1);
}

// The table's capacity when it is full.
std::uint32_t Arena::take_lease_row(sync::Transaction& change) {
  if (const std::uint64_t free = state_->lease_rows_free.load(std::memory_order_relaxed)) {
    const auto row = static_cast<std::uint32_t>(free - 1);
    change.set(state_->lease_rows_free, lease(row).next.load(std::memory_order_relaxed));
    return row;
  }
  const std::uint64_t used = state_->leases_used.load(std::memory_order_relaxed);
  if (used < lease_capacity_) change.set(state_->leases_used, used + 1);
  return static_cast<std::uint32_t>(used);
}

void Arena::put_lease_row(sync::Transaction& change, std::uint32_t row) {
  change.set(lease(row).object, 0);
  change.set(lease(row).holder, 0);
  if (lease(row).offered.load(std::memory_order_relaxed) != 0) change.set(lease(row).offered, 0);
  change.set(lease(row).next, state_->lease_rows_free.load(std::memory_order_relaxed));
  change.set(state_->lease_rows_free, std::uint64_t{row} + 1);
}

Result<Arena::Grant> Arena::grant(Kind kind, std::size_t bytes) {
  const unsigned size_class = bytes > half_ ? kClasses : class_for(kind, bytes);
  if (size_class > largest_class()) {
    return Status(
        Code::kNoSpace,
        std::to_string(bytes) + " bytes asked, but a block can have at most " + std::to_string(half_) +
            " (what RLIMIT_AS, RLIMIT_FSIZE and FORKLIFT_SEGMENT_SIZE left when the domain was made)");
  }
  const std::uint64_t need = pages_for(bytes, size_class);
  for (int attempt = 0;; ++attempt) {
    sync::LockGuard guard = lock();
    if (!guard.ok()) return guard.status();
    std::uint32_t index = find_block(kind, size_class);
    if (index == block_capacity_) {
      if (!split_to(kind, size_class) && !(merge_up_to(kind, size_class) && split_to(kind, size_class))) {
        guard.unlock();
        // Kept blocks may be what lies between the buddies; then what the dead still hold.
        if (attempt == 0) give_up_kept();
        if (attempt == 0 || (attempt == 1 && domain_.reap() > 0)) continue;
        return Status(Code::kNoSpace,
                      "no address space left in the data segment for " + std::to_string(bytes) + " bytes");
      }
      index = find_block(kind, size_class);
    }
    BlockRow& row = block(index);
    BlockMeta meta = BlockMeta::unpack(row.meta.load(std::memory_order_relaxed));
    const std::uint64_t had = row.committed.load(std::memory_order_relaxed);
    const std::uint64_t has = std::max(had, need);
    const std::uint64_t committed = state_->committed.load(std::memory_order_relaxed);
    if (has > had && committed + chunk_bytes() + (has - had) > domain_.budget(committed)) {
      guard.unlock();
      if (attempt < 8 && relieve(has - had)) continue;
      return Status(Code::kOverBudget, std::to_string(bytes) + " bytes asked; " +
                                           std::to_string(committed + chunk_bytes()) + " in use, " +
                                           std::to_string(domain_.budget(committed)) +
                                           " allowed (forklift.set_budget raises it)");
    }

    sync::Transaction change(redo(), domain_.base());
    const std::uint32_t right = take_lease_row(change);
    if (right >= lease_capacity_) return Status(Code::kNoSpace, "the lease table is full");
    unlink_block(change, index, meta);
    meta.state = BlockState::kHeld;
    meta.cold = false;
    change.set(row.meta, meta.pack());
    change.set(row.count, 1);
    change.set(row.length, bytes);
    if (has != had) {
      change.set(row.committed, has);
      change.set(state_->committed, committed + (has - had));
    }
    if (had) change.set(state_->cached, state_->cached.load(std::memory_order_relaxed) - had);
    change.set(lease(right).object, Object{ObjectKind::kBlock, index}.pack());
    change.set(lease(right).holder, Holder::process(domain_.self()).word);
    change.commit();
    return Grant{right, index, meta.generation, row.offset.load(std::memory_order_relaxed), had, has};
  }
}

Word& Arena::count_of(Object object) const {
  return object.kind == ObjectKind::kBlock ? block(object.index).count
                                           : hooks_of(object.kind).count(object.index);
}

Result<std::uint32_t> Arena::add_row(Object object, Holder holder, bool offered) {
  sync::LockGuard guard = lock();
  if (!guard.ok()) return guard.status();
  Word& count = count_of(object);
  const std::uint64_t holders = count.load(std::memory_order_relaxed);
  if (holders == 0) return Status(Code::kInvalid, "the object is gone");
  sync::Transaction change(redo(), domain_.base());
  const std::uint32_t row = take_lease_row(change);
  if (row >= lease_capacity_) return Status(Code::kNoSpace, "the lease table is full");
  change.set(count, holders + 1);
  change.set(lease(row).object, object.pack());
  change.set(lease(row).holder, holder.word);
  if (offered) change.set(lease(row).offered, 1);
  change.commit();
  return row;
}

// Beside the row of a message that several processes read. Inside the lock the handle is the message's or
// not: whoever drops the message meanwhile releases its row before or after.
Result<std::uint32_t> Arena::share_row(const Handle& handle, Holder message) {
  sync::LockGuard guard = lock();
  if (!guard.ok()) return guard.status();
  if (Status status = check(handle, message); !status) return status;
  Word& count = block(handle.block).count;
  sync::Transaction change(redo(), domain_.base());
  const std::uint32_t row = take_lease_row(change);
  if (row >= lease_capacity_) return Status(Code::kNoSpace, "the lease table is full");
  change.set(count, count.load(std::memory_order_relaxed) + 1);
  change.set(lease(row).object, Object{ObjectKind::kBlock, handle.block}.pack());
  change.set(lease(row).holder, Holder::process(domain_.self()).word);
  change.commit();
  return row;
}

Status Arena::hold_for(Object object, Holder holder, const FillRow& fill) {
  if (!domain_.attached()) return domain_.not_attached();
  sync::LockGuard guard = lock();
  if (!guard.ok()) return guard.status();
  Word& count = count_of(object);
  const std::uint64_t holders = count.load(std::memory_order_relaxed);
  if (holders == 0) return {Code::kInvalid, "the object is gone"};
  sync::Transaction change(redo(), domain_.base());
  const std::uint32_t row = take_lease_row(change);
  if (row >= lease_capacity_) return {Code::kNoSpace, "the lease table is full"};
  if (Status status = fill(change, row); !status) return status;
  change.set(count, holders + 1);
  change.set(lease(row).object, object.pack());
  change.set(lease(row).holder, holder.word);
  change.commit();
  return {};
}

Result<LeasePtr> Arena::take_over(Holder holder, const TakeRow& fill) {
  if (!domain_.attached()) return domain_.not_attached();
  Object object{};
  std::uint32_t row = 0;
  {
    sync::LockGuard guard = lock();
    if (!guard.ok()) return guard.status();
    sync::Transaction change(redo(), domain_.base());
    Result<std::uint32_t> chosen = fill(change);
    if (!chosen) return chosen.status();
    row = *chosen;
    if (row >= lease_capacity_ || lease(row).holder.load(std::memory_order_relaxed) != holder.word)
      return Status(Code::kCorrupt, "a row is not held by who should hold it");
    object = Object::unpack(lease(row).object.load(std::memory_order_relaxed));
    change.set(lease(row).holder, Holder::process(domain_.self()).word);
    change.commit();
  }
  LeasePtr taken = make_lease(object, row);
  enlist(*taken);
  return taken;
}

// Takes an offered row up, unless somebody else of this process was faster.
Result<bool> Arena::accept_row(std::uint32_t row, Object object) {
  sync::LockGuard guard = lock();
  if (!guard.ok()) return guard.status();
  LeaseRow& offer = lease(row);
  if (offer.offered.load(std::memory_order_relaxed) == 0 ||
      offer.object.load(std::memory_order_relaxed) != object.pack() ||
      offer.holder.load(std::memory_order_relaxed) != Holder::process(domain_.self()).word) {
    return false;
  }
  sync::Transaction change(redo(), domain_.base());
  change.set(offer.offered, 0);
  change.commit();
  return true;
}

Result<LeasePtr> Arena::hold_new(Object object, const Fill& fill) {
  if (!domain_.attached()) return domain_.not_attached();
  std::uint32_t row = 0;
  {
    sync::LockGuard guard = lock();
    if (!guard.ok()) return guard.status();
    sync::Transaction change(redo(), domain_.base());
    row = take_lease_row(change);
    if (row >= lease_capacity_) return Status(Code::kNoSpace, "the lease table is full");
    if (Status status = fill(change, object); !status) return status;
    change.set(count_of(object), 1);
    change.set(lease(row).object, object.pack());
    change.set(lease(row).holder, Holder::process(domain_.self()).word);
    change.commit();
  }
  LeasePtr lease = make_lease(object, row);
  enlist(*lease);
  return lease;
}

void Arena::drop_block_row(std::uint32_t row, std::uint32_t index) {
  BlockRow& held = block(index);
  const std::uint64_t count = held.count.load(std::memory_order_relaxed);
  sync::Transaction change(redo(), domain_.base());
  put_lease_row(change, row);
  change.set(held.count, count - 1);
  if (count == 1) {
    BlockMeta meta = BlockMeta::unpack(held.meta.load(std::memory_order_relaxed));
    const std::uint64_t committed = held.committed.load(std::memory_order_relaxed);
    meta.state = BlockState::kFree;
    meta.cold = committed == 0;
    ++meta.generation;
    change.set(held.meta, meta.pack());
    if (committed) change.set(state_->cached, state_->cached.load(std::memory_order_relaxed) + committed);
    link_block(change, index, meta);
  }
  change.commit();
}

bool Arena::release_row(std::uint32_t row, Holder holder) {
  std::uint64_t cached = 0;
  {
    sync::LockGuard guard = lock();
    if (!guard.ok()) return false;  // the row stays with its holder, whose death gives it back
    const std::uint64_t word = lease(row).object.load(std::memory_order_relaxed);
    // Whoever looked without the lock may have seen a row that a dead process was giving up: it is free by
    // now, or somebody else's.
    if (word == 0 || lease(row).holder.load(std::memory_order_relaxed) != holder.word) return true;
    const Object object = Object::unpack(word);
    if (object.kind != ObjectKind::kBlock) {
      guard.unlock();
      return release_object_row(row, object);
    }
    drop_block_row(row, object.index);
    cached = state_->cached.load(std::memory_order_relaxed);
  }
  if (cached > kAlwaysKept && cached > budget() / 4) punch_until(std::max(budget() / 4, kAlwaysKept));
  return true;
}

// The last holder empties the object first, without the arena's lock. Dying on the way is fine: the row is
// still held, and whoever reaps this process starts again here.
bool Arena::release_object_row(std::uint32_t row, Object object) {
  const ObjectHooks& hooks = hooks_of(object.kind);
  Word& count = hooks.count(object.index);
  bool emptied = false;
  for (;;) {
    {
      sync::LockGuard guard = lock();
      if (!guard.ok()) return false;
      const std::uint64_t holders = count.load(std::memory_order_relaxed);
      if (holders != 1 || emptied) {
        sync::Transaction change(redo(), domain_.base());
        put_lease_row(change, row);
        change.set(count, holders - 1);
        if (holders == 1) hooks.free(change, object.index);
        change.commit();
        return true;
      }
    }
    if (!hooks.empty(object.index)) return false;
    emptied = true;
  }
}

template <class Chosen>
bool Arena::release_rows(Chosen&& chosen) {
  {
    // Completes what a dead process had begun: it may be the holder's newest row.
    const sync::LockGuard settled = lock();
    if (!settled.ok()) return false;
  }
  const std::uint64_t used = std::min(state_->leases_used.load(std::memory_order_acquire), lease_capacity_);
  for (std::uint32_t row = 0; row < used; ++row) {
    const Holder holder{lease(row).holder.load(std::memory_order_acquire)};
    if (chosen(holder) && !release_row(row, holder)) return false;
  }
  return true;
}

bool Arena::release_held_by(Holder holder) {
  return release_rows([&](Holder its) { return its == holder; });
}

bool Arena::release_messages(std::uint32_t channel, std::uint32_t sequence, std::uint32_t count) {
  return release_rows([&](Holder its) {
    return its.is_message() && its.channel() == channel &&
           ((its.sequence() - sequence) & 0x3fffffffU) < count;
  });
}

bool Arena::release_strays(std::uint32_t topic, std::uint64_t sequence, std::uint64_t count) {
  return release_rows([&](Holder its) {
    return its.is_topic() && its.channel() == topic && ((its.sequence() - sequence) & 0x3fffffffU) >= count;
  });
}

std::vector<std::uint32_t> Arena::sequences_of(std::uint32_t topic) const {
  std::vector<std::uint32_t> found;
  const std::uint64_t used = std::min(state_->leases_used.load(std::memory_order_acquire), lease_capacity_);
  for (std::uint32_t row = 0; row < used; ++row) {
    const Holder holder{lease(row).holder.load(std::memory_order_acquire)};
    if (holder.is_topic() && holder.channel() == topic) found.push_back(holder.sequence());
  }
  return found;
}

}  // namespace forklift::arena
