// Reductions: sums, products, extremes, means, truth of all or any.
//
//   Result<Tensor> total = reduce(kernels::ReduceOp::kSum, x, {}, {});            // of all elements
//   Result<Tensor> rows = mean(x, {.axes = Dims{1}, .keepdims = true}, {});
//
// Sums and products of floats are accumulated in float64; their order depends on the shape and the number of threads,
// so the last bits may differ between machines, but not between two runs on one.
//
// Errors, thread safety: as forklift/ops.h.
#pragma once

#include <vector>

#include "forklift/ops.h"
#include "forklift/status.h"
#include "kernels/opcodes.h"

namespace forklift::inline abi_0_1::ops {

Result<Tensor> reduce(kernels::ReduceOp op, const Tensor& x, const Reduction& how, Out out);
Result<Tensor> average(const Tensor& x, const Reduction& how, Out out);
// `correction` is taken from the number of elements: 1 for a sample's.
Result<Tensor> variance(const Tensor& x, double correction, bool root, const Reduction& how, Out out);
// The index of the first largest or smallest element: of the flattened tensor without an axis. int64.
Result<Tensor> index_of_extreme(const Tensor& x, bool largest, std::optional<std::int64_t> axis,
                                bool keepdims);

// Which dimensions `axes` names, in order. kInvalid: one is out of range or named twice.
Result<std::vector<bool>> named_axes(const std::optional<Dims>& axes, std::size_t ndim);

}  // namespace forklift::inline abi_0_1::ops
