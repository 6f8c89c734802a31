#include "ops/overlap.h"

#include <cstdint>
#include <utility>

#include "tensor/extent.h"
#include "tensor/pending.h"

namespace forklift::ops {
namespace {

// The addresses of its first byte, and behind its last. Of a tensor with elements.
std::pair<std::uintptr_t, std::uintptr_t> range_of(const Tensor& tensor) noexcept {
  const tensor::Extent extent = *tensor::byte_extent(tensor.shape(), tensor.strides(), tensor.item_size());
  const auto first = reinterpret_cast<std::uintptr_t>(detail::StorageAccess::address(*tensor.storage())) +
                     tensor.byte_offset();
  return {first + static_cast<std::uintptr_t>(extent.low), first + static_cast<std::uintptr_t>(extent.high)};
}

}  // namespace

bool shares_memory(const Tensor& a, const Tensor& b) noexcept {
  if (a.numel() == 0 || b.numel() == 0) return false;
  const auto [a_low, a_high] = range_of(a);
  const auto [b_low, b_high] = range_of(b);
  return a_low < b_high && b_low < a_high;
}

bool overlaps(const Tensor& out, const Tensor& input) noexcept {
  if (!shares_memory(out, input)) return false;
  return range_of(out).first != range_of(input).first || out.item_size() != input.item_size() ||
         !(out.shape() == input.shape()) || !(out.strides() == input.strides());
}

}  // namespace forklift::ops
