#include "ops/indexing.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/loops.h"
#include "ops/arrangement.h"
#include "ops/element_type.h"
#include "ops/elementwise.h"
#include "ops/overlap.h"
#include "ops/placement.h"
#include "ops/promotion.h"
#include "ops/range_job.h"
#include "ops/walk.h"
#include "tensor/operations.h"

namespace forklift::inline abi_0_1::ops {
namespace {

// Two arrays of one shape and dtype.
struct Pair {
  Walk walk;
  kernels::UnaryLoop copy_run = nullptr;
  std::size_t item = 0;

  Pair(const Dims& shape, const Dims& from, const Dims& to, DType dtype)
      : copy_run(kernels::loops().cast(dtype, dtype)), item(item_size(dtype)) {
    walk.begin(shape);
    walk.add(shape, from, item);
    walk.add(shape, to, item);
    walk.finish();
  }

  void copy(const std::byte* from, std::byte* to) const {
    if (walk.size() == 1) {
      copy_item(to, from, item);
      return;
    }
    walk.for_each(0, walk.size(), [&](const std::int64_t* offsets, std::int64_t count) {
      copy_run(from + offsets[0], walk.inner_step(0), to + offsets[1], walk.inner_step(1), count);
    });
  }
};

// The dimensions of a selection's shape that are the view's, and those that are the places'.
struct Split {
  Dims view;
  Dims places;

