// The functions of forklift/indexing.h. What they do is in the ops room.
#include "forklift/indexing.h"

#include "api/attached.h"
#include "ops/arrangement.h"
#include "ops/indexing.h"
#include "ops/rearrangement.h"

namespace forklift::inline abi_0_1::ops {

Tensor at(const Tensor& x, std::span<const Index> index) {
  return value_or_throw(gather(x, value_or_throw(select_items(x, index))));
}
void set(const Tensor& x, std::span<const Index> index, const Operand& value) {
  throw_if_failed(scatter(x, value_or_throw(select_items(x, index)), value));
}
Tensor take(const Tensor& x, const Tensor& indices, std::optional<std::int64_t> axis) {
  if (axis) return value_or_throw(taken(x, indices, *axis));
  return value_or_throw(taken(value_or_throw(rearrange(x, Dims{x.numel()})), indices, 0));
}
Tensor take_along_axis(const Tensor& x, const Tensor& indices, std::int64_t axis) {
  throw_if_failed(check_along(x, indices, axis));
  return value_or_throw(take_along(x, indices, axis));
}
Tensor repeat(const Tensor& x, std::int64_t count, std::optional<std::int64_t> axis) {
  return value_or_throw(repeated(x, count, axis));
}
Tensor repeat(const Tensor& x, const Tensor& counts, std::optional<std::int64_t> axis) {
  return value_or_throw(repeated(x, counts, axis));
}
Tensor roll(const Tensor& x, const Dims& shifts, const std::optional<Dims>& axes) {
  return value_or_throw(rolled(x, shifts, axes));
}
Tensor tile(const Tensor& x, const Dims& repetitions) { return value_or_throw(tiled(x, repetitions)); }
Tensor moveaxis(const Tensor& x, const Dims& from, const Dims& to) {
  return value_or_throw(with_axes_moved(x, from, to));
}
Tensor matrix_transpose(const Tensor& x) { return value_or_throw(with_matrices_turned(x)); }
std::vector<Tensor> unstack(const Tensor& x, std::int64_t axis) { return value_or_throw(apart(x, axis)); }
std::vector<Tensor> broadcast_arrays(std::span<const Tensor> tensors) {
  return value_or_throw(of_one_shape(tensors));
}
std::vector<Tensor> meshgrid(std::span<const Tensor> tensors, bool xy) {
  return value_or_throw(grid(tensors, xy));
}
Tensor tril(const Tensor& x, std::int64_t k) { return value_or_throw(triangle(x, k, true)); }
Tensor triu(const Tensor& x, std::int64_t k) { return value_or_throw(triangle(x, k, false)); }
Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns, std::int64_t k, DType dtype) {
  return value_or_throw(with_diagonal_of_ones(rows, columns.value_or(rows), k, dtype));
}

}  // namespace forklift::inline abi_0_1::ops
