// Most tensors lie in C order without gaps: what is asked of shapes and strides in general (forklift/shape.h)
// has a short answer then.
//
//   if (const auto count = dense_count(shape, strides)) ...   // so many elements, one behind the other
//
// Pure functions on numbers that may come from another process: nothing overflows unseen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "forklift/shape.h"

namespace forklift::inline abi_0_1::tensor {

// The number of elements, if every length is at least one and the strides are those of C order (a dimension
// of length one may have any). Nothing: not so, or the number does not fit.
inline std::optional<std::int64_t> dense_count(DimSpan shape, DimSpan strides) noexcept {
  if (shape.size() != strides.size() || shape.size() > kMaxDims) return std::nullopt;
  std::int64_t count = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] <= 0 || (strides[i] != count && shape[i] != 1) ||
        __builtin_mul_overflow(count, shape[i], &count))
      return std::nullopt;
  }
  return count;
}

// The same of a shape alone; writes the strides of C order. Nothing, also for more dimensions than lie inside
// a Dims: the general functions know.
inline std::optional<std::int64_t> dense_strides(DimSpan shape,
                                                 std::span<std::int64_t, Dims::kInline> strides) noexcept {
  if (shape.size() > Dims::kInline) return std::nullopt;
  std::int64_t count = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = count;
    if (shape[i] <= 0 || __builtin_mul_overflow(count, shape[i], &count)) return std::nullopt;
  }
  return count;
}

// Do so many items lie inside a buffer from this offset on?
inline bool is_within(std::int64_t count, std::size_t item_size, std::uint64_t byte_offset,
                      std::uint64_t buffer_bytes) noexcept {
  std::int64_t need = 0;
  return !__builtin_mul_overflow(count, item_size, &need) && byte_offset <= buffer_bytes &&
         static_cast<std::uint64_t>(need) <= buffer_bytes - byte_offset;
}

}  // namespace forklift::inline abi_0_1::tensor
