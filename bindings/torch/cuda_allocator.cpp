// The two functions by which torch allocates device memory from Forklift (torch.cuda.memory.CUDAPluggableAllocator):
// the only ones that this library exports besides its initialisation, found by their names.
//
// torch calls them from any thread, with or without the interpreter lock, which they do not need. They have no way to
// report an error: memory that cannot be had is null, and the standard error says why.
#include <sys/types.h>

#include <cstdint>
#include <cstdio>

#include "forklift/status.h"
#include "tensor/lent_memory.h"

namespace {

void tell(const char* what, const forklift::Status& why) {
  std::fprintf(stderr, "forklift: %s: %s\n", what, why.to_string().c_str());
}

}  // namespace

extern "C" {

// `stream` is a cudaStream_t, which is the driver's CUstream.
[[gnu::visibility("default"), gnu::used]] void* forklift_cuda_alloc(ssize_t size, int device, void* stream) {
  if (size <= 0) return nullptr;
  const forklift::Result<void*> memory = forklift::tensor::lend_memory(
      device, static_cast<std::size_t>(size), reinterpret_cast<std::uintptr_t>(stream));
  if (memory) return *memory;
  tell("no device memory for torch", memory.status());
  return nullptr;
}

[[gnu::visibility("default"), gnu::used]] void forklift_cuda_free(void* memory, ssize_t, int, void* stream) {
  if (memory == nullptr) return;
  const forklift::Status status =
      forklift::tensor::take_back_memory(memory, reinterpret_cast<std::uintptr_t>(stream));
  if (!status) tell("device memory of torch", status);
}

}  // extern "C"
