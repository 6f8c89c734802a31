// TensorView<T, Rank>: a tensor's elements by their indices, for loops; included by tensor.h.
//
//   auto pixels = image.view<float, 2>();                       // Error: another dtype, not two dimensions
//   for (std::int64_t y = 0; y < pixels.extent(0); ++y)
//     for (std::int64_t x = 0; x < pixels.extent(1); ++x) pixels(y, x) *= 0.5f;
//   float corner = pixels.at(-1, -1);                           // checked; negative: from the end
//
// Any strides. T const for a tensor that is read-only. What std::mdspan is, in C++20; the indices of operator() are
// not checked, as those of a std::span.
//
// Ownership: refers to the tensor's memory and does not keep it; the tensor, or another on the same storage, must
// outlive it. Thread and process safety: as of any memory. Errors: Error (kInvalid) from at().
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "forklift/dtype.h"
#include "forklift/tensor.h"

namespace forklift::inline abi_0_1 {

namespace detail {
// These throw Error.
void check_rank(const Tensor& tensor, std::size_t rank);
[[noreturn]] void throw_no_index(std::size_t dim, std::int64_t index, std::int64_t extent);
}  // namespace detail

template <class T, std::size_t Rank>
class TensorView {
 public:
  // As of std::span.
  using element_type = T;
  using value_type = std::remove_cv_t<T>;

  // Error: the tensor holds another type, is read-only and T is not const, or has not `Rank` dimensions.
  explicit TensorView(const Tensor& tensor) : data_(tensor.data<T>()) {
    detail::check_rank(tensor, Rank);
    for (std::size_t i = 0; i < Rank; ++i) {
      extents_[i] = tensor.shape()[i];
      strides_[i] = tensor.strides()[i];
    }
  }

  // Precondition: as many indices as dimensions, each at least 0 and less than its extent.
  template <std::integral... Index>
    requires(sizeof...(Index) == Rank)
  T& operator()(Index... index) const noexcept {
    std::int64_t offset = 0;
    std::size_t i = 0;
    ((offset += static_cast<std::int64_t>(index) * strides_[i++]), ...);
    return data_[offset];
  }
  // The same, checked. A negative index counts from the end.
  template <std::integral... Index>
    requires(sizeof...(Index) == Rank)
  T& at(Index... index) const {
    std::int64_t offset = 0;
    std::size_t i = 0;
    ((offset += checked(i, static_cast<std::int64_t>(index)) * strides_[i], ++i), ...);
    return data_[offset];
  }

  // The first element; the length of a dimension, and the elements from one to the next.
  T* data() const noexcept { return data_; }
  std::int64_t extent(std::size_t dim) const noexcept { return extents_[dim]; }
  std::int64_t stride(std::size_t dim) const noexcept { return strides_[dim]; }
  static constexpr std::size_t rank() noexcept { return Rank; }
  std::int64_t size() const noexcept {
    std::int64_t count = 1;
    for (const std::int64_t extent : extents_) count *= extent;
    return count;
  }

 private:
  std::int64_t checked(std::size_t dim, std::int64_t index) const {
    const std::int64_t extent = extents_[dim];
    if (index < -extent || index >= extent) [[unlikely]]
      detail::throw_no_index(dim, index, extent);
    return index < 0 ? index + extent : index;
  }

  T* data_;
  std::array<std::int64_t, Rank> extents_{};
  std::array<std::int64_t, Rank> strides_{};
};

template <class T, std::size_t Rank>
  requires Element<std::remove_const_t<T>>
TensorView<T, Rank> Tensor::view() const {
  return TensorView<T, Rank>(*this);
}

}  // namespace forklift::inline abi_0_1
