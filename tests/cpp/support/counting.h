// A tensor whose elements count: 0, 1, 2, ... in C order, as int32, on the heap.
//
//   Tensor image = test::counting({2, 3});
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

#include "forklift/tensor.h"
#include "tensor/extent.h"

namespace forklift::test {

inline Tensor counting(Dims shape) {
  const auto count = static_cast<std::size_t>(*tensor::numel(shape));
  Tensor made = Tensor::wrap(Storage::heap(count * 4), DType::kInt32, std::move(shape));
  const std::span<std::int32_t> all = made.span<std::int32_t>();
  std::iota(all.begin(), all.end(), 0);
  return made;
}

}  // namespace forklift::test
