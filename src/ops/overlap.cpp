#include "ops/overlap.h"

#include <cstdint>

#include "tensor/extent.h"
#include "tensor/pending.h"

namespace forklift::inline abi_0_1::ops {
namespace {

// The addresses of a tensor's first byte, and behind its last. Empty: it has no elements.
struct Range {
  std::uintptr_t low = 0;
  std::uintptr_t high = 0;

  bool meets(const Range& other) const noexcept { return low < other.high && other.low < high; }
};

Range range_of(const Tensor& tensor) noexcept {
  if (tensor.numel() == 0) return {};
  const tensor::Extent extent = *tensor::byte_extent(tensor.shape(), tensor.strides(), tensor.item_size());
  const auto first = reinterpret_cast<std::uintptr_t>(detail::StorageAccess::address(*tensor.storage())) +
                     tensor.byte_offset();
  return {first + static_cast<std::uintptr_t>(extent.low), first + static_cast<std::uintptr_t>(extent.high)};
}

}  // namespace

bool shares_memory(const Tensor& a, const Tensor& b) noexcept { return range_of(a).meets(range_of(b)); }

bool overlaps(const Tensor& out, const Tensor& input) noexcept {
  const Range written = range_of(out);
  const Range read = range_of(input);
  if (!written.meets(read)) return false;
  return written.low != read.low || out.item_size() != input.item_size() || !(out.shape() == input.shape()) ||
         !(out.strides() == input.strides());
}

}  // namespace forklift::inline abi_0_1::ops
