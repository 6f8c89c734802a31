// The reductions and products of matrices of forklift/ops.h. What they do is in the ops room.
#include "api/attached.h"
#include "forklift/ops.h"
#include "ops/linear_algebra.h"
#include "ops/reduction.h"

namespace forklift::inline abi_0_1::ops {

using kernels::ReduceOp;

Tensor sum(const Tensor& x, const Reduction& how, Out out) {
  return value_or_throw(reduce(ReduceOp::kSum, x, how, out));
}
Tensor prod(const Tensor& x, const Reduction& how, Out out) {
  return value_or_throw(reduce(ReduceOp::kProd, x, how, out));
}
Tensor max(const Tensor& x, const Reduction& how, Out out) {
  return value_or_throw(reduce(ReduceOp::kMax, x, how, out));
}
Tensor min(const Tensor& x, const Reduction& how, Out out) {
  return value_or_throw(reduce(ReduceOp::kMin, x, how, out));
}
Tensor all(const Tensor& x, const Reduction& how, Out out) {
  return value_or_throw(reduce(ReduceOp::kAll, x, how, out));
}
Tensor any(const Tensor& x, const Reduction& how, Out out) {
  return value_or_throw(reduce(ReduceOp::kAny, x, how, out));
}
Tensor mean(const Tensor& x, const Reduction& how, Out out) { return value_or_throw(average(x, how, out)); }
Tensor var(const Tensor& x, double correction, const Reduction& how, Out out) {
  return value_or_throw(variance(x, correction, false, how, out));
}
Tensor std(const Tensor& x, double correction, const Reduction& how, Out out) {
  return value_or_throw(variance(x, correction, true, how, out));
}
Tensor matmul(const Tensor& a, const Tensor& b, Out out) {
  return value_or_throw(multiply_matrices(a, b, out));
}
Tensor vecdot(const Tensor& a, const Tensor& b, std::int64_t axis) {
  return value_or_throw(dot_along(a, b, axis));
}
Tensor tensordot(const Tensor& a, const Tensor& b, const Dims& a_axes, const Dims& b_axes) {
  return value_or_throw(contract(a, b, a_axes, b_axes));
}
Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t count) {
  Dims last;
  Dims first;
  for (std::int64_t i = 0; i < count; ++i) {
    last.push_back(i - count);
    first.push_back(i);
  }
  return tensordot(a, b, last, first);
}
Tensor argmax(const Tensor& x, std::optional<std::int64_t> axis, bool keepdims) {
  return value_or_throw(index_of_extreme(x, true, axis, keepdims));
}
Tensor argmin(const Tensor& x, std::optional<std::int64_t> axis, bool keepdims) {
  return value_or_throw(index_of_extreme(x, false, axis, keepdims));
}

}  // namespace forklift::inline abi_0_1::ops
