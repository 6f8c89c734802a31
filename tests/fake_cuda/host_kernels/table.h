// The kernels of src/kernels/cuda, compiled for the host: what the fake driver finds in any image of a real compiler.
//
//   if (is_compiled_image(image)) image = &host_kernels();
//
// Thread safety: a constant.
#pragma once

#include <vector>

#include "kernel_table.h"

namespace forklift::inline abi_0_1::device::cuda::fake {

// Does it begin as what nvcc makes: a fat binary, or PTX?
bool is_compiled_image(const void* image);

const FakeCudaImage& host_kernels();

// One function for each .cu file.
std::vector<FakeCudaFunction> map_kernels();
std::vector<FakeCudaFunction> reduce_kernels();
std::vector<FakeCudaFunction> matmul_kernels();

}  // namespace forklift::inline abi_0_1::device::cuda::fake
