// Device memory of other libraries of this process (torch's, CuPy's), shared without a copy.
//
//   Result<arena::LeasePtr> lease = foreign.share(pointer, bytes, owner);     // `owner` keeps the memory
//   ...
//   foreign.collect();                      // drops the owners of what no process holds any more
//   foreign.leave(deadline);                // before this process ends
//
// Three ways, by what the driver says of the memory:
//  - cudaMalloc's: by the legacy handle of its base allocation and the place in it. Such memory is gone with this process,
//    the origin.
//  - virtual memory that has a descriptor (torch's expandable segments): by descriptor. It stays as long as somebody has it.
//  - anything else, and what lies in several allocations: copied once into Forklift's own memory. Writes of the one are not
//    seen by the other then.
//
// While any process holds the lease, this process keeps `owner`, so the memory is not given to another tensor.
// What others still want of an origin that leaves is copied into Forklift's own memory, and messages that carry it
// carry the copy. A process that has opened the memory itself cannot be moved, so the origin waits for it, for a
// bounded time: FORKLIFT_DEVICE_EXIT_SECONDS (10). FORKLIFT_DEVICE_EXIT=wait waits for messages to be taken, too, before
// anything is copied.
//
// Errors: kInvalid: no memory of this device; kNoSpace, kOverBudget of a copy; those of memory_pool/pools.h.
// Thread safety: all functions. `owner` is dropped without a lock held, and never once it begins to leave: the process ends,
// and what an owner belongs to (an interpreter) may have ended before. Fork: a child has no use of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/device_memory.h"
#include "os/clock.h"

namespace forklift::inline abi_0_1::device::cuda {

class ForeignMemory {
 public:
  using Owner = std::shared_ptr<const void>;

  ForeignMemory(const MemoryPlace& place, const memory_pool::DeviceUuid& uuid, DeviceMemory& own,
                Stream& stream)
      : place_(place), uuid_(uuid), own_(own), stream_(stream) {}

  // With the device's context current.
  Result<arena::LeasePtr> share(Pointer memory, std::size_t bytes, const Owner& owner);
  void collect();
  // Leaves allocations of which no process holds anything, but for the first `kept` of them: their libraries may have
  // freed them, which nobody says.
  void trim(std::size_t kept = 0);
  // From now on owners are not dropped any more. Does any process hold something?
  bool begin_to_leave();
  // After begin_to_leave(): copies what would dangle, or waits. What is lost all the same, as sentences; empty: nothing. With the device's
  // context current.
  std::string leave(os::Deadline deadline, bool wait_for_messages);
  // How many ranges others hold.
  std::size_t shared();

 private:
  // An allocation whose tensors come and go stays entered, so that its receivers need not open it anew.
  static constexpr std::size_t kIdleBases = 64;
  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    bool operator<(const Range& other) const noexcept {
      return offset != other.offset ? offset < other.offset : bytes < other.bytes;
    }
  };
  struct Base {
    memory_pool::PoolRef pool{};
    memory_pool::OriginHandle handle{};  // kNoHandle: by descriptor
    std::uint64_t bytes = 0;
    std::map<Range, Owner> held{};  // the first owner of each: it keeps the memory for all
  };
  struct Block {
    Pointer base = 0;
    std::size_t bytes = 0;
  };
  // The allocation around [memory, memory + bytes). kNotFound: there is none that has it all.
  Result<Block> block_of(Pointer memory, std::size_t bytes) const;
  Result<Base*> base_for(const Block& block, Pointer memory);
  Result<Base> by_handle(const Block& block) const;
  Result<Base> by_descriptor(const Block& block, Pointer memory) const;
  Result<arena::LeasePtr> copy(Pointer memory, std::size_t bytes);
  Status copy_within(Pointer to, Pointer from, std::size_t bytes) const;
  // A range that lies in Forklift's memory now, and the processes that may have opened it where it was.
  struct Moved {
    memory_pool::PoolRef pool;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::vector<domain::SlotRef> holders;
  };
  Result<Moved> move_to_own(Pointer address, const Base& from, const Range& range);
  // `failures`: of what could not be moved, by reason.
  std::vector<Moved> move_all(std::map<std::string, std::size_t>& failures);
  static void collect(Base& base, std::vector<Owner>& dropped);

  const MemoryPlace& place_;
  const memory_pool::DeviceUuid& uuid_;
  DeviceMemory& own_;
  Stream& stream_;
  std::mutex mutex_;
  bool leaving_ = false;
  std::map<Pointer, Base> bases_;
};

}  // namespace forklift::inline abi_0_1::device::cuda
