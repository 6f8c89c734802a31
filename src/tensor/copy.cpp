#include "tensor/copy.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include "sync/past_caches.h"

namespace forklift::inline abi_0_1::tensor {
namespace {

struct Dim {
  std::int64_t length;
  std::int64_t dst;
  std::int64_t src;
};

struct Plan {
  std::array<Dim, kMaxDims> dims;  // the innermost first
  std::size_t count = 0;
  std::size_t item = 0;
  std::byte* dst = nullptr;
  const std::byte* src = nullptr;
};

// Brings a copy into the fewest dimensions: those of length one vanish, the rest are ordered by the
// destination's stride, walked forwards in the destination, and merged where both sides run on without a gap.
// False if there is nothing to copy.
bool make_plan(Plan& plan, DimSpan dst_strides, DimSpan src_strides, DimSpan shape) {
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return false;
    if (shape[i] == 1) continue;
    Dim dim{shape[i], dst_strides[i], src_strides[i]};
    if (dim.dst < 0) {
      plan.dst += (dim.length - 1) * dim.dst;
      plan.src += (dim.length - 1) * dim.src;
      dim.dst = -dim.dst;
      dim.src = -dim.src;
    }
    plan.dims[plan.count++] = dim;
  }
  const auto end = plan.dims.begin() + static_cast<std::ptrdiff_t>(plan.count);
  std::stable_sort(plan.dims.begin(), end, [](const Dim& a, const Dim& b) { return a.dst < b.dst; });
  std::size_t kept = 0;
  for (std::size_t i = 1; i < plan.count; ++i) {
    Dim& inner = plan.dims[kept];
    const Dim& outer = plan.dims[i];
    if (outer.dst == inner.dst * inner.length && outer.src == inner.src * inner.length) {
      inner.length *= outer.length;
    } else {
      plan.dims[++kept] = outer;
    }
  }
  if (plan.count > 0) plan.count = kept + 1;
  return true;
}

// A short run of items that is as wide as a machine word is one item (the last axis of an RGBA crop, say).
void widen_items(Plan& plan) {
  while (plan.count > 1) {
    const Dim& inner = plan.dims[0];
    const auto item = static_cast<std::int64_t>(plan.item);
    if (inner.dst != item || inner.src != item || inner.length > 16 / item) return;
    const std::int64_t wide = item * inner.length;
    if (wide != 2 && wide != 4 && wide != 8 && wide != 16) return;
    plan.item = static_cast<std::size_t>(wide);
    std::copy(plan.dims.begin() + 1, plan.dims.begin() + static_cast<std::ptrdiff_t>(plan.count),
              plan.dims.begin());
    --plan.count;
  }
}

// One item of N bytes; N == 0: of `item` bytes. A memcpy of a constant length is one or two instructions.
template <std::size_t N>
void copy_row(std::byte* dst, const std::byte* src, const Dim& dim, std::size_t item) {
  for (std::int64_t i = 0; i < dim.length; ++i) {
    std::memcpy(dst + i * dim.dst, src + i * dim.src, N == 0 ? item : N);
  }
}

// Source and destination run along different axes (a transposition): walk squares that stay in the first
// cache, or each line of the source is fetched once for every item in it.
template <std::size_t N>
void copy_tiles(std::byte* dst, const std::byte* src, const Dim& a, const Dim& b, std::size_t item) {
  constexpr std::int64_t kTile = 32;
  for (std::int64_t jb = 0; jb < b.length; jb += kTile) {
    const std::int64_t rows = std::min(kTile, b.length - jb);
    for (std::int64_t ia = 0; ia < a.length; ia += kTile) {
      const Dim row{std::min(kTile, a.length - ia), a.dst, a.src};
      for (std::int64_t j = jb; j < jb + rows; ++j) {
        copy_row<N>(dst + ia * a.dst + j * b.dst, src + ia * a.src + j * b.src, row, item);
      }
    }
  }
}

template <std::size_t N>
void copy_inner(const Plan& plan, std::byte* dst, const std::byte* src, bool tiled) {
  const Dim& a = plan.dims[0];
  const Dim& b = plan.dims[1];
  const auto item = static_cast<std::int64_t>(plan.item);
  if (a.dst == item && a.src == item) {
    for (std::int64_t j = 0; j < b.length; ++j) {
      sync::copy_bytes(dst + j * b.dst, src + j * b.src, static_cast<std::size_t>(a.length * item));
    }
  } else if (tiled) {
    copy_tiles<N>(dst, src, a, b, plan.item);
  } else {
    for (std::int64_t j = 0; j < b.length; ++j) copy_row<N>(dst + j * b.dst, src + j * b.src, a, plan.item);
  }
}

template <std::size_t N>
void run(Plan& plan) {
  while (plan.count < 2) plan.dims[plan.count++] = {1, 0, 0};
  // The axis along which the source runs densest comes second, if it is not the innermost already.
  const auto reach = [](std::int64_t stride) { return stride < 0 ? -stride : stride; };
  std::size_t densest = 0;
  for (std::size_t i = 1; i < plan.count; ++i) {
    const Dim& dim = plan.dims[i];
    if (dim.length > 1 && dim.src != 0 && reach(dim.src) < reach(plan.dims[densest].src)) densest = i;
  }
  const bool tiled = densest != 0;
  if (tiled) std::swap(plan.dims[1], plan.dims[densest]);

  std::array<std::int64_t, kMaxDims> index{};
  std::byte* dst = plan.dst;
  const std::byte* src = plan.src;
  for (;;) {
    copy_inner<N>(plan, dst, src, tiled);
    std::size_t k = 2;
    for (; k < plan.count; ++k) {
      const Dim& dim = plan.dims[k];
      if (++index[k] < dim.length) {
        dst += dim.dst;
        src += dim.src;
        break;
      }
      dst -= (dim.length - 1) * dim.dst;
      src -= (dim.length - 1) * dim.src;
      index[k] = 0;
    }
    if (k >= plan.count) return;
  }
}

}  // namespace