  Split(const Dims& all, const Selection& chosen) {
    const std::size_t end = chosen.position + chosen.places_shape.size();
    for (std::size_t i = 0; i < all.size(); ++i)
      (i >= chosen.position && i < end ? places : view).push_back(all[i]);
  }
};

// How large it is decides how long a copy takes.
double copying_ns(std::int64_t elements, std::int64_t places) {
  return static_cast<double>(elements) * 0.5 + static_cast<double>(places) * 3;
}

// `value` as a tensor of x's dtype, on x's device.
Result<Tensor> value_for(const Tensor& x, const Operand& value) {
  const auto refused = [&](std::string_view from) {
    return Status(Code::kInvalid, x.to_string() + " cannot hold " + std::string(from));
  };
  if (value.tensor() == nullptr) {
    if (x.dtype() != DType::kBool && !may_convert(dtype_with(value.number(), x.dtype()), x.dtype()))
      return refused("this number");
    Result<Place> where = place_of("set", {&x});
    if (!where) return where.status();
    Result<Tensor> made = where->make(Dims{}, x.dtype());
    if (!made) return made;
    if (Status status = assign(*made, value); !status) return status;
    return made;
  }
  const Tensor& tensor = *value.tensor();
  if (!may_convert(tensor.dtype(), x.dtype())) return refused("elements of " + tensor.to_string());
  if (tensor.dtype() == x.dtype() && !overlaps(x, tensor) && x.storage() != tensor.storage()) return tensor;
  return convert(tensor, x.dtype());
}

// As NumPy: leading dimensions of length one do not matter.
Result<Tensor> broadcast_value(const Tensor& value, const Dims& shape) {
  Tensor fitting = value;
  while (fitting.ndim() > shape.size() && fitting.shape()[0] == 1) {
    Result<Tensor> smaller = tensor::select(fitting, 0, 0);
    if (!smaller) return smaller;
    fitting = *std::move(smaller);
  }
  if (!broadcasts_to(fitting.shape(), shape)) {
    return {Code::kInvalid, "set: " + value.to_string() + " does not broadcast to the shape " +
                                shape.to_string() + " of the elements to set"};
  }
  return repeat_to(fitting, shape);
}

}  // namespace

Result<Tensor> gather(const Tensor& x, const Selection& chosen) {
  if (chosen.is_view()) return chosen.view;
  if (Status status = refuse_on_gpu("index", {&x}); !status) return status;
  Result<Place> where = place_of("index", {&x});
  if (!where) return where.status();
  Result<Tensor> made = where->make(chosen.shape(), x.dtype());
  if (!made || made->numel() == 0) return made;
  const Split strides(made->strides(), chosen);
  const Pair pair(chosen.view.shape(), chosen.view.strides(), strides.view, x.dtype());
  const auto count = static_cast<std::int64_t>(chosen.places->size());
  // The places' dimensions lie one behind the other in the result.
  const std::int64_t step = (strides.places.empty() ? 0 : strides.places[strides.places.size() - 1]) *
                            static_cast<std::int64_t>(x.item_size());
  Status status = compute_range("index", {&x}, *made, count, copying_ns(made->numel(), count),
                                [pair, step, places = chosen.places, from = address_of(chosen.view),
                                 to = address_of(*made)](std::int64_t first, std::int64_t last) {
                                  for (std::int64_t i = first; i < last; ++i)
                                    pair.copy(from + (*places)[static_cast<std::size_t>(i)], to + i * step);
                                });
  if (!status) return status;
  return made;
}

Status scatter(const Tensor& x, const Selection& chosen, const Operand& value) {
  if (x.readonly()) return {Code::kInvalid, "set: " + x.to_string() + " is read-only"};
  if (!chosen.is_view()) {
    if (Status status = refuse_on_gpu("set", {&x, value.tensor()}); !status) return status;
  }
  Result<Tensor> source = value_for(x, value);
  if (source) source = broadcast_value(*source, chosen.shape());
  if (!source) return source.status();
  if (chosen.is_view()) return assign(chosen.view, *source);
  if (Result<Place> where = place_of("set", {&x, &*source}); !where) return where.status();
  if (source->numel() == 0) return {};
  const Split strides(source->strides(), chosen);
  const Pair pair(chosen.view.shape(), strides.view, chosen.view.strides(), x.dtype());
  Walk walk;
  walk.begin(chosen.places_shape);
  walk.add(chosen.places_shape, strides.places, x.item_size());
  walk.finish();
  // In one piece, since an element that is named twice keeps the last value.
  return compute_range("set", {&*source}, x, 1,
                       copying_ns(source->numel(), static_cast<std::int64_t>(chosen.places->size())),
                       [pair, walk, places = chosen.places, from = address_of(*source),
                        to = address_of(chosen.view)](std::int64_t, std::int64_t) {
                         const std::int64_t* place = places->data();
                         walk.for_each(0, walk.size(), [&](const std::int64_t* offsets, std::int64_t count) {
                           for (std::int64_t i = 0; i < count; ++i)
                             pair.copy(from + offsets[0] + i * walk.inner_step(0), to + *place++);
                         });
                       });
}

namespace {

// What take_along() goes through: the lines' first elements, the indices, and the results.
struct Along {
  std::size_t axis = 0;
  Dims shape;
  Tensor lines;
  Tensor indices;
};

Result<Along> lines_along(const Tensor& x, const Tensor& indices, std::int64_t axis) {
  if (Status status = refuse_on_gpu("take_along_axis", {&x, &indices}); !status) return status;
  const auto refused = [&](const std::string& why) {
    return Status(Code::kInvalid, describe("take_along_axis", {&x, &indices}) + ": " + why);
  };
  if (!is_integer(indices.dtype())) return refused("the indices are no integers");
  if (x.ndim() != indices.ndim() || x.ndim() == 0) return refused("the numbers of dimensions differ");
  Result<std::size_t> dim = axis_of("take_along_axis", x, axis, x.ndim());
  if (!dim) return dim.status();
  Dims line = x.shape();
  line[*dim] = 1;
  Result<Dims> shape = broadcast_shapes({&line, &indices.shape()});
  if (!shape) return refused(std::string(shape.status().what()));
  Dims strides = x.strides();
  strides[*dim] = 0;
  Result<Tensor> lines = view_of(x, std::move(line), std::move(strides), true);
  Result<Tensor> numbers =
      indices.dtype() == DType::kInt64 ? Result<Tensor>(indices) : convert(indices, DType::kInt64);
  if (!lines || !numbers) return lines ? numbers.status() : lines.status();
  return Along{*dim, *std::move(shape), *std::move(lines), *std::move(numbers)};
}

}  // namespace

Status check_along(const Tensor& x, const Tensor& indices, std::int64_t axis) {
  Result<Along> along = lines_along(x, indices, axis);
  if (!along) return along.status();
  if (Status status = await_elements(along->indices); !status) return status;
  const std::int64_t length = x.shape()[along->axis];
  const std::byte* const from = address_of(along->indices);
  Walk walk;
  walk.begin(along->indices.shape());
  walk.add(along->indices);
  walk.finish();
  Status status;
  walk.for_each(0, walk.size(), [&](const std::int64_t* offsets, std::int64_t count) {
    for (std::int64_t i = 0; i < count && status; ++i) {
      const auto index = load<std::int64_t>(from + offsets[0] + i * walk.inner_step(0));
      if (index >= -length && index < length) continue;
      status = {Code::kInvalid, describe("take_along_axis", {&x, &indices}) + ": index " +
                                    std::to_string(index) + " is out of range for axis " +
                                    std::to_string(along->axis) + " of length " + std::to_string(length)};
    }
  });
  return status;
}

Result<Tensor> take_along(const Tensor& x, const Tensor& indices, std::int64_t axis) {
  Result<Along> along = lines_along(x, indices, axis);
  if (!along) return along.status();
  Result<Place> where = place_of("take_along_axis", {&x, &indices});
  if (!where) return where.status();
  Result<Tensor> made = where->make(along->shape, x.dtype());
  if (!made || made->numel() == 0) return made;
  Walk walk;
  walk.begin(along->shape);
  walk.add(along->lines);
  walk.add(along->indices);
  walk.add(*made);
  walk.finish();
  const std::size_t item = x.item_size();
  const std::int64_t length = x.shape()[along->axis];
  const std::int64_t step = x.strides()[along->axis] * static_cast<std::int64_t>(item);
  Status status = compute_range(
      "take_along_axis", {&x, &along->indices}, *made, made->numel(), static_cast<double>(made->numel()) * 2,
      [=, from = address_of(x), numbers = address_of(along->indices), to = address_of(*made)](
          std::int64_t first, std::int64_t last) {
        walk.for_each(first, last, [&](const std::int64_t* offsets, std::int64_t count) {
          for (std::int64_t i = 0; i < count; ++i) {
            auto index = load<std::int64_t>(numbers + offsets[1] + i * walk.inner_step(1));
            if (index < 0) index += length;
            // Another process may have changed the indices since they were checked.
            index = std::clamp<std::int64_t>(index, 0, length - 1);
            copy_item(to + offsets[2] + i * walk.inner_step(2),
                      from + offsets[0] + i * walk.inner_step(0) + index * step, item);
          }
        });
      });
  if (!status) return status;
  return made;
}

Result<std::vector<Tensor>> nonzero_places(const Tensor& x) {
  if (Status status = refuse_on_gpu("nonzero", {&x}); !status) return status;
  if (x.ndim() == 0)
    return Status(Code::kInvalid, describe("nonzero", {&x}) + ": a tensor without dimensions has no indices");
  Result<Tensor> truths =
      x.dtype() == DType::kBool && x.is_contiguous() ? Result<Tensor>(x) : convert(x, DType::kBool);
  if (!truths) return truths.status();
  if (Status status = await_elements(*truths); !status) return status;
  const std::byte* const from = address_of(*truths);
  std::vector<std::int64_t> found;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    if (from[i] != std::byte{0}) found.push_back(i);
  }
  const auto count = static_cast<std::int64_t>(found.size());
  Result<Place> where = place_of("nonzero", {&x});
  if (!where) return where.status();
  Result<Tensor> made = where->make({static_cast<std::int64_t>(x.ndim()), count}, DType::kInt64);
  if (!made) return made.status();
  auto* const numbers = reinterpret_cast<std::int64_t*>(address_of(*made));
  std::int64_t below = x.numel();
  std::vector<Tensor> rows;
  for (std::size_t dim = 0; dim < x.ndim(); ++dim) {
    const std::int64_t length = x.shape()[dim];
    below = length == 0 ? 0 : below / length;
    for (std::int64_t i = 0; i < count; ++i)
      numbers[static_cast<std::int64_t>(dim) * count + i] =
          found[static_cast<std::size_t>(i)] / below % length;
    Result<Tensor> row = tensor::select(*made, 0, static_cast<std::int64_t>(dim));
    if (!row) return row.status();
    rows.push_back(*std::move(row));
  }
  return rows;
}

}  // namespace forklift::inline abi_0_1::ops
