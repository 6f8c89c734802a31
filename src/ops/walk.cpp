#include "ops/walk.h"

#include <algorithm>
#include <string>

namespace forklift::inline abi_0_1::ops {

Result<Dims> broadcast_shapes(std::span<const Dims* const> shapes) {
  std::size_t ndim = 0;
  for (const Dims* const shape : shapes) ndim = std::max(ndim, shape->size());
  Dims result(ndim, 1);
  for (const Dims* const shape : shapes) {
    const std::size_t before = ndim - shape->size();
    for (std::size_t i = 0; i < shape->size(); ++i) {
      const std::int64_t length = (*shape)[i];
      std::int64_t& common = result[before + i];
      if (length == common || length == 1) continue;
      if (common != 1) {
        std::string text = "shapes";
        for (const Dims* const each : shapes) text += ' ' + each->to_string();
        return {Code::kInvalid, text + " do not broadcast"};
      }
      common = length;
    }
  }
  return result;
}

bool broadcasts_to(DimSpan from, DimSpan shape) noexcept {
  if (from.size() > shape.size()) return false;
  const std::size_t before = shape.size() - from.size();
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] != 1 && from[i] != shape[before + i]) return false;
  }
  return true;
}

void Walk::begin(DimSpan shape) noexcept {
  ndim_ = shape.size();
  arrays_ = 0;
  size_ = 1;
  for (std::size_t i = 0; i < ndim_; ++i) {
    shape_[i] = shape[i];
    size_ *= shape[i];
  }
}

void Walk::add(DimSpan shape, DimSpan strides, std::size_t item_size) noexcept {
  std::array<std::int64_t, kMaxDims>& steps = steps_[arrays_++];
  const std::size_t before = ndim_ - shape.size();
  for (std::size_t i = 0; i < before; ++i) steps[i] = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    steps[before + i] = shape[i] == 1 ? 0 : strides[i] * static_cast<std::int64_t>(item_size);
  }
}

void Walk::add_constant() noexcept {
  std::array<std::int64_t, kMaxDims>& steps = steps_[arrays_++];
  for (std::size_t i = 0; i < ndim_; ++i) steps[i] = 0;
}

void Walk::finish() noexcept {
  std::size_t kept = 0;
  for (std::size_t dim = 0; dim < ndim_; ++dim) {
    if (shape_[dim] == 1) continue;
    bool joins = kept > 0;
    for (std::size_t k = 0; k < arrays_ && joins; ++k)
      joins = steps_[k][kept - 1] == steps_[k][dim] * shape_[dim];
    if (joins) {
      shape_[kept - 1] *= shape_[dim];
      for (std::size_t k = 0; k < arrays_; ++k) steps_[k][kept - 1] = steps_[k][dim];
      continue;
    }
    shape_[kept] = shape_[dim];
    for (std::size_t k = 0; k < arrays_; ++k) steps_[k][kept] = steps_[k][dim];
    ++kept;
  }
  ndim_ = kept;
}

void Walk::locate(std::int64_t element, std::int64_t* index, std::int64_t* offsets) const noexcept {
  for (std::size_t dim = ndim_; dim-- > 0;) {
    index[dim] = element % shape_[dim];
    element /= shape_[dim];
    for (std::size_t k = 0; k < arrays_; ++k) offsets[k] += index[dim] * steps_[k][dim];
  }
}

}  // namespace forklift::inline abi_0_1::ops
