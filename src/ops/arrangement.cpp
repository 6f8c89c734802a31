#include "ops/arrangement.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "ops/elementwise.h"
#include "ops/job.h"
#include "ops/placement.h"
#include "ops/promotion.h"
#include "ops/reduction.h"
#include "ops/walk.h"
#include "tensor/access.h"
#include "tensor/arena_storage.h"
#include "tensor/extent.h"
#include "tensor/operations.h"
#include "tensor/pending.h"

namespace forklift::inline abi_0_1::ops {
Result<std::size_t> axis_of(std::string_view name, const Tensor& x, std::int64_t axis, std::size_t ndim) {
  const auto length = static_cast<std::int64_t>(ndim);
  if (axis < -length || axis >= length) {
    return {Code::kInvalid, describe(name, {&x}) + ": axis " + std::to_string(axis) +
                                " is out of range for " + std::to_string(ndim) + " dimensions"};
  }
  return static_cast<std::size_t>(axis < 0 ? axis + length : axis);
}

Result<Tensor> view_of(const Tensor& x, Dims shape, Dims strides, bool readonly) {
  const std::int64_t count = *tensor::numel(shape);
  if (count == 0) strides = c_strides(shape);
  return detail::TensorAccess::make(std::shared_ptr<Storage>(x.storage()), x.byte_offset(), count,
                                    std::move(shape), std::move(strides), x.dtype(), readonly);
}

Result<Tensor> concatenate(std::span<const Tensor> parts, std::optional<std::int64_t> axis) {
  if (parts.empty()) return {Code::kInvalid, "concat: no tensors"};
  if (!axis) {
    std::vector<Tensor> flat;
    for (const Tensor& part : parts) {
      Result<Tensor> line = rearrange(part, Dims{-1});
      if (!line) return line;
      flat.push_back(*std::move(line));
    }
    return concatenate(flat, 0);
  }
  const Tensor& first = parts.front();
  Result<std::size_t> dim = axis_of("concat", first, *axis, first.ndim());
  if (!dim) return dim.status();
  Dims shape = first.shape();
  DType dtype = first.dtype();
  shape[*dim] = 0;
  for (const Tensor& part : parts) {
    Dims rest = part.shape();
    if (rest.size() == shape.size()) rest[*dim] = shape[*dim];
    if (!(rest == shape)) {
      return {Code::kInvalid, describe("concat", {&first, &part}) +
                                  ": shapes differ in other dimensions than " + std::to_string(*axis)};
    }
    shape[*dim] += part.shape()[*dim];
    dtype = promote(dtype, part.dtype());
  }
  Result<Place> where = place_of("concat", {&first});
  if (!where) return where.status();
  Result<Tensor> made = where->make(shape, dtype);
  if (!made) return made;
  std::int64_t done = 0;
  for (const Tensor& part : parts) {
    const std::int64_t length = part.shape()[*dim];
    Result<Tensor> target = tensor::narrow(*made, static_cast<std::int64_t>(*dim), done, length);
    if (!target) return target;
    if (Status status = assign(*target, part); !status) return status;
    done += length;
  }
  return made;
}

Result<Tensor> pile_up(std::span<const Tensor> parts, std::int64_t axis) {
  if (parts.empty()) return {Code::kInvalid, "stack: no tensors"};
  std::vector<Tensor> raised;
  for (const Tensor& part : parts) {
    if (!(part.shape() == parts.front().shape()))
      return {Code::kInvalid, describe("stack", {&parts.front(), &part}) + ": shapes differ"};
    Result<Tensor> each = add_dimension(part, axis);
    if (!each) return each;
    raised.push_back(*std::move(each));
  }
  return concatenate(raised, axis);
}

Result<Tensor> repeat_to(const Tensor& x, Dims shape) {
  if (const Result<std::int64_t> count = tensor::byte_count(shape, x.item_size()); !count)
    return count.status();
  if (!broadcasts_to(x.shape(), shape))
    return {Code::kInvalid, describe("broadcast_to", {&x}) + ": does not broadcast to " + shape.to_string()};
  Dims strides(shape.size(), 0);
  const std::size_t before = shape.size() - x.ndim();
  for (std::size_t i = 0; i < x.ndim(); ++i) strides[before + i] = x.shape()[i] == 1 ? 0 : x.strides()[i];
  return view_of(x, std::move(shape), std::move(strides), true);
}

Result<Tensor> rearrange(const Tensor& x, Dims shape) {
  if (x.is_contiguous()) return tensor::reshape(x, std::move(shape));
  Result<Tensor> dense = convert(x, x.dtype());
  return dense ? tensor::reshape(*dense, std::move(shape)) : dense;
}

Result<Tensor> add_dimension(const Tensor& x, std::int64_t axis) {
  if (x.ndim() == kMaxDims)
    return {Code::kInvalid, describe("expand_dims", {&x}) + ": it has as many as can be"};
  Result<std::size_t> dim = axis_of("expand_dims", x, axis, x.ndim() + 1);
  if (!dim) return dim.status();
  Dims shape;
  Dims strides;
  for (std::size_t i = 0; i <= x.ndim(); ++i) {
    if (i == *dim) {
      shape.push_back(1);
      strides.push_back(1);
    }
    if (i == x.ndim()) break;
    shape.push_back(x.shape()[i]);
    strides.push_back(x.strides()[i]);
  }
  return view_of(x, std::move(shape), std::move(strides), x.readonly());
}

Result<Tensor> drop_dimensions(const Tensor& x, const Dims& axes) {
  Result<std::vector<bool>> dropped = named_axes(axes, x.ndim());
  if (!dropped)
    return Status(Code::kInvalid, describe("squeeze", {&x}) + ": " + std::string(dropped.status().what()));
  Dims shape;
  Dims strides;
  for (std::size_t i = 0; i < x.ndim(); ++i) {
    if (!(*dropped)[i]) {
      shape.push_back(x.shape()[i]);
      strides.push_back(x.strides()[i]);
    } else if (x.shape()[i] != 1) {
      return {Code::kInvalid,
              describe("squeeze", {&x}) + ": dimension " + std::to_string(i) + " is not of length one"};
    }
  }
  return view_of(x, std::move(shape), std::move(strides), x.readonly());
}

Result<Tensor> reverse(const Tensor& x, const std::optional<Dims>& axes) {
  Result<std::vector<bool>> turned = named_axes(axes, x.ndim());
  if (!turned)
    return Status(Code::kInvalid, describe("flip", {&x}) + ": " + std::string(turned.status().what()));
  Result<Tensor> result = x;
  for (std::size_t i = 0; i < x.ndim() && result; ++i) {
    if ((*turned)[i])
      result = tensor::slice(*result, static_cast<std::int64_t>(i), std::nullopt, std::nullopt, -1);
  }
  return result;
}

Result<Tensor> filled(Dims shape, const Number& value, std::optional<DType> dtype) {
  Result<Place> where = place_of("full", {});
  if (!where) return where.status();
  Result<Tensor> made = where->make(std::move(shape), dtype ? *dtype : default_dtype(value));
  if (!made) return made;
  if (Status status = assign(*made, value); !status) return status;
  return made;
}

Result<Tensor> uninitialized(Dims shape, DType dtype) {
  Result<Place> where = place_of("empty", {});
  return where ? where->make(std::move(shape), dtype) : where.status();
}

Result<Tensor> uninitialized_like(const Tensor& x, std::optional<DType> dtype) {
  Result<Place> where = place_of("empty_like", {&x});
  return where ? where->make(x.shape(), dtype.value_or(x.dtype())) : where.status();
}

Result<Tensor> filled_like(const Tensor& x, const Number& value, std::optional<DType> dtype) {
  Result<Tensor> made = uninitialized_like(x, dtype);
  if (!made) return made;
  if (Status status = assign(*made, value); !status) return status;
  return made;
}

Result<Tensor> counting(const Number& start, const Number& stop, const Number& step,
                        std::optional<DType> dtype) {
  if (step.real() == 0) return {Code::kInvalid, "arange: a step of zero"};
  const Operand bounds[] = {start, stop, step};
  const DType type = dtype ? *dtype : result_type(bounds, 3);
  const double count = std::ceil((stop.real() - start.real()) / step.real());
  if (!(count < 9e15)) return {Code::kInvalid, "arange: too many elements"};
  const auto length = static_cast<std::int64_t>(std::max(count, 0.0));
  // Computed on the CPU in the dtype's widest relative, so that each element is rounded once.
  const auto is_whole = [](const Number& number) { return number.kind() <= Number::Kind::kInt; };
  const bool whole = kind_of(type) < Kind::kReal && is_whole(start) && is_whole(step);
  Result<Tensor> wide = tensor::in_arena({length}, whole ? DType::kInt64 : DType::kFloat64, false);
  if (!wide || length == 0) return wide ? convert(*wide, type) : wide;
  std::byte* const out = detail::StorageAccess::address(*wide->storage());
  for (std::int64_t i = 0; i < length && whole; ++i)
    reinterpret_cast<std::int64_t*>(out)[i] = start.whole() + i * step.whole();
  for (std::int64_t i = 0; i < length && !whole; ++i)
    reinterpret_cast<double*>(out)[i] = start.real() + static_cast<double>(i) * step.real();
  if (wide->dtype() != type) wide = convert(*wide, type);
  return wide ? move_to_target(*wide) : wide;
}

Result<Tensor> evenly_spaced(double start, double stop, std::int64_t count, DType dtype, bool endpoint) {
  if (count < 0) return {Code::kInvalid, "linspace: " + std::to_string(count) + " numbers"};
  Result<Tensor> wide = tensor::in_arena({count}, DType::kFloat64, false);
  if (!wide || count == 0) return wide ? convert(*wide, dtype) : wide;
  const auto parts = static_cast<double>(endpoint ? count - 1 : count);
  auto* const out = reinterpret_cast<double*>(detail::StorageAccess::address(*wide->storage()));
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = parts == 0 ? start : start + (stop - start) * (static_cast<double>(i) / parts);
  }
  if (endpoint && count > 1) out[count - 1] = stop;
  if (dtype != DType::kFloat64) wide = convert(*wide, dtype);
  return wide ? move_to_target(*wide) : wide;
}

}  // namespace forklift::inline abi_0_1::ops
