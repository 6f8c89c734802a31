// Products of matrices.
//
//   Result<Tensor> c = multiply_matrices(a, b, {});        // (..., m, k) and (..., k, n) make (..., m, n)
//
// Errors, thread safety: as forklift/ops.h.
#pragma once

#include "forklift/ops.h"
#include "forklift/status.h"

namespace forklift::ops {

Result<Tensor> multiply_matrices(const Tensor& a, const Tensor& b, Out out);

}  // namespace forklift::ops
