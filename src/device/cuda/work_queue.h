// Where the work of a GPU is queued.
//
//   if (const Queue* queue = device->queue()) ...              // a GPU: launch kernels on queue->stream
//
// Work on one queue is done in the order in which it was queued, and calls that queue it return at once.
//
// Thread safety: a value.
#pragma once

#include "device/cuda/driver.h"

namespace forklift::inline abi_0_1::device::cuda {

struct Queue {
  const Driver* driver = nullptr;
  Context context = nullptr;
  Stream stream = nullptr;
};

}  // namespace forklift::inline abi_0_1::device::cuda
