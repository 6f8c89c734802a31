// What an index names: views for numbers and slices, places for tensors.
#include <string>
#include <utility>

#include "ops/arrangement.h"
#include "ops/element_type.h"
#include "ops/elementwise.h"
#include "ops/indexing.h"
#include "ops/job.h"
#include "ops/promotion.h"
#include "ops/range_job.h"
#include "ops/walk.h"
#include "tensor/operations.h"

namespace forklift::inline abi_0_1::ops {
namespace {

// A tensor of integers, or a number beside one, that is an index for one dimension.
struct Picker {
  Tensor indices;    // int64, without gaps
  std::size_t dim;   // of the view
  std::size_t axis;  // of the tensor that is indexed, for messages
};

Status wrong_index(const Tensor& x, const std::string& why) {
  return {Code::kInvalid, "index of " + x.to_string() + ": " + why};
}

// One int64 in memory of its own.
Result<Tensor> one_number(std::int64_t number) {
  Tensor tensor = Tensor::wrap(Storage::heap(sizeof number), DType::kInt64, Dims{});
  store(address_of(tensor), number);
  return tensor;
}

Result<Tensor> as_indices(const Tensor& tensor) {
  Result<Tensor> dense = tensor;
  if (tensor.dtype() != DType::kInt64 || !tensor.is_contiguous()) dense = convert(tensor, DType::kInt64);
  if (!dense) return dense;
  if (Status status = await_elements(*dense); !status) return status;
  return dense;
}

// Goes through the entries of an index from left to right.
class Resolver {
 public:
  explicit Resolver(const Tensor& x) : x_(x), view_(x) {}

  Status begin(std::span<const Index> index) {
    std::size_t used = 0;
    std::size_t ellipses = 0;
    for (const Index& entry : index) {
      if (const Tensor* const tensor = std::get_if<Tensor>(&entry.value())) {
        used += tensor->dtype() == DType::kBool ? tensor->ndim() : 1;
        has_tensors_ = true;
      } else if (std::holds_alternative<std::int64_t>(entry.value()) ||
                 std::holds_alternative<Slice>(entry.value())) {
        ++used;
      } else if (std::holds_alternative<AllOthers>(entry.value())) {
        ++ellipses;
      }
    }
    if (ellipses > 1) return wrong_index(x_, "an index can have one Ellipsis only");
    if (used > x_.ndim())
      return wrong_index(x_, "too many indices for " + std::to_string(x_.ndim()) + " dimensions");
    others_ = x_.ndim() - used;
    return {};
  }

  Status add(const Index& entry) {
    return std::visit([this](const auto& value) { return take(value); }, entry.value());
  }

  Result<Selection> finish() {
    Selection chosen;
    if (pickers_.empty()) {
      chosen.view = std::move(view_);
      return chosen;
    }
    std::vector<const Dims*> shapes;
    for (const Picker& picker : pickers_) shapes.push_back(&picker.indices.shape());
    Result<Dims> shape = broadcast_shapes(std::span<const Dims* const>(shapes));
    if (!shape) return wrong_index(x_, "the indices' " + std::string(shape.status().what()));
    chosen.places_shape = *shape;
    std::int64_t count = 1;
    for (const std::int64_t length : *shape) count *= length;
    auto places = std::make_shared<std::vector<std::int64_t>>(static_cast<std::size_t>(count));
    for (const Picker& picker : pickers_) {
      if (Status status = add_places(picker, *shape, places->data()); !status) return status;
    }
    chosen.places = std::move(places);
    return remainder(std::move(chosen));
  }

 private:
  Status take(std::int64_t number) {
    const std::size_t axis = axis_++;
    const std::int64_t length = view_.shape()[dim_];
    if (number < -length || number >= length) return out_of_range(number, axis, length);
    if (!has_tensors_) return replace(tensor::select(view_, static_cast<std::int64_t>(dim_), number));
    Result<Tensor> indices = one_number(number);
    return indices ? pick(*std::move(indices), axis) : indices.status();
  }

  Status take(const Slice& slice) {
    separate();
    Status status =
        replace(tensor::slice(view_, static_cast<std::int64_t>(dim_), slice.start, slice.stop, slice.step));
    ++dim_;
    ++axis_;
    return status;
  }

  Status take(NewAxis) {
    separate();
    Status status = replace(add_dimension(view_, static_cast<std::int64_t>(dim_)));
    ++dim_;
    return status;
  }

  Status take(AllOthers) {
    separate();
    dim_ += others_;
    axis_ += others_;
    return {};
  }

  Status take(const Tensor& tensor) {
    if (Status status = refuse_on_gpu("index", {&x_, &tensor}); !status) return status;
    if (tensor.dtype() == DType::kBool) return tensor.ndim() == 0 ? take_truth(tensor) : take_mask(tensor);
    if (!is_integer(tensor.dtype())) {
      return wrong_index(
          x_, "a tensor of " + std::string(name(tensor.dtype())) + " is no index; integers and bools are");
    }
    Result<Tensor> indices = as_indices(tensor);
    return indices ? pick(*std::move(indices), axis_++) : indices.status();
  }

