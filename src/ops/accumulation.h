// Sums and products of the elements so far, differences of neighbours.
//
//   Result<Tensor> totals = accumulate(kernels::ReduceOp::kSum, x, {.axis = 0});
//
// Errors, thread safety: as forklift/ops.h.
#pragma once

#include <optional>

#include "forklift/sorting.h"
#include "forklift/status.h"
#include "kernels/opcodes.h"

namespace forklift::inline abi_0_1::ops {

// kSum or kProd.
Result<Tensor> accumulate(kernels::ReduceOp op, const Tensor& x, const Accumulation& how);
Result<Tensor> differences(const Tensor& x, std::int64_t axis, std::int64_t n,
                           const std::optional<Tensor>& prepend, const std::optional<Tensor>& append);
// How many elements are not zero.
Result<Tensor> count_of_nonzero(const Tensor& x, const std::optional<Dims>& axes, bool keepdims);

}  // namespace forklift::inline abi_0_1::ops
