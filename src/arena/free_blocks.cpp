#include "arena/free_blocks.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

namespace forklift::inline abi_0_1::arena {

namespace {

constexpr std::uint64_t size_of_class(unsigned size_class) { return std::uint64_t{1} << size_class; }

// Lists link rows by index + 1, so that 0 is their end.
constexpr std::uint32_t row_at(std::uint64_t link) { return static_cast<std::uint32_t>(link - 1); }
constexpr std::uint64_t link_to(std::uint32_t row) { return std::uint64_t{row} + 1; }

Word& list_of(ArenaState& state, const BlockMeta& meta) {
  return (meta.cold ? state.cold : state.warm)[static_cast<std::size_t>(meta.kind)][meta.size_class];
}

}  // namespace

std::uint32_t FreeBlocks::find(Kind kind, unsigned size_class) {
  // Memory that was made warm for whoever comes (arena/prefault.h) goes before untouched memory.
  const Word* const warm = rows_.state().warm[static_cast<std::size_t>(kind)];
  if (rows_.domain().prefault() != 0 && warm[size_class].load(std::memory_order_relaxed) == 0)
    (void)split_from(warm, size_class);
  const std::uint32_t index = first(kind, size_class);
  if (index != rows_.block_capacity()) return index;
  if (split_to(kind, size_class) || (merge_up_to(kind, size_class) && split_to(kind, size_class)))
    return first(kind, size_class);
  return static_cast<std::uint32_t>(rows_.block_capacity());
}

// Of exactly this class.
std::uint32_t FreeBlocks::first(Kind kind, unsigned size_class) const {
  const ArenaState& state = rows_.state();
  const auto k = static_cast<std::size_t>(kind);
  if (const std::uint64_t head = state.warm[k][size_class].load(std::memory_order_relaxed))
    return row_at(head);
  if (const std::uint64_t head = state.cold[k][size_class].load(std::memory_order_relaxed))
    return row_at(head);
  return static_cast<std::uint32_t>(rows_.block_capacity());
}

void FreeBlocks::unlink(sync::Transaction& change, std::uint32_t index, BlockMeta meta) {
  const BlockRow& row = rows_.block(index);
  const std::uint64_t next = row.next.load(std::memory_order_relaxed);
  const std::uint64_t prev = row.prev.load(std::memory_order_relaxed);
  change.set(prev ? rows_.block(row_at(prev)).next : list_of(rows_.state(), meta), next);
  if (next) change.set(rows_.block(row_at(next)).prev, prev);
}

void FreeBlocks::link(sync::Transaction& change, std::uint32_t index, BlockMeta meta) {
  Word& list = list_of(rows_.state(), meta);
  const std::uint64_t head = list.load(std::memory_order_relaxed);
  change.set(rows_.block(index).next, head);
  change.set(rows_.block(index).prev, 0);
  if (head) change.set(rows_.block(row_at(head)).prev, link_to(index));
  change.set(list, link_to(index));
}

std::optional<std::uint32_t> FreeBlocks::hold(std::uint32_t index) {
  ArenaState& state = rows_.state();
  BlockRow& block = rows_.block(index);
  BlockMeta meta = BlockMeta::unpack(block.meta.load(std::memory_order_relaxed));
  const std::uint64_t committed = block.committed.load(std::memory_order_relaxed);
  sync::Transaction change = rows_.begin();
  const std::uint32_t row = rows_.take_lease(change);
  if (row >= rows_.lease_capacity()) return std::nullopt;
  unlink(change, index, meta);
  meta.state = BlockState::kHeld;
  change.set(block.meta, meta.pack());
  change.set(block.count, 1);
  change.set(state.cached, state.cached.load(std::memory_order_relaxed) - committed);
  rows_.enter(change, row, {ObjectKind::kBlock, index}, rows_.self());
  change.commit();
  return row;
}

void FreeBlocks::drop_lease(std::uint32_t row, std::uint32_t index) {
  ArenaState& state = rows_.state();
  BlockRow& held = rows_.block(index);
  const std::uint64_t count = held.count.load(std::memory_order_relaxed);
  sync::Transaction change = rows_.begin();
  rows_.put_lease(change, row);
  change.set(held.count, count - 1);
  if (count == 1) {
    BlockMeta meta = BlockMeta::unpack(held.meta.load(std::memory_order_relaxed));
    const std::uint64_t committed = held.committed.load(std::memory_order_relaxed);
    meta.state = BlockState::kFree;
    meta.cold = committed == 0;
    ++meta.generation;
    change.set(held.meta, meta.pack());
    if (committed) change.set(state.cached, state.cached.load(std::memory_order_relaxed) + committed);
    link(change, index, meta);
  }
  change.commit();
}

std::uint32_t FreeBlocks::take_block_row(sync::Transaction& change) {
  ArenaState& state = rows_.state();
  if (const std::uint64_t free = state.block_rows_free.load(std::memory_order_relaxed)) {
    change.set(state.block_rows_free, rows_.block(row_at(free)).next.load(std::memory_order_relaxed));
    return row_at(free);
  }
  const auto fresh = static_cast<std::uint32_t>(state.blocks_used.load(std::memory_order_relaxed));
  change.set(state.blocks_used, std::uint64_t{fresh} + 1);
  return fresh;
}

// Halves a free block: the lower half keeps the row and comes first in its list.
void FreeBlocks::split_once(std::uint32_t index) {
  sync::Transaction change = rows_.begin();
  BlockRow& lower = rows_.block(index);
  BlockMeta meta = BlockMeta::unpack(lower.meta.load(std::memory_order_relaxed));
  const std::uint64_t half = size_of_class(meta.size_class - 1U);
  const std::uint64_t committed = lower.committed.load(std::memory_order_relaxed);
  const std::uint32_t fresh = take_block_row(change);
  BlockRow& upper = rows_.block(fresh);
  unlink(change, index, meta);

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
    link(change, index, meta);
    link(change, fresh, upper_meta);
  } else {
    link_halves(change, index, fresh, meta);
  }
  change.commit();
}

