// Sizes and extents of arrays, from numbers that may come from another process.
//
//   Result<std::int64_t> count = numel(shape);
//   Result<Extent> touched = byte_extent(shape, strides, 4);   // {0, 3686400} relative to element (0, 0, 0)
//
// Thread and process safety: pure functions.
//
// Invariant: every product and sum is checked for overflow before it is used.
#pragma once

#include <cstddef>
#include <cstdint>

#include "forklift/shape.h"
#include "forklift/status.h"

namespace forklift::inline abi_0_1::tensor {

// The number of elements. kInvalid if a length is negative, there are more than kMaxDims, or the product of
// the non-zero lengths does not fit (also where another length is zero, as in NumPy, so that strides always
// fit).
Result<std::int64_t> numel(DimSpan shape);

// numel times the item's size, kInvalid if that does not fit into 63 bits.
Result<std::int64_t> byte_count(DimSpan shape, std::size_t item_size);

// The bytes that the elements occupy, relative to the element with all indices zero: [low, high), low <= 0.
// Both are zero if there are no elements.
struct Extent {
  std::int64_t low = 0;   // of the first byte
  std::int64_t high = 0;  // behind the last one
};

// `strides` in units of `unit` bytes (the item's size, or 1 for strides in bytes). kInvalid if shape and
// strides differ in length, a length is negative or anything overflows.
Result<Extent> byte_extent(DimSpan shape, DimSpan strides, std::size_t item_size, std::size_t unit);
inline Result<Extent> byte_extent(DimSpan shape, DimSpan strides, std::size_t item_size) {
  return byte_extent(shape, strides, item_size, item_size);
}

// Ok if every element, the first one lying at `byte_offset`, is inside a buffer of `buffer_bytes`.
Status check_within(DimSpan shape, DimSpan strides, std::size_t item_size, std::uint64_t byte_offset,
                    std::uint64_t buffer_bytes);

}  // namespace forklift::inline abi_0_1::tensor
