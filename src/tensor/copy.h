// Copying strided arrays, e.g. straight from a NumPy view into a block, without an intermediate copy.
//
// Strides here are in BYTES: a column of a structured array has a stride that is no multiple of its items.
// Items are moved as bytes of any size; nothing needs to be aligned.
//
// Preconditions of all: shape and strides have the same length, byte_extent() of them is ok, and source and
// destination do not overlap. Nothing here checks anything: callers have.
#pragma once

#include <cstddef>

#include "forklift/shape.h"

namespace forklift::inline abi_0_1::tensor {

void copy_strided(void* dst, DimSpan dst_strides, const void* src, DimSpan src_strides, DimSpan shape,
                  std::size_t item_size);

// Into an array without gaps in the given order.
void copy_strided(void* dst, const void* src, DimSpan src_strides, DimSpan shape, std::size_t item_size,
                  Order order);

// Sets every item to `item`.
void fill_strided(void* dst, DimSpan dst_strides, DimSpan shape, const void* item, std::size_t item_size);

// Element strides to byte strides.
Dims byte_strides(DimSpan strides, std::size_t item_size);

}  // namespace forklift::inline abi_0_1::tensor
