// The blocks that this process keeps for its next allocations: its magazine, and what it moves between the
// magazine, the depots and the ledger.
//
//   Grant got;
//   {
//     const std::lock_guard lock(mutex);
//     if (cache.take(kind, size_class, bytes, got)) return got;
//   }
//   if (cache.refill(kind, size_class, bytes, got)) return got;   // from a depot
//
//   Batch surplus;
//   {
//     const std::lock_guard lock(mutex);
//     kept = cache.keep(block, row, surplus);
//   }
//   cache.pass_on(surplus);
//
// A kept block costs no transaction in either direction: the process stays its only holder.
//
// Thread safety: `mutex` is the arena's process-private lock. Functions that say so need it; the others take
// it themselves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arena/cache/depots.h"
#include "arena/cache/magazine.h"
#include "arena/ledger.h"
#include "sync/spin_lock.h"

namespace forklift::inline abi_0_1::arena {

class BlockCache {
 public:
  BlockCache(Ledger& ledger, sync::SpinLock& mutex)
      : rows_(ledger.rows()), ledger_(ledger), mutex_(mutex), depots_(rows_) {}
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  // Mutex held. A block from the magazine. False when it has none with the pages for `bytes`.
  bool take(Kind kind, unsigned size_class, std::size_t bytes, Grant& got) noexcept {
    CachedBlock kept;
    if (!magazine_.take(kind, size_class, pages_for(bytes, size_class), kept)) return false;
    got = reopen(kept, kind, size_class, bytes);
    return true;
  }
  // Mutex held. Keeps the block of a lease that ends, if this process is its only holder and its class is in
  // steady use. When the magazine was full, half of it is in `surplus` afterwards, for pass_on.
  bool keep(std::uint32_t block, std::uint32_t row, Batch& surplus) noexcept;
  // Mutex held, in a forked child: the blocks are the parent's.
  void forget() noexcept { magazine_.forget(); }

  // A block from the depot, and with it a batch for the magazine. False when the depot has none.
  bool refill(Kind kind, unsigned size_class, std::size_t bytes, Grant& got);
  // A batch that left the magazine goes to the depot, and what finds no room there to the ledger.
  void pass_on(const Batch& batch);
  // All that this process and the depots keep goes back to the ledger.
  void clear();

  Depots& depots() noexcept { return depots_; }

 private:
  Grant reopen(const CachedBlock& kept, Kind kind, unsigned size_class, std::size_t bytes) noexcept;
  void release(const Batch& batch, std::size_t first);

  Rows rows_;
  Ledger& ledger_;
  sync::SpinLock& mutex_;
  Depots depots_;
  Magazine magazine_;
  std::uint64_t most_kept_ = 0;  // bytes; follows the budget
};

}  // namespace forklift::inline abi_0_1::arena
