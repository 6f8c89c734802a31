#include "host_kernels/table.h"

#include <cstdint>
#include <cstring>

namespace forklift::inline abi_0_1::device::cuda::fake {

bool is_compiled_image(const void* image) {
  constexpr std::uint32_t kFatBinary = 0xBA55ED50;
  std::uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  return magic == kFatBinary || std::memcmp(image, "//", 2) == 0 || std::memcmp(image, ".ver", 4) == 0;
}

const FakeCudaImage& host_kernels() {
  static const auto* const all = [] {
    auto* const made = new std::vector<FakeCudaFunction>;
    for (const auto& file : {map_kernels(), reduce_kernels(), matmul_kernels()})
      made->insert(made->end(), file.begin(), file.end());
    return made;
  }();
  static const FakeCudaImage image{FAKE_CUDA_MAGIC, static_cast<unsigned>(all->size()), all->data()};
  return image;
}

}  // namespace forklift::inline abi_0_1::device::cuda::fake
