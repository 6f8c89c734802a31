#include "ops/rearrangement.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ops/arrangement.h"
#include "ops/element_type.h"
#include "ops/elementwise.h"
#include "ops/indexing.h"
#include "ops/placement.h"
#include "ops/promotion.h"
#include "ops/range_job.h"
#include "ops/walk.h"
#include "tensor/operations.h"

namespace forklift::inline abi_0_1::ops {
namespace {

Status no_such(std::string_view name, const Tensor& x, std::string_view why) {
  return {Code::kInvalid, describe(name, {&x}) + ": " + std::string(why)};
}

// A part of the elements along a dimension.
Result<Tensor> part_of(const Tensor& x, std::size_t dim, std::int64_t start, std::int64_t length) {
  return tensor::narrow(x, static_cast<std::int64_t>(dim), start, length);
}

// Copies `x` to `out`, turned by `shift` along a dimension.
Status copy_turned(const Tensor& x, const Tensor& out, std::size_t dim, std::int64_t shift) {
  const std::int64_t length = x.shape()[dim];
  if (length == 0) return {};
  const std::int64_t by = (shift % length + length) % length;
  const struct {
    std::int64_t from;
    std::int64_t to;
    std::int64_t count;
  } parts[] = {{0, by, length - by}, {length - by, 0, by}};
  for (const auto& part : parts) {
    Result<Tensor> source = part_of(x, dim, part.from, part.count);
    Result<Tensor> target = part_of(out, dim, part.to, part.count);
    if (!source || !target) return source ? target.status() : source.status();
    if (Status status = assign(*target, *source); !status) return status;
  }
  return {};
}

// int64 indices that name each number up to counts.size() as often as counts say.
Result<Tensor> repeating_indices(std::span<const std::int64_t> counts, const Tensor& beside) {
  std::int64_t total = 0;
  for (const std::int64_t count : counts) total += count;
  Result<Place> where = place_of("repeat", {&beside});
  if (!where) return where.status();
  Result<Tensor> indices = where->make({total}, DType::kInt64);
  if (!indices) return indices;
  auto* to = reinterpret_cast<std::int64_t*>(address_of(*indices));
  for (std::size_t i = 0; i < counts.size(); ++i)
    to = std::fill_n(to, counts[i], static_cast<std::int64_t>(i));
  return indices;
}

}  // namespace

Result<Tensor> repeated(const Tensor& x, std::int64_t count, std::optional<std::int64_t> axis) {
  if (Status status = refuse_on_gpu("repeat", {&x}); !status) return status;
  Tensor one = Tensor::wrap(Storage::heap(sizeof count), DType::kInt64, Dims{});
  store(address_of(one), count);
  return repeated(x, one, axis);
}

Result<Tensor> repeated(const Tensor& x, const Tensor& counts, std::optional<std::int64_t> axis) {
  if (Status status = refuse_on_gpu("repeat", {&x, &counts}); !status) return status;
  Result<Tensor> source = axis ? Result<Tensor>(x) : rearrange(x, Dims{x.numel()});
  if (!source) return source;
  Result<std::size_t> dim = axis_of("repeat", *source, axis.value_or(0), source->ndim());
  if (!dim) return dim.status();
  if (!is_integer(counts.dtype())) return no_such("repeat", x, "the numbers of repetitions are no integers");
  const std::int64_t length = source->shape()[*dim];
  if (!broadcasts_to(counts.shape(), Dims{length})) {
    return no_such("repeat", x,
                   "repeats=" + counts.to_string() + " does not fit " + std::to_string(length) + " elements");
  }
  Result<Tensor> dense = convert(counts, DType::kInt64);
  if (!dense) return dense;
  if (Status status = await_elements(*dense); !status) return status;
  const auto* const numbers = reinterpret_cast<const std::int64_t*>(address_of(*dense));
  std::vector<std::int64_t> each(static_cast<std::size_t>(length));
  for (std::size_t i = 0; i < each.size(); ++i) {
    each[i] = numbers[dense->numel() == 1 ? 0 : i];
    if (each[i] < 0)
      return no_such("repeat", x, std::to_string(each[i]) + " repetitions of element " + std::to_string(i));
  }
  Result<Tensor> indices = repeating_indices(each, *source);
  return indices ? taken(*source, *indices, static_cast<std::int64_t>(*dim)) : indices;
}

Result<Tensor> rolled(const Tensor& x, const Dims& shifts, const std::optional<Dims>& axes) {
  if (!axes) {
    if (shifts.size() != 1) return no_such("roll", x, "several shifts need as many axes");
    Result<Tensor> flat = rearrange(x, Dims{x.numel()});
    if (flat) flat = rolled(*flat, shifts, Dims{0});
    return flat ? tensor::reshape(*flat, x.shape()) : flat;
  }
  if (shifts.size() != axes->size() && shifts.size() != 1 && axes->size() != 1)
    return no_such("roll", x, "as many shifts as axes are needed, or one");
  Dims by(x.ndim(), 0);
  for (std::size_t i = 0; i < std::max(axes->size(), shifts.size()); ++i) {
    Result<std::size_t> dim = axis_of("roll", x, (*axes)[axes->size() == 1 ? 0 : i], x.ndim());
    if (!dim) return dim.status();
    by[*dim] += shifts[shifts.size() == 1 ? 0 : i];
  }
  Result<Tensor> result = x;
  bool copied = false;
  for (std::size_t dim = 0; dim < x.ndim() && x.numel() != 0; ++dim) {
    if (by[dim] % x.shape()[dim] == 0) continue;
    Result<Place> where = place_of("roll", {&x});
    if (!where) return where.status();
    Result<Tensor> next = where->make(x.shape(), x.dtype());
    if (!next) return next;
    if (Status status = copy_turned(*result, *next, dim, by[dim]); !status) return status;
    result = std::move(next);
    copied = true;
  }
  return copied ? result : convert(x, x.dtype());
}

Result<Tensor> tiled(const Tensor& x, const Dims& repetitions) {
  const std::size_t ndim = std::max(x.ndim(), repetitions.size());
  // Each dimension becomes two: which copy, and which element.
  Dims alone;
  Dims wide;
  Dims shape;
  for (std::size_t i = 0; i < ndim; ++i) {
    const std::int64_t length = i < ndim - x.ndim() ? 1 : x.shape()[i - (ndim - x.ndim())];
    const std::int64_t times =
        i < ndim - repetitions.size() ? 1 : repetitions[i - (ndim - repetitions.size())];
    if (times < 0) return no_such("tile", x, std::to_string(times) + " repetitions");
    for (const std::int64_t each : {std::int64_t{1}, length}) alone.push_back(each);
    for (const std::int64_t each : {times, length}) wide.push_back(each);
    shape.push_back(times * length);
  }
  if (wide.size() > kMaxDims) return no_such("tile", x, "too many dimensions");
  Result<Tensor> result = rearrange(x, std::move(alone));
  if (result) result = repeat_to(*result, std::move(wide));
  if (result) result = convert(*result, x.dtype());
  return result ? tensor::reshape(*result, std::move(shape)) : result;
}

Result<Tensor> with_axes_moved(const Tensor& x, const Dims& from, const Dims& to) {
  if (from.size() != to.size())
    return no_such("moveaxis", x, "source and destination have different numbers of axes");
  constexpr std::int64_t kFree = -1;
  Dims order(x.ndim(), kFree);
  std::vector<bool> moved(x.ndim(), false);
  for (std::size_t i = 0; i < from.size(); ++i) {
    Result<std::size_t> source = axis_of("moveaxis", x, from[i], x.ndim());
    if (!source) return source.status();
    Result<std::size_t> target = axis_of("moveaxis", x, to[i], x.ndim());
    if (!target) return target.status();
    if (moved[*source] || order[*target] != kFree) return no_such("moveaxis", x, "an axis is named twice");
    moved[*source] = true;
    order[*target] = static_cast<std::int64_t>(*source);
  }
  std::size_t next = 0;
  for (std::int64_t& place : order) {
    if (place != kFree) continue;
    while (moved[next]) ++next;
    place = static_cast<std::int64_t>(next++);
  }
  return tensor::permute(x, order);
}

Result<Tensor> with_matrices_turned(const Tensor& x) {
  if (x.ndim() < 2) return no_such("matrix_transpose", x, "two dimensions are needed");
  return tensor::transpose(x, -2, -1);
}

Result<std::vector<Tensor>> apart(const Tensor& x, std::int64_t axis) {
  Result<std::size_t> dim = axis_of("unstack", x, axis, x.ndim());
  if (!dim) return dim.status();
  std::vector<Tensor> parts;
  for (std::int64_t i = 0; i < x.shape()[*dim]; ++i) {
    Result<Tensor> part = tensor::select(x, static_cast<std::int64_t>(*dim), i);
    if (!part) return part.status();
    parts.push_back(*std::move(part));
  }
  return parts;
}

Result<std::vector<Tensor>> of_one_shape(std::span<const Tensor> tensors) {
  std::vector<const Dims*> shapes;
  for (const Tensor& tensor : tensors) shapes.push_back(&tensor.shape());
  Result<Dims> shape = broadcast_shapes(std::span<const Dims* const>(shapes));
  if (!shape) return Status(Code::kInvalid, "broadcast_arrays: " + std::string(shape.status().what()));
  std::vector<Tensor> views;
  for (const Tensor& tensor : tensors) {
    Result<Tensor> view = repeat_to(tensor, *shape);
    if (!view) return view.status();
    views.push_back(*std::move(view));
  }
  return views;
}

Result<std::vector<Tensor>> grid(std::span<const Tensor> tensors, bool xy) {
  const std::size_t ndim = tensors.size();
  const auto place = [&](std::size_t i) { return xy && ndim > 1 && i < 2 ? 1 - i : i; };
  Dims shape(ndim, 1);
  for (std::size_t i = 0; i < ndim; ++i) {
    if (tensors[i].ndim() > 1) return no_such("meshgrid", tensors[i], "one dimension is needed");
    if (tensors[i].dtype() != tensors[0].dtype()) return no_such("meshgrid", tensors[i], "dtypes differ");
    shape[place(i)] = tensors[i].numel();
  }
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < ndim; ++i) {
    Dims own(ndim, 1);
    own[place(i)] = tensors[i].numel();
    Result<Tensor> each = rearrange(tensors[i], std::move(own));
    if (each) each = repeat_to(*each, shape);
    if (each) each = convert(*each, each->dtype());
    if (!each) return each.status();
    results.push_back(*std::move(each));
  }
  return results;
}

