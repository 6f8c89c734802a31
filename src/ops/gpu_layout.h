// A walk over arrays as the kernels of a GPU get it.
//
//   Status status = for_each_layout(walk, {3, 0, 1}, [&](const Layout& layout, const std::int64_t* offsets) { ... });
//
// Thread safety: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "forklift/status.h"
#include "kernels/cuda/strided.h"
#include "ops/walk.h"

namespace forklift::inline abi_0_1::ops {

// The dimensions of the walk from `first` on. `places`: which array of the layout each of the walk's is.
inline kernels::cuda::Layout layout_of(const Walk& walk, std::initializer_list<int> places,
                                       std::size_t first = 0) {
  kernels::cuda::Layout layout{};
  layout.ndim = static_cast<std::int32_t>(walk.ndim() - first);
  for (std::size_t dim = first; dim < walk.ndim(); ++dim) {
    layout.lengths[dim - first] = walk.length(dim);
    std::size_t array = 0;
    for (const int place : places) layout.steps[place][dim - first] = walk.step(array++, dim);
  }
  kernels::cuda::seal(layout);
  return layout;
}

// Calls visit(layout, offsets) until it fails: once, or, with more dimensions than a layout has, once for each combination
// of the outermost ones. `offsets` are the walk's arrays' byte offsets.
template <class Visit>
Status for_each_layout(const Walk& walk, std::initializer_list<int> places, Visit visit) {
  constexpr auto kMost = static_cast<std::size_t>(kernels::cuda::kMostDims);
  const std::size_t outer = walk.ndim() > kMost ? walk.ndim() - kMost : 0;
  const kernels::cuda::Layout layout = layout_of(walk, places, outer);
  std::array<std::int64_t, Walk::kMostArrays> offsets{};
  std::array<std::int64_t, kMaxDims> index{};
  for (;;) {
    if (Status status = visit(layout, offsets.data()); !status) return status;
    std::size_t dim = outer;
    for (; dim > 0; --dim) {
      const std::size_t at = dim - 1;
      const bool wraps = ++index[at] == walk.length(at);
      for (std::size_t k = 0; k < walk.arrays(); ++k)
        offsets[k] += wraps ? (1 - walk.length(at)) * walk.step(k, at) : walk.step(k, at);
      if (!wraps) break;
      index[at] = 0;
    }
    if (dim == 0) return {};
  }
}

}  // namespace forklift::inline abi_0_1::ops
