// The image that the fake driver's cuModuleLoadData accepts: kernels as host functions.
//
//   static void fill(void** parameters, const unsigned* grid, const unsigned* block, const struct FakeCudaLaunch* launch) {
//     (void)grid; (void)block;
//     unsigned long long address; memcpy(&address, parameters[0], sizeof address);
//     unsigned count; memcpy(&count, parameters[1], sizeof count);
//     float* to = (float*)launch->memory(launch, address, count * sizeof(float));   // null: an illegal address
//     for (unsigned i = 0; to && i < count; ++i) to[i] = 1;
//   }
//   static const size_t sizes[] = {sizeof(unsigned long long), sizeof(unsigned)};
//   static const struct FakeCudaFunction functions[] = {{"fill", fill, 2, sizes}};
//   static const struct FakeCudaImage image = {FAKE_CUDA_MAGIC, 1, functions};
//   cuModuleLoadData(&module, &image);
//
// A kernel's function is called once a launch, in the stream's order, by the thread that synchronises or by the
// stream's own. It must not call the driver. The image must stay where it is until the module is unloaded.
#pragma once

#include <stddef.h>

#define FAKE_CUDA_MAGIC {'F', 'A', 'K', 'E', 'C', 'U', 'D', 'A'}

#ifdef __cplusplus
extern "C" {
#endif

// What a kernel has besides its parameters.
struct FakeCudaLaunch {
  // Where the CPU finds device memory or mapped host memory. Null if a part is not mapped, or not accessible for the
  // device: the launch then fails with CUDA_ERROR_ILLEGAL_ADDRESS and poisons the context.
  void* (*memory)(const struct FakeCudaLaunch* launch, unsigned long long address, size_t bytes);
  // The same for memory that the kernel only reads, which may be mapped read-only.
  const void* (*input)(const struct FakeCudaLaunch* launch, unsigned long long address, size_t bytes);
  unsigned shared_bytes;
};

typedef void (*FakeCudaKernel)(void** parameters, const unsigned grid[3], const unsigned block[3],
                               const struct FakeCudaLaunch* launch);

struct FakeCudaFunction {
  const char* name;
  FakeCudaKernel run;
  unsigned parameter_count;
  const size_t* parameter_sizes;  // in bytes: they are copied at the launch, as the driver does
};

struct FakeCudaImage {
  char magic[8];  // FAKE_CUDA_MAGIC
  unsigned function_count;
  const struct FakeCudaFunction* functions;
};

#ifdef __cplusplus
}
#endif
