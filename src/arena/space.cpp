// Space: splitting free blocks, merging them when address space runs out, giving cold memory back.
#include <algorithm>
#include <unordered_map>

#include "arena/arena.h"
#include "os/memfd.h"

namespace forklift::arena {

namespace {
constexpr std::uint64_t size_of_class(unsigned size_class) { return std::uint64_t{1} << size_class; }
}  // namespace

// Halves a free block: the lower half keeps the row and comes first in its list.
void Arena::split_once(std::uint32_t index) {
  sync::Transaction change(redo(), domain_.base());
  BlockRow& lower = block(index);
  BlockMeta meta = BlockMeta::unpack(lower.meta.load(std::memory_order_relaxed));
  const std::uint64_t half = size_of_class(meta.size_class - 1U);
  const std::uint64_t committed = lower.committed.load(std::memory_order_relaxed);

  std::uint32_t fresh = 0;
  if (const std::uint64_t free = state_->block_rows_free.load(std::memory_order_relaxed)) {
    fresh = static_cast<std::uint32_t>(free - 1);
    change.set(state_->block_rows_free, block(fresh).next.load(std::memory_order_relaxed));
  } else {
    fresh = static_cast<std::uint32_t>(state_->blocks_used.load(std::memory_order_relaxed));
    change.set(state_->blocks_used, std::uint64_t{fresh} + 1);
  }
  BlockRow& upper = block(fresh);
  unlink_block(change, index, meta);

  --meta.size_class;
  meta.cold = committed == 0;
  BlockMeta upper_meta = meta;
  upper_meta.generation = BlockMeta::unpack(upper.meta.load(std::memory_order_relaxed)).generation + 1;
  upper_meta.cold = committed <= half;
  change.set(lower.meta, meta.pack());
  change.set(lower.committed, std::min(committed, half));
  change.set(upper.offset, lower.offset.load(std::memory_order_relaxed) + half);
  change.set(upper.meta, upper_meta.pack());
  change.set(upper.count, 0);
  change.set(upper.committed, committed - std::min(committed, half));
  if (meta.cold != upper_meta.cold) {
    link_block(change, index, meta);
    link_block(change, fresh, upper_meta);
  } else {
    // Two links into one list: the values in memory are not yet those of the transaction.
    auto& heads = (meta.cold ? state_->cold : state_->warm)[static_cast<std::size_t>(meta.kind)];
    const std::uint64_t head = heads[meta.size_class].load(std::memory_order_relaxed);
    change.set(heads[meta.size_class], std::uint64_t{index} + 1);
    change.set(lower.prev, 0);
    change.set(lower.next, std::uint64_t{fresh} + 1);
    change.set(upper.prev, std::uint64_t{index} + 1);
    change.set(upper.next, head);
    if (head) change.set(block(static_cast<std::uint32_t>(head - 1)).prev, std::uint64_t{fresh} + 1);
  }
  change.commit();
}

// Makes a free block of this class from a larger one: untouched memory first, so that warm large blocks stay
// whole.
bool Arena::split_to(Kind kind, unsigned size_class) {
  const auto k = static_cast<std::size_t>(kind);
  for (auto* heads : {state_->cold[k], state_->warm[k]}) {
    for (unsigned larger = size_class; larger <= largest_class(); ++larger) {
      const std::uint64_t head = heads[larger].load(std::memory_order_relaxed);
      if (head == 0) continue;
      const std::uint64_t rows_left = block_capacity_ - state_->blocks_used.load(std::memory_order_relaxed);
      if (rows_left < larger - size_class) return false;
      for (unsigned level = larger; level > size_class; --level)
        split_once(static_cast<std::uint32_t>(head - 1));
      return true;
    }
  }
  return false;
}

// Joins two free buddies. In two transactions, since both may be neighbours in one list: between them the
// lower one is held by this process, so that its death gives it back.
void Arena::merge_pair(std::uint32_t lower_index, std::uint32_t upper_index) {
  BlockRow& lower = block(lower_index);
  BlockRow& upper = block(upper_index);
  BlockMeta meta = BlockMeta::unpack(lower.meta.load(std::memory_order_relaxed));
  const std::uint64_t lower_bytes = lower.committed.load(std::memory_order_relaxed);
  const std::uint64_t upper_bytes = upper.committed.load(std::memory_order_relaxed);
  std::uint32_t row = 0;
  {
    sync::Transaction change(redo(), domain_.base());
    row = take_lease_row(change);
    if (row >= lease_capacity_) return;
    unlink_block(change, lower_index, meta);
    meta.state = BlockState::kHeld;
    change.set(lower.meta, meta.pack());
    change.set(lower.count, 1);
    change.set(state_->cached, state_->cached.load(std::memory_order_relaxed) - lower_bytes);
    change.set(lease(row).object, Object{ObjectKind::kBlock, lower_index}.pack());
    change.set(lease(row).holder, Holder::process(domain_.self()).word);
    change.commit();
  }
  sync::Transaction change(redo(), domain_.base());
  BlockMeta gone = BlockMeta::unpack(upper.meta.load(std::memory_order_relaxed));
  unlink_block(change, upper_index, gone);
  gone.state = BlockState::kUnused;
  ++gone.generation;
  change.set(upper.meta, gone.pack());
  change.set(upper.committed, 0);
  change.set(upper.next, state_->block_rows_free.load(std::memory_order_relaxed));
  change.set(state_->block_rows_free, std::uint64_t{upper_index} + 1);

  // `committed` is a prefix: pages in the upper half count the lower half's gap with them.
  const std::uint64_t merged = upper_bytes ? size_of_class(meta.size_class) + upper_bytes : lower_bytes;
  ++meta.size_class;
  ++meta.generation;
  meta.state = BlockState::kFree;
  meta.cold = merged == 0;
  put_lease_row(change, row);
  change.set(lower.meta, meta.pack());
  change.set(lower.count, 0);
  change.set(lower.committed, merged);
  change.set(state_->cached, state_->cached.load(std::memory_order_relaxed) - upper_bytes + merged);
  change.set(state_->committed,
             state_->committed.load(std::memory_order_relaxed) - lower_bytes - upper_bytes + merged);
  link_block(change, lower_index, meta);
  change.commit();
}

// Merges free buddies, small ones first, until a block of the class or a larger one is free. Rare: only when
// address space has run out.
bool Arena::merge_up_to(Kind kind, unsigned size_class) {
  const auto k = static_cast<std::size_t>(kind);
  for (unsigned level = kSmallestClass; level < size_class; ++level) {
    std::unordered_map<std::uint64_t, std::uint32_t> free_at;
    for (const Word& head : {std::cref(state_->warm[k][level]), std::cref(state_->cold[k][level])}) {
      for (std::uint64_t at = head.load(std::memory_order_relaxed); at != 0;) {
        const auto index = static_cast<std::uint32_t>(at - 1);
        free_at.emplace(block(index).offset.load(std::memory_order_relaxed), index);
        at = block(index).next.load(std::memory_order_relaxed);
      }
    }
    const std::uint64_t size = size_of_class(level);
    for (const auto& [offset, index] : free_at) {
      if (offset & size) continue;
      if (const auto buddy = free_at.find(offset + size); buddy != free_at.end())
        merge_pair(index, buddy->second);
    }
  }
  for (unsigned level = size_class; level <= largest_class(); ++level) {
    if (state_->warm[k][level].load(std::memory_order_relaxed) ||
        state_->cold[k][level].load(std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

// The end of a list is its coldest part; large classes first, so that few calls give much back.
std::uint32_t Arena::block_to_punch() const {
  constexpr int kMostSteps = 64;
  for (unsigned level = largest_class(); level >= kPageClass; --level) {
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      std::uint64_t at = state_->warm[kind][level].load(std::memory_order_relaxed);
      for (int step = 0; at != 0 && step < kMostSteps; ++step) {
        const std::uint64_t next =
            block(static_cast<std::uint32_t>(at - 1)).next.load(std::memory_order_relaxed);
        if (next == 0) break;
        at = next;
      }
      if (at != 0) return static_cast<std::uint32_t>(at - 1);
    }
  }
  return static_cast<std::uint32_t>(block_capacity_);
}

// Takes one free block out of its list, gives its pages back and frees it cold. While the pages go, the block
// is held by this process: a death in between returns it, with more bytes booked than exist, which is
// harmless.
std::uint64_t Arena::punch_one() {
  std::uint32_t index = 0;
  std::uint32_t row = 0;
  std::uint64_t committed = 0;
  {
    sync::LockGuard guard = lock();
    if (!guard.ok()) return 0;
    index = block_to_punch();
    if (index == block_capacity_) return 0;
    BlockRow& cold = block(index);
    BlockMeta meta = BlockMeta::unpack(cold.meta.load(std::memory_order_relaxed));
    committed = cold.committed.load(std::memory_order_relaxed);
    sync::Transaction change(redo(), domain_.base());
    row = take_lease_row(change);
    if (row >= lease_capacity_) return 0;
    unlink_block(change, index, meta);
    meta.state = BlockState::kHeld;
    change.set(cold.meta, meta.pack());
    change.set(cold.count, 1);
    change.set(state_->cached, state_->cached.load(std::memory_order_relaxed) - committed);
    change.set(lease(row).object, Object{ObjectKind::kBlock, index}.pack());
    change.set(lease(row).holder, Holder::process(domain_.self()).word);
    change.commit();
  }
  const std::uint64_t bytes = (committed + 4095) & ~std::uint64_t{4095};
  const bool punched =
      domain_.descriptors_intact() &&
      os::punch_hole(domain_.data_file(), block(index).offset.load(std::memory_order_relaxed), bytes).ok();
  if (punched) {
    {
      const std::lock_guard<sync::SpinLock> lock(mutex_);
      resident_.forget(index);
    }
    sync::LockGuard guard = lock();
    if (!guard.ok()) return 0;
    sync::Transaction change(redo(), domain_.base());
    change.set(block(index).committed, 0);
    change.set(state_->committed, state_->committed.load(std::memory_order_relaxed) - committed);
    change.commit();
  }
  {
    sync::LockGuard guard = lock();
    if (!guard.ok()) return 0;
    drop_block_row(row, index);
  }
  return punched ? committed : 0;
}

std::uint64_t Arena::trim(std::uint64_t keep) {
  if (!domain_.attached()) return 0;
  give_up_kept();
  return punch_until(keep);
}

std::uint64_t Arena::punch_until(std::uint64_t keep) {
  std::uint64_t freed = 0;
  while (state_->cached.load(std::memory_order_relaxed) > keep) {
    const std::uint64_t bytes = punch_one();
    if (bytes == 0) break;
    freed += bytes;
  }
  return freed;
}

// Somebody needs `bytes` beyond the budget: first what is free but warm, then what the dead still hold.
bool Arena::relieve(std::uint64_t bytes) {
  give_up_kept();
  const std::uint64_t cached = state_->cached.load(std::memory_order_relaxed);
  if (punch_until(cached > bytes ? cached - bytes : 0) > 0) return true;
  for (const ObjectHooks& hooks : hooks_)
    if (hooks.trim && hooks.trim(bytes) > 0) return true;
  return domain_.reap() > 0;
}

}  // namespace forklift::arena
