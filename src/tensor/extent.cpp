#include "tensor/extent.h"

#include <string>

namespace forklift::inline abi_0_1::tensor {

Result<std::int64_t> numel(DimSpan shape) {
  if (shape.size() > kMaxDims) {
    return {Code::kInvalid,
            std::to_string(shape.size()) + " dimensions, at most " + std::to_string(kMaxDims)};
  }
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t length : shape) {
    if (length < 0) return {Code::kInvalid, "negative length in shape " + Dims(shape).to_string()};
    if (length == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(product, length, &product)) {
      return {Code::kInvalid, "too many elements in shape " + Dims(shape).to_string()};
    }
  }
  return empty ? std::int64_t{0} : product;
}

Result<std::int64_t> byte_count(DimSpan shape, std::size_t item_size) {
  Result<std::int64_t> count = numel(shape);
  if (!count) return count;
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(*count, item_size, &bytes)) {
    return {Code::kInvalid, "too many bytes in shape " + Dims(shape).to_string()};
  }
  return bytes;
}

Result<Extent> byte_extent(DimSpan shape, DimSpan strides, std::size_t item_size, std::size_t unit) {
  if (shape.size() != strides.size()) {
    return {Code::kInvalid,
            std::to_string(shape.size()) + " lengths but " + std::to_string(strides.size()) + " strides"};
  }
  Result<std::int64_t> bytes = byte_count(shape, item_size);
  if (!bytes) return bytes.status();
  if (*bytes == 0) return Extent{};
  std::int64_t low = 0;
  std::int64_t high = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    std::int64_t reach = 0;
    bool overflow = __builtin_mul_overflow(shape[i] - 1, strides[i], &reach);
    overflow |= __builtin_mul_overflow(reach, unit, &reach);
    std::int64_t& side = reach < 0 ? low : high;
    overflow |= __builtin_add_overflow(side, reach, &side);
    if (overflow) return {Code::kInvalid, "strides " + Dims(strides).to_string() + " reach beyond 63 bits"};
  }
  std::int64_t span = 0;
  if (__builtin_add_overflow(high, item_size, &high) || __builtin_sub_overflow(high, low, &span)) {
    return {Code::kInvalid, "strides " + Dims(strides).to_string() + " reach beyond 63 bits"};
  }
  return Extent{low, high};
}

Status check_within(DimSpan shape, DimSpan strides, std::size_t item_size, std::uint64_t byte_offset,
                    std::uint64_t buffer_bytes) {
  Result<Extent> extent = byte_extent(shape, strides, item_size);
  if (!extent) return extent.status();
  const std::uint64_t before = static_cast<std::uint64_t>(-extent->low);  // low > INT64_MIN: see byte_extent
  const std::uint64_t after = static_cast<std::uint64_t>(extent->high);
  if (byte_offset <= buffer_bytes && before <= byte_offset && after <= buffer_bytes - byte_offset) return {};
  return {Code::kInvalid, "shape " + Dims(shape).to_string() + " with strides " + Dims(strides).to_string() +
                              " at offset " + std::to_string(byte_offset) + " is not inside " +
                              std::to_string(buffer_bytes) + " bytes"};
}

}  // namespace forklift::inline abi_0_1::tensor
