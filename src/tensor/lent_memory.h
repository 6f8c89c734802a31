// Device memory that another library of this process allocates from Forklift: torch, by an allocator of its own kind
// (bindings/torch/cuda_allocator.cpp).
//
//   Result<void*> memory = lend_memory(0, bytes, stream);       // for work on that stream
//   ...
//   take_back_memory(*memory, stream);                          // what that stream has queued may still use it
//
// The memory is a storage of Forklift's: find_on_device() finds it, and a tensor of the other library over it is sent as a
// piece of a memory pool, whose receivers keep it when this process ends. What a process still uses is not given out again.
//
// Neither function waits. Forklift gives memory out in the order of its own stream, so that stream follows the other one
// when memory comes back, and the other one follows it when memory goes out.
//
// Errors: those of Device::allocate and of the driver. kUnsupported: no GPU has this number here.
// Thread safety: all functions. Fork: in a child take_back_memory() does nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "forklift/status.h"

namespace forklift::inline abi_0_1::tensor {

// `stream`: the driver's, 0 being the legacy default stream.
Result<void*> lend_memory(int ordinal, std::size_t bytes, std::uintptr_t stream);
// kInvalid: it was not lent.
Status take_back_memory(void* memory, std::uintptr_t stream);

}  // namespace forklift::inline abi_0_1::tensor
