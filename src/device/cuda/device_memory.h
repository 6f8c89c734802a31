// The device memory of this process: pools of the driver's virtual memory, and the ranges in them that tensors have.
//
//   DeviceMemory memory(place, uuid, "GPU");
//   Result<Pointer> tensor = memory.allocate(bytes);
//   Result<arena::LeasePtr> lease = memory.share(*tensor, bytes);     // travels in messages, as a block's does
//   ...
//   memory.free(*tensor);                                              // other processes keep what they hold
//
// A pool is one allocation of the driver's, with one descriptor, of kPoolBytes or of what a larger tensor needs. It is
// entered into the domain's memory pools (memory_pool/pools.h) when it is made, so that the domain's audit and budget
// know it. A tensor has a range of a pool. Ranges are given out again without asking the driver; pools without a tensor go back to it
// when memory is short, or by trim().
//
// A range that was shared stays out of use until its last holder, in whatever process, has dropped it. Ranges are
// given out in the order of the device's stream: what was queued there before free() is done before what the next
// owner of the range queues.
//
// Where the device has no virtual memory, pools are plain memory of this process, shared by legacy handles. It says so once.
//
// The budget (FORKLIFT_DEVICE_BUDGET) limits the bytes of all pools of the domain on this device.
//
// Invariants: ranges of a pool do not overlap and cover it; two neighbours are never both free; `free_` has the free ranges of
// all pools.
//
// Errors: kOverBudget; kNoSpace, with what is held and what the device has; what the driver says.
// Thread safety: all functions. Fork: a child has no use of it (Gpu::usable).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "device/cuda/device_range.h"
#include "memory_pool/pools.h"

namespace forklift::inline abi_0_1::device::cuda {

class DeviceMemory {
 public:
  static constexpr std::size_t kPoolBytes = std::size_t{64} << 20;
  // Ranges begin and end at multiples of it, as those of cudaMalloc do.
  static constexpr std::size_t kAlignment = 512;

  DeviceMemory(const MemoryPlace& place, const memory_pool::DeviceUuid& uuid, std::string name);

  // `bytes` > 0. Not cleared.
  Result<Pointer> allocate(std::size_t bytes);
  // What allocate() has returned; the lease of share() is dropped before.
  void free(Pointer memory) noexcept;
  // A lease on the first `bytes` of what allocate() has returned. The same number each time.
  Result<arena::LeasePtr> share(Pointer memory, std::size_t bytes);
  // Gives back the pools in which no tensor lies. How many bytes that were.
  std::size_t trim();

  struct Stats {
    std::uint64_t pools = 0;
    std::uint64_t bytes = 0;  // of the pools
    std::uint64_t used = 0;   // of ranges that tensors have
    std::uint64_t away = 0;   // of ranges that only other processes have
  };
  Stats stats();

 private:
  enum class State : std::uint8_t {
    kFree,
    kUsed,
    kShared,    // in use, and leases on it were made
    kReturned,  // in use, was shared, and nobody holds a lease any more
    kAway       // not in use here; other processes hold leases
  };
  struct Range {
    std::size_t bytes = 0;
    State state = State::kFree;
  };
  struct Pool {
    std::shared_ptr<DeviceRange> range;
    memory_pool::PoolRef ref;
    std::map<Pointer, Range> ranges;  // by address
    std::size_t shared = 0;           // ranges that are kShared or kAway
  };
  using Pools = std::map<Pointer, Pool>;  // by address

  memory_pool::Pools* table() const;
  Status add_pool(std::size_t bytes);
  Status make_pool(std::size_t bytes);
  Status check_budget(std::size_t bytes) const;
  Result<Pointer> take(std::size_t bytes);
  void release(Pool& pool, std::map<Pointer, Range>::iterator at);
  void collect();
  std::size_t trim_locked();
  Pools::iterator pool_of(Pointer memory);
  Status out_of_memory(std::size_t bytes, const Status& why);

  const MemoryPlace place_;
  const memory_pool::DeviceUuid uuid_;
  const std::string name_;
  std::mutex mutex_;
  Pools pools_;
  bool said_ = false;                               // that this device's memory ends with the process
  std::set<std::pair<std::size_t, Pointer>> free_;  // the smallest that fits, and of these the lowest
};

}  // namespace forklift::inline abi_0_1::device::cuda
