// Tensors of other shapes and of several parts: views where that is possible, else copies.
//
//   Result<Tensor> wide = concatenate(parts, 1);
//   Result<Tensor> rows = broadcast_to(row, {1000, 3});           // a view that repeats its elements, read-only
//
// Errors, thread safety: as forklift/ops.h.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "forklift/ops.h"
#include "forklift/status.h"

namespace forklift::inline abi_0_1::ops {

// A dimension of `ndim`, negative from the end. kInvalid, with the name of the operation and the tensor.
Result<std::size_t> axis_of(std::string_view name, const Tensor& x, std::int64_t axis, std::size_t ndim);
// The same elements with other lengths and strides, which the caller knows to be within the tensor.
Result<Tensor> view_of(const Tensor& x, Dims shape, Dims strides, bool readonly);

// Of tensors whose shapes differ in that dimension at most. Without an axis they are flattened before.
Result<Tensor> concatenate(std::span<const Tensor> parts, std::optional<std::int64_t> axis);
// Of tensors of one shape, along a new dimension.
Result<Tensor> pile_up(std::span<const Tensor> parts, std::int64_t axis);

// A view that repeats elements; read-only, since writing one element would write many.
Result<Tensor> repeat_to(const Tensor& x, Dims shape);
// A view if the elements lie so that one is possible, else a copy.
Result<Tensor> rearrange(const Tensor& x, Dims shape);
// Views with one more dimension of length one, and without such dimensions.
Result<Tensor> add_dimension(const Tensor& x, std::int64_t axis);
Result<Tensor> drop_dimensions(const Tensor& x, const Dims& axes);
// A view whose elements are in reverse order along these dimensions (all, without axes).
Result<Tensor> reverse(const Tensor& x, const std::optional<Dims>& axes);

// New tensors where new tensors are made (forklift/device.h).
Result<Tensor> filled(Dims shape, const Number& value, std::optional<DType> dtype);
Result<Tensor> uninitialized(Dims shape, DType dtype);
// Where `x` is.
Result<Tensor> filled_like(const Tensor& x, const Number& value, std::optional<DType> dtype);
Result<Tensor> uninitialized_like(const Tensor& x, std::optional<DType> dtype);
// start, start + step, ... before stop. kInvalid: a step of zero.
Result<Tensor> counting(const Number& start, const Number& stop, const Number& step,
                        std::optional<DType> dtype);
// `count` numbers from start to stop, which is the last one if `endpoint`.
Result<Tensor> evenly_spaced(double start, double stop, std::int64_t count, DType dtype, bool endpoint);

}  // namespace forklift::inline abi_0_1::ops