// Both into one list. link() twice would be wrong: the second call would read a head that is still the old
// one, since the transaction has not been committed.
void FreeBlocks::link_halves(sync::Transaction& change, std::uint32_t lower, std::uint32_t upper,
                             BlockMeta meta) {
  Word& list = list_of(rows_.state(), meta);
  const std::uint64_t head = list.load(std::memory_order_relaxed);
  change.set(list, link_to(lower));
  change.set(rows_.block(lower).prev, 0);
  change.set(rows_.block(lower).next, link_to(upper));
  change.set(rows_.block(upper).prev, link_to(lower));
  change.set(rows_.block(upper).next, head);
  if (head) change.set(rows_.block(row_at(head)).prev, link_to(upper));
}

// Makes a free block of this class from a larger one: untouched memory first, so that warm large blocks stay
// whole.
bool FreeBlocks::split_to(Kind kind, unsigned size_class) {
  const ArenaState& state = rows_.state();
  const auto k = static_cast<std::size_t>(kind);
  return split_from(state.cold[k], size_class) || split_from(state.warm[k], size_class);
}

// The smallest of those in these lists that is large enough.
bool FreeBlocks::split_from(const Word* heads, unsigned size_class) {
  for (unsigned larger = size_class; larger <= rows_.largest_class(); ++larger) {
    const std::uint64_t head = heads[larger].load(std::memory_order_relaxed);
    if (head == 0) continue;
    const std::uint64_t rows_left =
        rows_.block_capacity() - rows_.state().blocks_used.load(std::memory_order_relaxed);
    if (rows_left < larger - size_class) return false;
    for (unsigned level = larger; level > size_class; --level) split_once(row_at(head));
    return true;
  }
  return false;
}