  Status take_mask(const Tensor& mask) {
    for (std::size_t i = 0; i < mask.ndim(); ++i) {
      // NumPy takes a mask without elements, which names none, for any length.
      if (mask.shape()[i] == view_.shape()[dim_ + i] || mask.shape()[i] == 0) continue;
      return wrong_index(x_, "the mask " + mask.to_string() + " has another length than axis " +
                                 std::to_string(axis_ + i) + ", which has " +
                                 std::to_string(view_.shape()[dim_ + i]));
    }
    Result<std::vector<Tensor>> indices = nonzero_places(mask);
    if (!indices) return indices.status();
    for (Tensor& each : *indices) {
      if (Status status = pick(std::move(each), axis_++); !status) return status;
    }
    return {};
  }

  // A single bool: a new dimension, of which it takes the one element or none.
  Status take_truth(const Tensor& truth) {
    if (Status status = await_elements(truth); !status) return status;
    const std::int64_t count = load<bool>(address_of(truth)) ? 1 : 0;
    Tensor indices = Tensor::wrap(Storage::heap(sizeof(std::int64_t)), DType::kInt64, Dims{count});
    store(address_of(indices), std::int64_t{0});
    if (Status status = replace(add_dimension(view_, static_cast<std::int64_t>(dim_))); !status)
      return status;
    return pick(std::move(indices), axis_);
  }

  // After a tensor: whatever comes next stands apart from it.
  void separate() noexcept { separated_ = separated_ || !pickers_.empty(); }

  Status pick(Tensor indices, std::size_t axis) {
    scattered_ = scattered_ || separated_;
    pickers_.push_back({std::move(indices), dim_++, axis});
    return {};
  }

  Status replace(Result<Tensor> view) {
    if (!view) return wrong_index(x_, std::string(view.status().what()));
    view_ = *std::move(view);
    return {};
  }

  Status out_of_range(std::int64_t index, std::size_t axis, std::int64_t length) const {
    return wrong_index(x_, "index " + std::to_string(index) + " is out of range for axis " +
                               std::to_string(axis) + " of length " + std::to_string(length));
  }

  Status add_places(const Picker& picker, const Dims& shape, std::int64_t* places) const {
    const std::int64_t length = view_.shape()[picker.dim];
    const std::int64_t step = view_.strides()[picker.dim] * static_cast<std::int64_t>(view_.item_size());
    const std::byte* const from = address_of(picker.indices);
    Walk walk;
    walk.begin(shape);
    walk.add(picker.indices);
    walk.finish();
    Status status;
    walk.for_each(0, walk.size(), [&](const std::int64_t* offsets, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        const auto index = load<std::int64_t>(from + offsets[0] + i * walk.inner_step(0));
        if (index < -length || index >= length) {
          if (status) status = out_of_range(index, picker.axis, length);
          return;
        }
        *places++ += (index < 0 ? index + length : index) * step;
      }
    });
    return status;
  }

  // The view without the dimensions that have pickers.
  Result<Selection> remainder(Selection chosen) {
    Dims shape;
    Dims strides;
    std::size_t next = 0;
    for (std::size_t dim = 0; dim < view_.ndim(); ++dim) {
      if (next < pickers_.size() && pickers_[next].dim == dim) {
        ++next;
        continue;
      }
      shape.push_back(view_.shape()[dim]);
      strides.push_back(view_.strides()[dim]);
    }
    chosen.position = scattered_ ? 0 : pickers_.front().dim;
    Result<Tensor> rest = view_of(view_, std::move(shape), std::move(strides), view_.readonly());
    if (!rest) return rest.status();
    chosen.view = *std::move(rest);
    return chosen;
  }

  const Tensor& x_;
  Tensor view_;
  std::size_t dim_ = 0;   // of the view, to which the next entry belongs
  std::size_t axis_ = 0;  // the same of x_
  std::size_t others_ = 0;
  bool has_tensors_ = false;
  bool separated_ = false;  // something else stands behind the first tensor
  bool scattered_ = false;  // and another tensor behind that
  std::vector<Picker> pickers_;
};

}  // namespace

Dims Selection::shape() const {
  if (is_view()) return view.shape();
  Dims shape;
  for (std::size_t i = 0; i < position; ++i) shape.push_back(view.shape()[i]);
  for (const std::int64_t length : places_shape) shape.push_back(length);
  for (std::size_t i = position; i < view.ndim(); ++i) shape.push_back(view.shape()[i]);
  return shape;
}

Result<Selection> select_items(const Tensor& x, std::span<const Index> index) {
  Resolver resolver(x);
  if (Status status = resolver.begin(index); !status) return status;
  for (const Index& entry : index) {
    if (Status status = resolver.add(entry); !status) return status;
  }
  return resolver.finish();
}

Result<Selection> select_taken(const Tensor& x, const Tensor& indices, std::int64_t axis) {
  if (!is_integer(indices.dtype()))
    return Status(Code::kInvalid, describe("take", {&x, &indices}) + ": the indices are no integers");
  Result<std::size_t> dim = axis_of("take", x, axis, x.ndim());
  if (!dim) return dim.status();
  std::vector<Index> index(*dim, Index(Slice{}));
  index.emplace_back(indices);
  return select_items(x, index);
}

Result<Tensor> taken(const Tensor& x, const Tensor& indices, std::int64_t axis) {
  if (Status status = refuse_on_gpu("take", {&x, &indices}); !status) return status;
  Result<Selection> chosen = select_taken(x, indices, axis);
  return chosen ? gather(x, *chosen) : chosen.status();
}

}  // namespace forklift::inline abi_0_1::ops
