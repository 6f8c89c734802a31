// The device addresses of this process: ranges that are reserved without access, and what is mapped in them.
//
//   Range* range = nullptr;
//   CudaError error = space().reserve(bytes, alignment, 0, Range::Kind::kReservation, &range);
//   error = space().map(*range, 0, bytes, memory, handle);
//   range->pieces.begin()->second.access[device] = kReadWrite;
//   char* memory = space().access(range->base + 8, 100, device, Use::kWrite, By::kCopy);  // null: illegal
//
// A range has two places: `base`, the device address, without access for the CPU; and `alias`, elsewhere, where the
// fake itself reads and writes. Pieces lie at the same offsets in both, so that memory that is contiguous for the
// device is contiguous in the alias.
//
// Guarded by process_mutex().
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "entry.h"
#include "physical.h"

namespace forklift::inline abi_0_1::device::cuda::fake {

class Origin;  // ipc_memory.h

inline constexpr int kReadOnly = 1;   // CU_MEM_ACCESS_FLAGS_PROT_READ
inline constexpr int kReadWrite = 3;  // CU_MEM_ACCESS_FLAGS_PROT_READWRITE

enum class Use {
  kRead,
  kWrite
};
// The driver copies between devices that are no peers; a kernel does not reach the other one's memory.
enum class By {
  kCopy,
  kKernel
};

// Memory that is mapped into a range.
struct Piece {
  std::size_t bytes = 0;
  std::shared_ptr<Physical> memory;
  Allocation handle = 0;  // of virtual memory
  std::map<DeviceNumber, int>
      access;  // of virtual memory; other memory is accessible for its device and peers
};

struct Range {
  enum class Kind {
    kPlain,        // cuMemAlloc
    kReservation,  // cuMemAddressReserve
    kIpc           // cuIpcOpenMemHandle
  };

  Kind kind = Kind::kReservation;
  Pointer base = 0;
  char* alias = nullptr;
  std::size_t bytes = 0;                // as asked for
  std::size_t reserved = 0;             // whole pages
  DeviceNumber device = 0;              // of kPlain and kIpc
  std::map<std::size_t, Piece> pieces;  // offset -> what is mapped there
  std::shared_ptr<Origin> origin;       // of kIpc
  long opened = 0;                      // of kIpc
};

class Space {
 public:
  CudaError reserve(std::size_t bytes, std::size_t alignment, Pointer wish, Range::Kind kind, Range** made);
  // Precondition: nothing is mapped in it.
  void release(const Range& range);

  // Precondition: [offset, offset + bytes) lies in the range and nothing is mapped there.
  CudaError map(Range& range, std::size_t offset, std::size_t bytes, std::shared_ptr<Physical> memory,
                Allocation handle);
  void unmap(Range& range, std::size_t offset);

  // The range in which an address lies; null: none.
  Range* find(Pointer address);
  // The mapped piece in which an address lies; null: none.
  Piece* find_piece(Pointer address);
  // Does one range contain all of it?
  bool contains(Pointer address, std::size_t bytes);
  // May work of a device use all of [address, address + bytes), as it is mapped now? Also of mapped host memory.
  bool may_access(Pointer address, std::size_t bytes, DeviceNumber device, Use use, By by);
  // Where the fake finds [address, address + bytes), for work of a device; also of mapped host memory. Null: a part
  // is not mapped, or the device has no access.
  char* access(Pointer address, std::size_t bytes, DeviceNumber device, Use use, By by);
  // The same without asking for the right to: for the tests' looks at memory.
  char* peek(Pointer address, std::size_t bytes);

  template <class Visit>
  void each(Visit visit) {
    for (auto next = ranges_.begin(); next != ranges_.end();) visit((next++)->second);
  }

 private:
  template <class Allows>
  bool all_allow(Pointer address, std::size_t bytes, Allows allows);
  template <class Allows>
  char* resolve(Pointer address, std::size_t bytes, Allows allows);

  std::map<Pointer, Range> ranges_;  // by base
};

Space& space();

}  // namespace forklift::inline abi_0_1::device::cuda::fake