// Joins two free buddies. In two transactions, since both may be neighbours in one list: between them the
// lower one is held by this process, so that its death gives it back.
void FreeBlocks::merge_pair(std::uint32_t lower_index, std::uint32_t upper_index) {
  ArenaState& state = rows_.state();
  BlockRow& lower = rows_.block(lower_index);
  BlockRow& upper = rows_.block(upper_index);
  const std::uint64_t lower_bytes = lower.committed.load(std::memory_order_relaxed);
  const std::uint64_t upper_bytes = upper.committed.load(std::memory_order_relaxed);
  const std::optional<std::uint32_t> row = hold(lower_index);
  if (!row) return;

  sync::Transaction change = rows_.begin();
  BlockMeta gone = BlockMeta::unpack(upper.meta.load(std::memory_order_relaxed));
  unlink(change, upper_index, gone);
  gone.state = BlockState::kUnused;
  ++gone.generation;
  change.set(upper.meta, gone.pack());
  change.set(upper.committed, 0);
  change.set(upper.next, state.block_rows_free.load(std::memory_order_relaxed));
  change.set(state.block_rows_free, link_to(upper_index));

  BlockMeta meta = BlockMeta::unpack(lower.meta.load(std::memory_order_relaxed));
  // `committed` is a prefix: pages in the upper half count the lower half's gap with them.
  const std::uint64_t merged = upper_bytes ? size_of_class(meta.size_class) + upper_bytes : lower_bytes;
  ++meta.size_class;
  ++meta.generation;
  meta.state = BlockState::kFree;
  meta.cold = merged == 0;
  rows_.put_lease(change, *row);
  change.set(lower.meta, meta.pack());
  change.set(lower.count, 0);
  change.set(lower.committed, merged);
  change.set(state.cached, state.cached.load(std::memory_order_relaxed) - upper_bytes + merged);
  change.set(state.committed,
             state.committed.load(std::memory_order_relaxed) - lower_bytes - upper_bytes + merged);
  link(change, lower_index, meta);
  change.commit();
}

void FreeBlocks::merge_level(Kind kind, unsigned level) {
  const ArenaState& state = rows_.state();
  const auto k = static_cast<std::size_t>(kind);
  std::unordered_map<std::uint64_t, std::uint32_t> free_at;
  for (const Word& head : {std::cref(state.warm[k][level]), std::cref(state.cold[k][level])}) {
    for (std::uint64_t at = head.load(std::memory_order_relaxed); at != 0;) {
      const BlockRow& block = rows_.block(row_at(at));
      free_at.emplace(block.offset.load(std::memory_order_relaxed), row_at(at));
      at = block.next.load(std::memory_order_relaxed);
    }
  }
  const std::uint64_t size = size_of_class(level);
  for (const auto& [offset, index] : free_at) {
    if (offset & size) continue;
    if (const auto buddy = free_at.find(offset + size); buddy != free_at.end())
      merge_pair(index, buddy->second);
  }
}

// Merges free buddies, small ones first. Whether a block of the class or a larger one is free afterwards.
// Rare: only when address space has run out.
bool FreeBlocks::merge_up_to(Kind kind, unsigned size_class) {
  for (unsigned level = kSmallestClass; level < size_class; ++level) merge_level(kind, level);
  for (unsigned level = size_class; level <= rows_.largest_class(); ++level)
    if (first(kind, level) != rows_.block_capacity()) return true;
  return false;
}

// The end of a list is its coldest part; large classes first, so that few calls give much back.
std::uint32_t FreeBlocks::coldest_warm() const {
  constexpr int kMostSteps = 64;
  for (unsigned level = rows_.largest_class(); level >= kPageClass; --level) {
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      std::uint64_t at = rows_.state().warm[kind][level].load(std::memory_order_relaxed);
      for (int step = 0; at != 0 && step < kMostSteps; ++step) {
        const std::uint64_t next = rows_.block(row_at(at)).next.load(std::memory_order_relaxed);
        if (next == 0) break;
        at = next;
      }
      if (at != 0) return row_at(at);
    }
  }
  return static_cast<std::uint32_t>(rows_.block_capacity());
}

}  // namespace forklift::inline abi_0_1::arena
