// How several arrays of one shape are walked together: broadcasting, and the fewest and longest loops.
//
//   Result<Dims> shape = broadcast_shapes({&a.shape(), &b.shape()});
//   Walk walk;
//   walk.begin(*shape);
//   walk.add(a); walk.add(b); walk.add(out);
//   walk.finish();
//   walk.for_each(first, last, [&](const std::int64_t* offsets, std::int64_t count) { ... });   // runs of elements
//
// Thread safety: a walk that is finished may be used by several threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "forklift/shape.h"
#include "forklift/status.h"
#include "forklift/tensor.h"

namespace forklift::inline abi_0_1::ops {

// NumPy's rule: aligned at the last dimension, a length of one fits any. kInvalid: they do not fit.
Result<Dims> broadcast_shapes(std::span<const Dims* const> shapes);
inline Result<Dims> broadcast_shapes(std::initializer_list<const Dims*> shapes) {
  return broadcast_shapes(std::span(shapes.begin(), shapes.size()));
}

// Does it fit into `shape` without `shape` becoming larger?
bool broadcasts_to(DimSpan from, DimSpan shape) noexcept;

// Elements are converted, and results accumulated, so many at a time: they stay in the first-level cache.
inline constexpr std::int64_t kRun = 512;
inline constexpr std::size_t kMostItemBytes = 16;

class Walk {
 public:
  static constexpr std::size_t kMostArrays = 4;

  void begin(DimSpan shape) noexcept;
  // An array that is broadcast to the shape. Steps are in bytes.
  void add(const Tensor& tensor) noexcept { add(tensor.shape(), tensor.strides(), tensor.item_size()); }
  void add(DimSpan shape, DimSpan strides, std::size_t item_size) noexcept;
  // One number.
  void add_constant() noexcept;
  // Drops dimensions of length one, and joins those that follow each other without a gap in every array.
  void finish() noexcept;

  std::size_t arrays() const noexcept { return arrays_; }
  std::size_t ndim() const noexcept { return ndim_; }
  std::int64_t length(std::size_t dim) const noexcept { return shape_[dim]; }
  std::int64_t step(std::size_t array, std::size_t dim) const noexcept { return steps_[array][dim]; }
  // Of the innermost dimension.
  std::ptrdiff_t inner_step(std::size_t array) const noexcept {
    return ndim_ == 0 ? 0 : steps_[array][ndim_ - 1];
  }
  std::int64_t size() const noexcept { return size_; }

  // Calls visit(offsets, count) for runs along the innermost dimension that together are the elements [first, last) in
  // C order: `offsets` are the arrays' byte offsets of the run's first element.
  template <class Visit>
  void for_each(std::int64_t first, std::int64_t last, Visit visit) const {
    if (first >= last) return;
    std::array<std::int64_t, kMostArrays> offsets{};
    if (ndim_ <= 1) {
      for (std::size_t k = 0; k < arrays_; ++k) offsets[k] = first * inner_step(k);
      visit(offsets.data(), last - first);
      return;
    }
    std::array<std::int64_t, kMaxDims> index;
    locate(first, index.data(), offsets.data());
    const std::size_t inner = ndim_ - 1;
    for (std::int64_t left = last - first;;) {
      std::int64_t run = shape_[inner] - index[inner];
      if (run > left) run = left;
      visit(offsets.data(), run);
      left -= run;
      if (left == 0) return;
      // To the beginning of the next row.
      for (std::size_t k = 0; k < arrays_; ++k) offsets[k] -= index[inner] * steps_[k][inner];
      index[inner] = 0;
      for (std::size_t dim = inner; dim-- > 0;) {
        if (++index[dim] < shape_[dim]) {
          for (std::size_t k = 0; k < arrays_; ++k) offsets[k] += steps_[k][dim];
          break;
        }
        index[dim] = 0;
        for (std::size_t k = 0; k < arrays_; ++k) offsets[k] -= (shape_[dim] - 1) * steps_[k][dim];
      }
    }
  }

 private:
  void locate(std::int64_t element, std::int64_t* index, std::int64_t* offsets) const noexcept;

  std::size_t ndim_ = 0;
  std::size_t arrays_ = 0;
  std::int64_t size_ = 0;
  std::array<std::int64_t, kMaxDims> shape_;
  std::array<std::array<std::int64_t, kMaxDims>, kMostArrays> steps_;
};

}  // namespace forklift::inline abi_0_1::ops
