#include "kernels/cuda/strided.h"

#include <bit>

namespace forklift::inline abi_0_1::kernels::cuda {

Divider divider_of(std::uint32_t length) noexcept {
  // The smallest shift with 2^shift >= length; then magic = floor(2^32 (2^shift - length) / length) + 1.
  const auto shift = static_cast<std::uint32_t>(std::bit_width(length - 1));
  const std::uint64_t above = (std::uint64_t{1} << shift) - length;
  return {length, static_cast<std::uint32_t>((above << 32) / length + 1), shift};
}

void seal(Layout& layout) noexcept {
  layout.size = 1;
  for (int dim = 0; dim < layout.ndim; ++dim) layout.size *= layout.lengths[dim];
  layout.narrow = layout.size <= INT32_MAX ? 1 : 0;
  for (int dim = 0; dim < layout.ndim && layout.narrow != 0; ++dim) {
    if (layout.lengths[dim] > 0)
      layout.dividers[dim] = divider_of(static_cast<std::uint32_t>(layout.lengths[dim]));
  }
}

}  // namespace forklift::inline abi_0_1::kernels::cuda
