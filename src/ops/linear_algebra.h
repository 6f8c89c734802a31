// Products of matrices and sums of products.
//
//   Result<Tensor> c = multiply_matrices(a, b, {});        // (..., m, k) and (..., k, n) make (..., m, n)
//
// Errors, thread safety: as forklift/ops.h.
#pragma once

#include "forklift/ops.h"
#include "forklift/status.h"

namespace forklift::inline abi_0_1::ops {

Result<Tensor> multiply_matrices(const Tensor& a, const Tensor& b, Out out);

// The sums of conj(a) * b along one dimension of each.
Result<Tensor> dot_along(const Tensor& a, const Tensor& b, std::int64_t axis);
// The sums of a * b along several dimensions, which are paired; the others of `a` come first.
Result<Tensor> contract(const Tensor& a, const Tensor& b, const Dims& a_axes, const Dims& b_axes);

}  // namespace forklift::inline abi_0_1::ops
