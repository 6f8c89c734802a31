// The depots: cached blocks on their way from processes that have too many to those that have none. There is
// one for each kind and size class, a stack of cells {block, lease row} in shared memory.
//
//   std::size_t stored = depots.put(batch);        // from this process; the rest found no room
//   depots.take(Kind::kShare, size_class, batch);  // up to a batch becomes this process's
//
// No transaction: a cached block has one lease, and changing hands is one store of that lease's holder, as
// with messages. What lies in cell i of depot d is held by "depot d, cell i", so the holder word alone
// decides who has the block:
//   put:  cell[top] <- item;  holder <- {d, top};  top <- top + 1
//   take: holder <- this process;  top <- top - 1
// A taker that is killed between its two stores leaves a cell whose block it holds itself: the reaper gives
// the block back, and the next taker finds another holder and passes over the cell. A putter that is killed
// between its last two stores leaves a block just above the top: whoever locks the depot next raises the top.
//
// Thread and process safety: all functions may be called from any thread of any process; each depot has a
// lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arena/cache/magazine.h"
#include "arena/rows.h"

namespace forklift::inline abi_0_1::arena {

class Depots {
 public:
  // Lays out the depots of a new domain.
  static Status lay_out(domain::Domain& domain);
  explicit Depots(const Rows& rows) : rows_(rows) {}

  // A batch of blocks of one kind and class that this process keeps. How many were stored, from the first on;
  // none when the depot's lock cannot be had.
  std::size_t put(const Batch& batch);
  // Adds blocks to `out` until it is a batch. None when the depot is empty or its lock cannot be had.
  void take(Kind kind, unsigned size_class, Batch& out);
  // For audits: what is wrong about a lease that the depot's cell `holder` holds. nullptr: nothing, or the
  // lease has changed hands since.
  const char* problem_of(std::uint32_t row, Holder holder);

 private:
  Depot& depot(Kind kind, unsigned size_class) const noexcept {
    return rows_.state().depots[static_cast<std::size_t>(kind)][size_class - kSmallestClass];
  }
  sync::LockGuard lock(Kind kind, unsigned size_class);
  // Rows that were ever in use: what a cell names beyond them is damage.
  struct Used {
    std::uint64_t blocks;
    std::uint64_t leases;
  };
  void prefetch_rows(const Depot& depot, std::uint64_t top, std::size_t count,
                     const Used& used) const noexcept;

  Rows rows_;
};

}  // namespace forklift::inline abi_0_1::arena
