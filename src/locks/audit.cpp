// The audit of locks: L1, L2, L4, L5 of locks/tables.h (L3 says what a word means). The result is exact while
// no operation runs.
#include <string>
#include <unordered_map>

#include "locks/table.h"

namespace forklift::inline abi_0_1::locks {

std::vector<std::string> Table::audit() const {
  std::vector<std::string> wrong;
  const std::uint64_t rows = table_->rows_used.load(std::memory_order_acquire);
  const std::uint64_t cells = table_->cells_used.load(std::memory_order_acquire);

  std::vector<std::uint8_t> free_rows(rows, 0);
  std::uint64_t steps = 0;
  for (std::uint64_t at = table_->rows_free.load(); at != 0 && at <= rows && steps <= rows; ++steps) {
    ++free_rows[at - 1];
    at = rows_[at - 1].next.load();
  }
  std::vector<std::uint8_t> free_cells(cells, 0);
  steps = 0;
  for (std::uint64_t at = table_->cells_free.load(); at != 0 && at <= cells && steps <= cells; ++steps) {
    ++free_cells[at - 1];
    at = cells_[at - 1].next.load();
  }

  std::unordered_map<std::uint64_t, std::uint64_t> units;
  std::unordered_map<std::uint64_t, std::uint64_t> parties;
  for (std::uint64_t i = 0; i < cells; ++i) {
    const bool is_free = cells_[i].owner.load() == 0;
    if (is_free != (cells_[i].object.load() == 0) || free_cells[i] != (is_free ? 1 : 0))
      wrong.push_back("L2: cell " + std::to_string(i) + " is in " + std::to_string(free_cells[i]) +
                      " free lists, owner " + std::to_string(cells_[i].owner.load()) + ", object " +
                      std::to_string(cells_[i].object.load()));
    if (is_free) continue;
    const std::uint64_t object = cells_[i].object.load();
    units[object] += cells_[i].units.load();
    if (cells_[i].units.load() == 0) ++parties[object];
  }
  for (std::uint64_t i = 0; i < rows; ++i) {
    const std::uint64_t meta = rows_[i].meta.load();
    const bool in_use = (meta & 1) != 0;
    const std::string name = "lock " + std::to_string(i);
    if (in_use != (rows_[i].count.load() != 0) || free_rows[i] != (in_use ? 0 : 1))
      wrong.push_back("L1: " + name + " is in " + std::to_string(free_rows[i]) + " free lists and counts " +
                      std::to_string(rows_[i].count.load()) + " holders");
    const std::uint64_t object =
        LockId{static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(meta >> 32)}.word();
    if (kind_in(meta) == Kind::kRecovering && rows_[i].state.load() + units[object] != rows_[i].depth.load())
      wrong.push_back("L4: " + name + " has " + std::to_string(rows_[i].state.load()) + " units and " +
                      std::to_string(units[object]) + " in records, of " +
                      std::to_string(rows_[i].depth.load()));
    if (kind_in(meta) == Kind::kBarrier && rows_[i].inside.load() != parties[object])
      wrong.push_back("L5: " + name + " counts " + std::to_string(rows_[i].inside.load()) +
                      " parties, the records say " + std::to_string(parties[object]));
  }
  return wrong;
}

std::uint64_t Table::live_locks() const noexcept {
  std::uint64_t live = 0;
  const std::uint64_t used = table_->rows_used.load(std::memory_order_acquire);
  for (std::uint64_t i = 0; i < used; ++i)
    live += rows_[i].count.load(std::memory_order_relaxed) != 0 ? 1 : 0;
  return live;
}

std::uint64_t Table::live_cells() const noexcept {
  std::uint64_t live = 0;
  const std::uint64_t used = table_->cells_used.load(std::memory_order_acquire);
  for (std::uint64_t i = 0; i < used; ++i)
    live += cells_[i].owner.load(std::memory_order_relaxed) != 0 ? 1 : 0;
  return live;
}

}  // namespace forklift::inline abi_0_1::locks
