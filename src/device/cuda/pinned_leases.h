// Memory of the arena that another library of this process copies to and from GPUs by itself and without waiting, such as
// torch's `batch.to("cuda", non_blocking=True)`.
//
//   PinnedLeases& pinned = PinnedLeases::of_process();
//   if (pinned.pin(gpu, lease)) ...                   // the driver says now that the memory is page-locked
//   ...
//   pinned.collect(false);                            // now and then: gives back what nobody uses any more
//
// Neither Forklift nor the driver tells when such a copy is done, or that one is under way. So the block is kept by a lease
// beside those of its users. When these are gone, whatever they have queued is still allowed to read the block, until all
// work of all GPUs that was queued by then is done: only then may the block be used again. To wait for that at each block would
// keep the CPU from running ahead of the GPU, so it is done for kMostIdle of them at once.
//
// Errors: none. What cannot be registered is not pinned.
// Thread safety: all functions. Fork: a child keeps the leases that its parent had at the fork as long as it lives, and
// can pin nothing.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "arena/lease.h"
#include "device/cuda/pinned_arena.h"

namespace forklift::inline abi_0_1::device::cuda {

class PinnedLeases {
 public:
  static constexpr std::size_t kMostIdle = 8;

  static PinnedLeases& of_process();

  // Has the memory of a block registered as one range, for as long as anybody in any process holds the block. False: it is not;
  // memory that is no block of the arena's share kind, for one.
  bool pin(const MemoryPlace& place, const arena::LeasePtr& lease);
  // If at least kMostIdle blocks have no user any more (`all`: one), waits for the GPUs and gives them back. How many.
  std::size_t collect(bool all);
  std::size_t count();

 private:
  struct Entry {
    arena::LeasePtr lease;  // dropped last
    PinnedArena::Use use;
  };
  PinnedLeases() = default;
  Status complete_all() const;

  std::mutex mutex_;
  const Driver* driver_ = nullptr;
  std::vector<Entry> entries_;
};

}  // namespace forklift::inline abi_0_1::device::cuda
