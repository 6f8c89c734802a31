// cuMemAlloc's memory, and questions about any address.
#pragma once

#include "entry.h"
#include "space.h"

namespace forklift::inline abi_0_1::device::cuda::fake {

class PlainMemory {
 public:
  CudaError allocate(DeviceNumber device, std::size_t bytes, Pointer* memory);
  // Precondition: `range` is of cuMemAlloc. Tells the processes that have it open.
  void free(Range& range);
  void end_context(DeviceNumber device);
};

PlainMemory& plain_memory();

}  // namespace forklift::inline abi_0_1::device::cuda::fake
