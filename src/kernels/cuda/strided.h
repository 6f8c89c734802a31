// Fills the parts of a Layout that follow from its lengths.
//
//   Layout layout{};
//   layout.ndim = 2; layout.lengths[0] = 3; ...; layout.steps[0][0] = 16; ...
//   seal(layout);                                              // size, narrow, dividers
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "kernels/cuda/parameters.h"

namespace forklift::inline abi_0_1::kernels::cuda {

// Of a length from 1 to 2^31 - 1; right for numbers below 2^31.
Divider divider_of(std::uint32_t length) noexcept;

// Precondition: ndim, lengths and steps are set, and the product of the lengths fits.
void seal(Layout& layout) noexcept;

}  // namespace forklift::inline abi_0_1::kernels::cuda
