// How each function of the driver begins: it is counted, may be made to fail, and needs an initialised driver and
// mostly a context.
//
//   FAKE_CUDA CudaError cuMemFree_v2(Pointer memory) {
//     return enter("cuMemFree", Needs::kContext, [&](Lock& lock) { ... });
//   }
//
// Invariant: all tables of the process are read and changed under the lock of process_mutex(), which enter() holds
// while it runs the body. What waits gives the lock up (engine.h).
//
// Fork: the parent's threads may have held the mutex, so a child of an initialised process is refused before it.
#pragma once

#include <mutex>

#include "device/cuda/api.h"
#include "entry_points.h"

// The functions that the library exports, with the names that the driver has.
#define FAKE_CUDA extern "C" __attribute__((visibility("default")))

namespace forklift::inline abi_0_1::device::cuda::fake {

using Lock = std::unique_lock<std::mutex>;

enum class Needs {
  kNothing,  // not even cuInit
  kInit,
  kContext  // one that is current to the calling thread, and alive
};

std::mutex& process_mutex();

// Counts the call and says whether it may go on.
CudaError admit(const char* name, Needs needs);
// Whether the calling thread has a current context that is alive.
CudaError check_context();

void set_initialised();

// The error that made the context unusable; kSuccess: none. The first one stays.
CudaError poison();
void set_poison(CudaError error);

template <class Body>
CudaError enter(const char* name, Needs needs, Body body) {
  if (const CudaError error = admit(name, needs); error != CudaError::kSuccess) return error;
  Lock lock(process_mutex());
  if (needs == Needs::kContext) {
    if (const CudaError error = check_context(); error != CudaError::kSuccess) return error;
  }
  return body(lock);
}

}  // namespace forklift::inline abi_0_1::device::cuda::fake
