// Cached blocks between processes: closing and reopening them, and the depots where a full magazine leaves half of
// itself for whoever runs short. No transaction anywhere: a kept block has one holder, and changing hands is
// one store of its lease's holder word, as with messages.
//
// A depot is a stack of cells {block, lease row}. What lies in cell i is held by "depot d, cell i", so that
// the holder word decides, as everywhere, who has the block:
//   put:  cell[top] <- item;  holder <- {d, top};  top <- top + 1
//   take: holder <- this process;  top <- top - 1
// A taker that is killed between its two stores leaves a cell whose block is its own: the reaper gives the
// block back, the next taker finds another holder and passes the cell. A putter that is killed between its
// last two leaves a block just above the top; the next at the lock raises it.
#include <algorithm>

#include "arena/arena.h"

namespace forklift::arena {

namespace {

// Of one class. All that lies in depots goes back when memory is short.
constexpr std::uint64_t kDepotBytes = std::uint64_t{8} << 20;
// What one process may keep, at most, and of the budget.
constexpr std::uint64_t kMostKeptBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kKeptOfBudget = 256;

std::size_t cells_for(unsigned size_class) {
  return std::clamp<std::size_t>(kDepotBytes >> size_class, 2, Depot::kCells);
}

std::uint64_t pack_cell(const CachedBlock& kept) { return (std::uint64_t{kept.block} << 32) | kept.row; }

}  // namespace

Depot& Arena::depot(Kind kind, unsigned size_class) const noexcept {
  return state_->depots[static_cast<std::size_t>(kind)][size_class - kSmallestClass];
}

sync::LockGuard Arena::lock_depot(Kind kind, unsigned size_class) {
  Depot& depot = this->depot(kind, size_class);
  return sync::LockGuard(depot.mutex, [&] {
    const std::uint64_t top = depot.top.load(std::memory_order_relaxed);
    if (top >= Depot::kCells) return;
    const auto row = static_cast<std::uint32_t>(depot.cells[top].load(std::memory_order_relaxed));
    if (row < lease_capacity_ && lease(row).holder.load(std::memory_order_relaxed) ==
                                     Holder::depot(depot_number(kind, size_class), top).word) {
      depot.top.store(top + 1, std::memory_order_relaxed);
    }
  });
}

// The block of a lease that ends goes into the magazine, if this process is its only holder. Private lock held.
// Where the magazine was full, half of it is in `surplus` afterwards.
bool Arena::keep(const Lease& given_up, Batch& surplus) noexcept {
  if (given_up.object_.kind != ObjectKind::kBlock) return false;
  BlockRow& row = block(given_up.object_.index);
  // Nobody can become a second holder but by us: what reads as one is one.
  if (row.count.load(std::memory_order_acquire) != 1) return false;
  const BlockMeta meta = BlockMeta::unpack(row.meta.load(std::memory_order_relaxed));
  if (meta.state != BlockState::kHeld || !magazine_.wanted(meta.kind, meta.size_class)) return false;
  const std::uint64_t committed = row.committed.load(std::memory_order_relaxed);
  if (magazine_.bytes() + committed > most_kept_) {
    most_kept_ = std::min(kMostKeptBytes, budget() / kKeptOfBudget);
    if (magazine_.bytes() + committed > most_kept_) return false;
  }
  if (magazine_.full(meta.kind, meta.size_class)) magazine_.clear_half(meta.kind, meta.size_class, surplus);
  const CachedBlock kept{given_up.object_.index, given_up.row_, meta.generation + 1,
                         row.offset.load(std::memory_order_relaxed), committed};
  // Old handles do not fit any more, in the same store that takes the block out of use.
  row.meta.store(BlockMeta{kept.generation, meta.size_class, meta.kind, BlockState::kKept, false}.pack(),
                 std::memory_order_release);
  magazine_.put(meta.kind, meta.size_class, kept);
  return true;
}

// A kept block of this process is in use again.
Arena::Grant Arena::reopen(const CachedBlock& kept, Kind kind, unsigned size_class,
                           std::size_t bytes) noexcept {
  BlockRow& row = block(kept.block);
  row.length.store(bytes, std::memory_order_relaxed);
  row.meta.store(
      BlockMeta{kept.generation, static_cast<std::uint8_t>(size_class), kind, BlockState::kHeld, false}
          .pack(),
      std::memory_order_release);
  return {kept.row, kept.block, kept.generation, kept.offset, kept.committed, kept.committed};
}

// Up to a batch becomes this process's. Not in its magazine yet: a fork in another thread leaves it here.
void Arena::fetch(Kind kind, unsigned size_class, Batch& out) {
  Depot& depot = this->depot(kind, size_class);
  if (depot.top.load(std::memory_order_relaxed) == 0) return;
  const sync::LockGuard guard = lock_depot(kind, size_class);
  if (!guard.ok()) return;
  const std::uint64_t used = std::min(state_->leases_used.load(std::memory_order_acquire), lease_capacity_);
  const std::uint64_t blocks = std::min(state_->blocks_used.load(std::memory_order_acquire), block_capacity_);
  std::uint64_t top = std::min<std::uint64_t>(depot.top.load(std::memory_order_relaxed), Depot::kCells);
  // Their rows were last written by other processors: all are on their way while the first one is looked at.
  for (std::uint64_t i = top; i-- > 0 && top - i <= Magazine::batch(size_class);) {
    const std::uint64_t cell = depot.cells[i].load(std::memory_order_relaxed);
    if ((cell >> 32) < blocks) __builtin_prefetch(&block(static_cast<std::uint32_t>(cell >> 32)), 1);
    if ((cell & 0xffffffff) < used) __builtin_prefetch(&lease(static_cast<std::uint32_t>(cell)), 1);
  }
  while (top != 0 && out.count < Magazine::batch(size_class)) {
    const std::uint64_t cell = depot.cells[--top].load(std::memory_order_relaxed);
    const auto index = static_cast<std::uint32_t>(cell >> 32);
    const auto row = static_cast<std::uint32_t>(cell);
    if (row < used && index < blocks &&
        lease(row).holder.load(std::memory_order_relaxed) ==
            Holder::depot(depot_number(kind, size_class), top).word &&
        lease(row).object.load(std::memory_order_relaxed) == Object{ObjectKind::kBlock, index}.pack()) {
      const BlockMeta meta = BlockMeta::unpack(block(index).meta.load(std::memory_order_acquire));
      lease(row).holder.store(Holder::process(domain_.self()).word, std::memory_order_relaxed);
      sync::crash_fence();
      out.items[out.count++] = {index, row, meta.generation,
                                block(index).offset.load(std::memory_order_relaxed),
                                block(index).committed.load(std::memory_order_relaxed)};
    }
    depot.top.store(top, std::memory_order_relaxed);
    sync::crash_fence();
  }
}

// From the depot, with a batch for the magazine, or from the ledger.
Status Arena::obtain(Kind kind, std::size_t bytes, Grant& got) {
  const auto from_ledger = [&]() -> Status {
    Result<Grant> granted = grant(kind, bytes);
    if (granted) got = *granted;
    return granted.status();
  };
  const unsigned size_class = class_for(kind, bytes);
  Batch batch;
  if (size_class <= kLargestKept) fetch(kind, size_class, batch);
  if (batch.count == 0) return from_ledger();
  bool found = false;
  Batch surplus;
  {
    const std::lock_guard<sync::SpinLock> lock(mutex_);
    for (std::size_t i = batch.count; i-- > 0;) {
      const CachedBlock& kept = batch.items[i];
      if (!found && kept.committed >= pages_for(bytes, size_class)) {
        got = reopen(kept, kind, size_class, bytes);
        found = true;
      } else if (!magazine_.full(kind, size_class)) {
        magazine_.put(kind, size_class, kept);
      } else {
        surplus.items[surplus.count++] = kept;
      }
    }
  }
  if (surplus.count != 0) pass_on(surplus);
  return found ? Status() : from_ledger();
}

// A batch from this process's magazine; what finds no place goes back to the ledger.
void Arena::pass_on(const Batch& batch) {
  std::size_t stored = 0;
  if (batch.count != 0) {
    const BlockMeta meta =
        BlockMeta::unpack(block(batch.items[0].block).meta.load(std::memory_order_relaxed));
    Depot& depot = this->depot(meta.kind, meta.size_class);
    const sync::LockGuard guard = lock_depot(meta.kind, meta.size_class);
    std::uint64_t top = depot.top.load(std::memory_order_relaxed);
    while (guard.ok() && stored < batch.count && top < cells_for(meta.size_class)) {
      const CachedBlock& kept = batch.items[stored++];
      depot.cells[top].store(pack_cell(kept), std::memory_order_relaxed);
      sync::crash_fence();
      lease(kept.row).holder.store(Holder::depot(depot_number(meta.kind, meta.size_class), top).word,
                                   std::memory_order_release);
      sync::crash_fence();
      depot.top.store(++top, std::memory_order_relaxed);
      sync::crash_fence();
    }
  }
  for (; stored < batch.count; ++stored)
    release_row(batch.items[stored].row, Holder::process(domain_.self()));
}

// All that this process and the depots keep goes back to the ledger.
void Arena::give_up_kept() {
  for (;;) {
    Batch batch;
    {
      const std::lock_guard<sync::SpinLock> lock(mutex_);
      if (!magazine_.clear_some(batch)) break;
    }
    for (std::size_t i = 0; i < batch.count; ++i)
      release_row(batch.items[i].row, Holder::process(domain_.self()));
  }
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    for (unsigned size_class = kSmallestClass; size_class <= kLargestKept; ++size_class) {
      for (Batch batch;; batch.count = 0) {
        fetch(static_cast<Kind>(kind), size_class, batch);
        if (batch.count == 0) break;
        for (std::size_t i = 0; i < batch.count; ++i)
          release_row(batch.items[i].row, Holder::process(domain_.self()));
      }
    }
  }
}

}  // namespace forklift::arena
