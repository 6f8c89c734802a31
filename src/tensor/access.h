// What the library itself may do with a tensor, and programs may not: making one without the checks that were
// made already, in its place, and emptying one that was given away.
//
//   return TensorAccess::make(std::move(storage), offset, count, shape, strides, dtype, readonly);
//
// Thread safety: as the tensor's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "forklift/status.h"
#include "forklift/tensor.h"

namespace forklift::inline abi_0_1::detail {

struct TensorAccess {
  // Precondition: the invariants of forklift/tensor.h, and `count` is the number of elements. Shape and
  // strides: a Dims&&, or a DimSpan to be copied.
  template <class Shape, class Strides>
  static Result<Tensor> make(std::shared_ptr<Storage>&& storage, std::size_t byte_offset, std::int64_t count,
                             Shape&& shape, Strides&& strides, DType dtype, bool readonly) {
    return Result<Tensor>(std::in_place, Tensor::Key(), std::move(storage), byte_offset, count,
                          std::forward<Shape>(shape), std::forward<Strides>(strides), dtype, readonly);
  }

  // As moving from it.
  static void empty(Tensor& tensor) noexcept {
    tensor.storage_.reset();
    tensor.forget_layout();
  }
};

}  // namespace forklift::inline abi_0_1::detail