void copy_strided(void* dst, DimSpan dst_strides, const void* src, DimSpan src_strides, DimSpan shape,
                  std::size_t item_size) {
  if (item_size == 0) return;
  Plan plan;
  plan.dst = static_cast<std::byte*>(dst);
  plan.src = static_cast<const std::byte*>(src);
  plan.item = item_size;
  if (!make_plan(plan, dst_strides, src_strides, shape)) return;
  if (item_size <= 8) widen_items(plan);
  switch (plan.item) {
    case 1: return run<1>(plan);
    case 2: return run<2>(plan);
    case 4: return run<4>(plan);
    case 8: return run<8>(plan);
    case 16: return run<16>(plan);
    default: return run<0>(plan);
  }
}

Dims byte_strides(DimSpan strides, std::size_t item_size) {
  Dims bytes(strides);
  // A stride that no element uses (of a length of one or zero) may be anything, so it may overflow: it wraps.
  for (std::int64_t& stride : bytes) {
    stride = static_cast<std::int64_t>(static_cast<std::uint64_t>(stride) * item_size);
  }
  return bytes;
}

void copy_strided(void* dst, const void* src, DimSpan src_strides, DimSpan shape, std::size_t item_size,
                  Order order) {
  const Dims dense = byte_strides(order == Order::kC ? c_strides(shape) : f_strides(shape), item_size);
  copy_strided(dst, dense, src, src_strides, shape, item_size);
}

void fill_strided(void* dst, DimSpan dst_strides, DimSpan shape, const void* item, std::size_t item_size) {
  const Dims still(shape.size(), 0);
  copy_strided(dst, dst_strides, item, still, shape, item_size);
}

}  // namespace forklift::inline abi_0_1::tensor
