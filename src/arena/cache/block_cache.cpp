#include "arena/cache/block_cache.h"

#include <algorithm>
#include <mutex>

namespace forklift::inline abi_0_1::arena {

namespace {

// What one process may keep: at most this, and at most this part of the budget.
constexpr std::uint64_t kMostKeptBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kKeptOfBudget = 256;

}  // namespace

bool BlockCache::keep(std::uint32_t block, std::uint32_t lease_row, Batch& surplus) noexcept {
  BlockRow& row = rows_.block(block);
  // A count of one cannot grow meanwhile: only a holder makes further ones, and that is this process.
  if (row.count.load(std::memory_order_acquire) != 1) return false;
  const BlockMeta meta = BlockMeta::unpack(row.meta.load(std::memory_order_relaxed));
  if (meta.state != BlockState::kHeld || !magazine_.wanted(meta.kind, meta.size_class)) return false;
  const std::uint64_t committed = row.committed.load(std::memory_order_relaxed);
  if (magazine_.bytes() + committed > most_kept_) {
    most_kept_ = std::min(kMostKeptBytes, ledger_.budget() / kKeptOfBudget);
    if (magazine_.bytes() + committed > most_kept_) return false;
  }
  if (magazine_.full(meta.kind, meta.size_class)) magazine_.clear_half(meta.kind, meta.size_class, surplus);
  const CachedBlock kept{block, lease_row, meta.generation + 1, row.offset.load(std::memory_order_relaxed),
                         committed};
  // One store makes old handles stale and takes the block out of use.
  row.meta.store(BlockMeta{kept.generation, meta.size_class, meta.kind, BlockState::kKept, false}.pack(),
                 std::memory_order_release);
  magazine_.put(meta.kind, meta.size_class, kept);
  return true;
}

// A kept block of this process is in use again.
Grant BlockCache::reopen(const CachedBlock& kept, Kind kind, unsigned size_class,
                         std::size_t bytes) noexcept {
  BlockRow& row = rows_.block(kept.block);
  row.length.store(bytes, std::memory_order_relaxed);
  row.meta.store(
      BlockMeta{kept.generation, static_cast<std::uint8_t>(size_class), kind, BlockState::kHeld, false}
          .pack(),
      std::memory_order_release);
  return {kept.row, kept.block, kept.generation, kept.offset, kept.committed, kept.committed};
}

// A fork in another thread, before the batch is in the magazine, leaves it with the parent.
bool BlockCache::refill(Kind kind, unsigned size_class, std::size_t bytes, Grant& got) {
  if (size_class > kLargestKept) return false;
  Batch batch;
  depots_.take(kind, size_class, batch);
  if (batch.count == 0) return false;
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
  return found;
}

void BlockCache::pass_on(const Batch& batch) { release(batch, depots_.put(batch)); }

void BlockCache::release(const Batch& batch, std::size_t first) {
  for (std::size_t i = first; i < batch.count; ++i) ledger_.release_row(batch.items[i].row, rows_.self());
}

void BlockCache::clear() {
  for (;;) {
    Batch batch;
    {
      const std::lock_guard<sync::SpinLock> lock(mutex_);
      if (!magazine_.clear_some(batch)) break;
    }
    release(batch, 0);
  }
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    for (unsigned size_class = kSmallestClass; size_class <= kLargestKept; ++size_class) {
      for (Batch batch;; batch.count = 0) {
        depots_.take(static_cast<Kind>(kind), size_class, batch);
        if (batch.count == 0) break;
        release(batch, 0);
      }
    }
  }
}

}  // namespace forklift::inline abi_0_1::arena
