// Tensors of other shapes and of several parts: views where that is possible, else copies.
//
//   Result<Tensor> wide = concatenate(parts, 1);
//   Result<Tensor> rows = broadcast_to(row, {1000, 3});           // a view that repeats its elements, read-only
//
// Errors, thread safety: as forklift/ops.h.
#pragma once

#include <optional>
#include <span>

#include "forklift/ops.h"
#include "forklift/status.h"

namespace forklift::ops {

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
// start, start + step, ... before stop. kInvalid: a step of zero.
Result<Tensor> counting(const Number& start, const Number& stop, const Number& step,
                        std::optional<DType> dtype);
// `count` numbers from start to stop, which is the last one if `endpoint`.
Result<Tensor> evenly_spaced(double start, double stop, std::int64_t count, DType dtype, bool endpoint);

}  // namespace forklift::ops
