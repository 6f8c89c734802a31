// Do tensors share memory?
//
// Thread safety: pure functions.
#pragma once

#include "forklift/tensor.h"

namespace forklift::inline abi_0_1::ops {

// Does a byte between the first and the last of the one lie between those of the other?
bool shares_memory(const Tensor& a, const Tensor& b) noexcept;

// Does writing the elements of one change elements of the other in an order that matters? Not so if they are the same
// elements in the same order.
bool overlaps(const Tensor& out, const Tensor& input) noexcept;

}  // namespace forklift::inline abi_0_1::ops
