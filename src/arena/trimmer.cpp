#include "arena/trimmer.h"

#include "arena/punch_log.h"
#include "os/memfd.h"

namespace forklift::inline abi_0_1::arena {

std::uint64_t Trimmer::trim_to(std::uint64_t keep) {
  std::uint64_t freed = 0;
  while (rows_.state().cached.load(std::memory_order_relaxed) > keep) {
    const std::uint64_t bytes = punch_one();
    if (bytes == 0) break;
    freed += bytes;
  }
  return freed;
}

// Takes one free block out of its list, gives its pages back and frees it cold. While the pages go, this
// process holds the block: if it dies in between, the block is free again with more bytes booked than exist,
// which is harmless.
std::uint64_t Trimmer::punch_one() {
  std::uint32_t index = 0;
  std::uint32_t row = 0;
  std::uint64_t committed = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  const domain::Domain& domain = rows_.domain();
  const bool intact = domain.descriptors_intact();
  {
    sync::LockGuard guard = rows_.lock();
    if (!guard.ok()) return 0;
    index = free_blocks_.coldest_warm();
    if (index == rows_.block_capacity()) return 0;
    const std::optional<std::uint32_t> held = free_blocks_.hold(index);
    if (!held) return 0;
    row = *held;
    committed = rows_.block(index).committed.load(std::memory_order_relaxed);
    offset = rows_.block(index).offset.load(std::memory_order_relaxed);
    bytes = (committed + 4095) & ~std::uint64_t{4095};
    if (intact) PunchLog(rows_.state()).note(offset, bytes);
  }
  BlockRow& block = rows_.block(index);
  const bool punched =
      intact && may_punch_(offset, bytes) && os::punch_hole(domain.data_file(), offset, bytes).ok();
  if (punched) {
    on_punched_(index);
    sync::LockGuard guard = rows_.lock();
    if (!guard.ok()) return 0;
    ArenaState& state = rows_.state();
    sync::Transaction change = rows_.begin();
    change.set(block.committed, 0);
    change.set(state.committed, state.committed.load(std::memory_order_relaxed) - committed);
    change.commit();
  }
  {
    sync::LockGuard guard = rows_.lock();
    if (!guard.ok()) return 0;
    free_blocks_.drop_lease(row, index);
  }
  return punched ? committed : 0;
}

}  // namespace forklift::inline abi_0_1::arena