Result<Tensor> triangle(const Tensor& x, std::int64_t k, bool lower) {
  const std::string_view name = lower ? "tril" : "triu";
  if (Status status = refuse_on_gpu(name, {&x}); !status) return status;
  if (x.ndim() < 2) return no_such(name, x, "two dimensions are needed");
  Result<Place> where = place_of(name, {&x});
  if (!where) return where.status();
  Result<Tensor> made = where->make(x.shape(), x.dtype());
  if (!made || made->numel() == 0) return made;
  const std::int64_t rows = x.shape()[x.ndim() - 2];
  const std::int64_t columns = x.shape()[x.ndim() - 1];
  Dims shape = x.shape();
  Dims strides = x.strides();
  shape.erase(x.ndim() - 1);
  strides.erase(x.ndim() - 1);
  Walk walk;  // of the rows
  walk.begin(shape);
  walk.add(shape, strides, x.item_size());
  walk.finish();
  const auto item = static_cast<std::int64_t>(x.item_size());
  const std::int64_t step = x.strides()[x.ndim() - 1] * item;
  Status status = compute_range(
      name, {&x}, *made, walk.size(), static_cast<double>(x.numel()) * 0.7,
      [=, from = address_of(x), to = address_of(*made)](std::int64_t first, std::int64_t last) {
        std::int64_t number = first;
        walk.for_each(first, last, [&](const std::int64_t* offsets, std::int64_t count) {
          for (std::int64_t i = 0; i < count; ++i, ++number) {
            const std::byte* const row = from + offsets[0] + i * walk.inner_step(0);
            std::byte* const out = to + number * columns * item;
            const std::int64_t at = number % rows;
            // The elements [begin, end) are kept.
            const std::int64_t begin = lower               ? 0
                                       : k >= columns - at ? columns
                                                           : std::max<std::int64_t>(0, at + k);
            const std::int64_t end = !lower              ? columns
                                     : k >= columns - at ? columns
                                                         : std::max<std::int64_t>(0, at + k + 1);
            std::memset(out, 0, static_cast<std::size_t>(columns * item));
            for (std::int64_t column = begin; column < end; ++column)
              copy_item(out + column * item, row + column * step, static_cast<std::size_t>(item));
          }
        });
      });
  if (!status) return status;
  return made;
}

Result<Tensor> with_diagonal_of_ones(std::int64_t rows, std::int64_t columns, std::int64_t k, DType dtype) {
  Result<Tensor> made = filled(Dims{rows, columns}, Number(false), dtype);
  if (!made) return made;
  k = std::clamp(k, -rows, columns);
  const std::int64_t row = k < 0 ? -k : 0;
  const std::int64_t column = k > 0 ? k : 0;
  if (row >= rows || column >= columns) return made;
  const std::int64_t count = std::min(rows - row, columns - column);
  Result<Tensor> corner = part_of(*made, 0, row, rows - row);
  if (corner) corner = part_of(*corner, 1, column, columns - column);
  if (!corner) return corner;
  Result<Tensor> diagonal = view_of(*corner, Dims{count}, Dims{columns + 1}, false);
  if (!diagonal) return diagonal;
  if (Status status = assign(*diagonal, Number(1)); !status) return status;
  return made;
}

}  // namespace forklift::inline abi_0_1::ops
