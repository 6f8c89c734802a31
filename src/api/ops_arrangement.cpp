// The functions of forklift/ops.h that make tensors of other shapes, and new ones. What they do is in the ops room.
#include "api/attached.h"
#include "forklift/ops.h"
#include "ops/arrangement.h"

namespace forklift::inline abi_0_1::ops {

Tensor concat(std::span<const Tensor> parts, std::optional<std::int64_t> axis) {
  return value_or_throw(concatenate(parts, axis));
}
Tensor stack(std::span<const Tensor> parts, std::int64_t axis) {
  return value_or_throw(pile_up(parts, axis));
}
Tensor broadcast_to(const Tensor& x, Dims shape) { return value_or_throw(repeat_to(x, std::move(shape))); }
Tensor reshape(const Tensor& x, Dims shape) { return value_or_throw(rearrange(x, std::move(shape))); }
Tensor expand_dims(const Tensor& x, std::int64_t axis) { return value_or_throw(add_dimension(x, axis)); }
Tensor squeeze(const Tensor& x, const Dims& axes) { return value_or_throw(drop_dimensions(x, axes)); }
Tensor flip(const Tensor& x, const std::optional<Dims>& axes) { return value_or_throw(reverse(x, axes)); }
Tensor full(Dims shape, const Number& value, std::optional<DType> dtype) {
  return value_or_throw(filled(std::move(shape), value, dtype));
}
Tensor zeros(Dims shape, DType dtype) { return value_or_throw(filled(std::move(shape), Number(0), dtype)); }
Tensor ones(Dims shape, DType dtype) { return value_or_throw(filled(std::move(shape), Number(1), dtype)); }
Tensor empty(Dims shape, DType dtype) { return value_or_throw(uninitialized(std::move(shape), dtype)); }
Tensor full_like(const Tensor& x, const Number& value, std::optional<DType> dtype) {
  return value_or_throw(filled_like(x, value, dtype));
}
Tensor zeros_like(const Tensor& x, std::optional<DType> dtype) {
  return value_or_throw(filled_like(x, Number(0), dtype));
}
Tensor ones_like(const Tensor& x, std::optional<DType> dtype) {
  return value_or_throw(filled_like(x, Number(1), dtype));
}
Tensor empty_like(const Tensor& x, std::optional<DType> dtype) {
  return value_or_throw(uninitialized_like(x, dtype));
}
Tensor arange(const Number& start, const Number& stop, const Number& step, std::optional<DType> dtype) {
  return value_or_throw(counting(start, stop, step, dtype));
}
Tensor linspace(double start, double stop, std::int64_t count, DType dtype, bool endpoint) {
  return value_or_throw(evenly_spaced(start, stop, count, dtype, endpoint));
}

}  // namespace forklift::inline abi_0_1::ops
