#include "arena/cache/depots.h"

#include <algorithm>

namespace forklift::inline abi_0_1::arena {

namespace {

// In one depot. All of it goes back to the ledger when memory is short.
constexpr std::uint64_t kDepotBytes = std::uint64_t{8} << 20;

std::size_t cells_for(unsigned size_class) {
  return std::clamp<std::size_t>(kDepotBytes >> size_class, 2, Depot::kCells);
}

std::uint64_t pack_cell(const CachedBlock& kept) { return (std::uint64_t{kept.block} << 32) | kept.row; }
std::uint32_t block_in(std::uint64_t cell) { return static_cast<std::uint32_t>(cell >> 32); }
std::uint32_t row_in(std::uint64_t cell) { return static_cast<std::uint32_t>(cell); }

}  // namespace

Status Depots::lay_out(domain::Domain& domain) {
  const Rows rows(domain);
  for (auto& kind : rows.state().depots)
    for (Depot& depot : kind)
      if (Status status = depot.mutex.init(); !status) return status;
  return {};
}

sync::LockGuard Depots::lock(Kind kind, unsigned size_class) {
  Depot& depot = this->depot(kind, size_class);
  return sync::LockGuard(depot.mutex, [&] {
    const std::uint64_t top = depot.top.load(std::memory_order_relaxed);
    if (top >= Depot::kCells) return;
    const std::uint32_t row = row_in(depot.cells[top].load(std::memory_order_relaxed));
    if (row < rows_.lease_capacity() && rows_.lease(row).holder.load(std::memory_order_relaxed) ==
                                            Holder::depot(depot_number(kind, size_class), top).word) {
      depot.top.store(top + 1, std::memory_order_relaxed);
    }
  });
}

std::size_t Depots::put(const Batch& batch) {
  if (batch.count == 0) return 0;
  const BlockMeta meta =
      BlockMeta::unpack(rows_.block(batch.items[0].block).meta.load(std::memory_order_relaxed));
  Depot& depot = this->depot(meta.kind, meta.size_class);
  const sync::LockGuard guard = lock(meta.kind, meta.size_class);
  std::uint64_t top = depot.top.load(std::memory_order_relaxed);
  std::size_t stored = 0;
  while (guard.ok() && stored < batch.count && top < cells_for(meta.size_class)) {
    const CachedBlock& kept = batch.items[stored++];
    depot.cells[top].store(pack_cell(kept), std::memory_order_relaxed);
    sync::crash_fence();
    rows_.lease(kept.row).holder.store(Holder::depot(depot_number(meta.kind, meta.size_class), top).word,
                                       std::memory_order_release);
    sync::crash_fence();
    depot.top.store(++top, std::memory_order_relaxed);
    sync::crash_fence();
  }
  return stored;
}

// Other processors wrote the rows last: all are fetched while the first one is looked at.
void Depots::prefetch_rows(const Depot& depot, std::uint64_t top, std::size_t count,
                           const Used& used) const noexcept {
  for (std::uint64_t i = top; i-- > 0 && top - i <= count;) {
    const std::uint64_t cell = depot.cells[i].load(std::memory_order_relaxed);
    if (block_in(cell) < used.blocks) sync::fetch_to_write(&rows_.block(block_in(cell)));
    if (row_in(cell) < used.leases) sync::fetch_to_write(&rows_.lease(row_in(cell)));
  }
}

void Depots::take(Kind kind, unsigned size_class, Batch& out) {
  Depot& depot = this->depot(kind, size_class);
  if (depot.top.load(std::memory_order_relaxed) == 0) return;
  const sync::LockGuard guard = lock(kind, size_class);
  if (!guard.ok()) return;
  const Used used{rows_.blocks_used(), rows_.leases_used()};
  std::uint64_t top = std::min<std::uint64_t>(depot.top.load(std::memory_order_relaxed), Depot::kCells);
  prefetch_rows(depot, top, Magazine::batch(size_class), used);
  while (top != 0 && out.count < Magazine::batch(size_class)) {
    const std::uint64_t cell = depot.cells[--top].load(std::memory_order_relaxed);
    const std::uint32_t index = block_in(cell);
    const std::uint32_t row = row_in(cell);
    if (row < used.leases && index < used.blocks &&
        rows_.lease(row).holder.load(std::memory_order_relaxed) ==
            Holder::depot(depot_number(kind, size_class), top).word &&
        rows_.lease(row).object.load(std::memory_order_relaxed) == Object{ObjectKind::kBlock, index}.pack()) {
      const BlockRow& block = rows_.block(index);
      const BlockMeta meta = BlockMeta::unpack(block.meta.load(std::memory_order_acquire));
      rows_.lease(row).holder.store(rows_.self().word, std::memory_order_relaxed);
      sync::crash_fence();
      out.items[out.count++] = {index, row, meta.generation, block.offset.load(std::memory_order_relaxed),
                                block.committed.load(std::memory_order_relaxed)};
    }
    depot.top.store(top, std::memory_order_relaxed);
    sync::crash_fence();
  }
}

const char* Depots::problem_of(std::uint32_t row, Holder holder) {
  const std::uint32_t number = holder.depot_number();
  if (number >= kKinds * kKeptClasses) return "is held by a depot that does not exist";
  const auto kind = static_cast<Kind>(number / kKeptClasses);
  const unsigned size_class = kSmallestClass + number % kKeptClasses;
  const sync::LockGuard guard = lock(kind, size_class);
  if (!guard.ok() || rows_.lease(row).holder.load() != holder.word) return nullptr;
  const Depot& depot = this->depot(kind, size_class);
  const std::uint64_t cell = holder.cell();
  if (cell >= Depot::kCells || cell >= depot.top.load()) return "lies above its depot's top";
  const std::uint64_t item = depot.cells[cell].load();
  if (row_in(item) != row) return "lies in a cell that names another lease";
  const Object object = Object::unpack(rows_.lease(row).object.load());
  if (object.kind != ObjectKind::kBlock || object.index != block_in(item))
    return "lies in a depot and names another block";
  if (BlockMeta::unpack(rows_.block(object.index).meta.load()).state != BlockState::kKept)
    return "lies in a depot and is in use";
  return nullptr;
}

}  // namespace forklift::inline abi_0_1::arena
