// Which element a thread computes, and where it lies.
//
//   std::int64_t offsets[2];
//   locate<2>(layout, number, offsets);            // byte offsets in both arrays of element `number`, in C order
//
// All numbers of elements have 64 bits. Below 2^31 elements the divisions are of 32 bits.
#pragma once

#include <cstdint>

#include "kernels/cuda/parameters.h"

namespace forklift::kernels::cuda {

__device__ inline std::uint32_t quotient(const Divider& divider, std::uint32_t number) {
  return (__umulhi(number, divider.magic) + number) >> divider.shift;
}

template <int arrays>
__device__ inline void locate(const Layout& layout, std::int64_t number, std::int64_t (&offsets)[arrays]) {
  for (int k = 0; k < arrays; ++k) offsets[k] = 0;
  if (layout.ndim == 0) return;
  if (layout.narrow != 0) {
    auto rest = static_cast<std::uint32_t>(number);
    for (int dim = layout.ndim - 1; dim > 0; --dim) {
      const std::uint32_t next = quotient(layout.dividers[dim], rest);
      const std::uint32_t index = rest - next * layout.dividers[dim].length;
      for (int k = 0; k < arrays; ++k) offsets[k] += static_cast<std::int64_t>(index) * layout.steps[k][dim];
      rest = next;
    }
    number = rest;
  } else {
    for (int dim = layout.ndim - 1; dim > 0; --dim) {
      const std::int64_t next = number / layout.lengths[dim];
      const std::int64_t index = number - next * layout.lengths[dim];
      for (int k = 0; k < arrays; ++k) offsets[k] += index * layout.steps[k][dim];
      number = next;
    }
  }
  for (int k = 0; k < arrays; ++k) offsets[k] += number * layout.steps[k][0];
}

// Of all threads along x.
__device__ inline std::int64_t thread_number() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t thread_count() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

}  // namespace forklift::kernels::cuda
