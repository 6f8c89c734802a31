// The compiled kernels that this build of the library has.
//
//   Result<const void*> image = image_of(Image::kMap);         // what cuModuleLoadData takes
//
// nvcc compiles this folder's .cu files when the library is built where a CUDA toolkit is installed (cmake/ForkliftCuda.cmake):
// to PTX, which the driver compiles for its GPU, and to instructions of the GPUs that are named there. The results lie in the
// library's own read-only data. FORKLIFT_CUDA_IMAGES names a folder with other ones (map.fatbin, reduce.fatbin,
// matmul.fatbin), for a library that was built without a toolkit or with another one.
//
// Errors: kUnsupported: this build has none, and no folder is named; kSystem: a file of that folder cannot be read.
// Thread safety: yes. The memory stays until the process ends.
#pragma once

#include <cstdint>

#include "forklift/status.h"

namespace forklift::inline abi_0_1::kernels::cuda {

enum class Image : std::uint8_t {
  kMap,
  kReduce,
  kMatmul
};
inline constexpr std::size_t kImages = 3;

Result<const void*> image_of(Image image);
// Does the library itself have kernels?
bool has_images() noexcept;

}  // namespace forklift::inline abi_0_1::kernels::cuda
