// The words of CUDA C++ that src/kernels/cuda/*.cu use, for the host's compiler: the same source runs on the CPU.
//
//   #include "host_kernels/device_language.h"
//   #include "kernels/cuda/map.cu"
//
// The threads of a block run one after the other. Where a kernel has barriers, each of them is a fiber (fibers.h), and a
// barrier lets the next one run. Blocks run one after the other, so what a block shares is static; run.h lets one thread of
// the host at a time run a kernel that shares something. It would be too much for the thread-local memory of a library.
//
// Thread safety: each thread of the host runs a launch of its own.
#pragma once

#include <cmath>
#include <cstdint>

#define __global__
#define __device__
#define __grid_constant__
#define __shared__ static

namespace forklift::inline abi_0_1::device::cuda::fake {

struct Index3 {
  unsigned x;
  unsigned y;
  unsigned z;
};

}  // namespace forklift::inline abi_0_1::device::cuda::fake

inline thread_local forklift::device::cuda::fake::Index3 threadIdx;
inline thread_local forklift::device::cuda::fake::Index3 blockIdx;
inline thread_local forklift::device::cuda::fake::Index3 blockDim;
inline thread_local forklift::device::cuda::fake::Index3 gridDim;

// Of the calling thread's block.
void __syncthreads();

inline std::uint32_t __umulhi(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>((std::uint64_t{a} * b) >> 32);
}
