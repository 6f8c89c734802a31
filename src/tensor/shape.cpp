#include "forklift/shape.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace forklift {

Dims::Dims(std::size_t count, std::int64_t value) {
  reserve_discarding(count);
  std::fill_n(data(), count, value);
  size_ = count;
}

Dims& Dims::operator=(const Dims& other) {
  if (this != &other) {
    reserve_discarding(other.size_);
    std::copy_n(other.data(), other.size_, data());
    size_ = other.size_;
  }
  return *this;
}

void Dims::reserve_discarding(std::size_t count) {
  if (count <= capacity_) return;
  auto* grown = new std::int64_t[count];
  delete[] heap_;
  heap_ = grown;
  capacity_ = count;
}

void Dims::grow() {
  auto* grown = new std::int64_t[capacity_ * 2];
  std::copy_n(data(), size_, grown);
  delete[] heap_;
  heap_ = grown;
  capacity_ *= 2;
}

void Dims::erase(std::size_t i) noexcept {
  std::copy(begin() + i + 1, end(), begin() + i);
  --size_;
}

bool Dims::operator==(const Dims& other) const noexcept {
  return std::equal(begin(), end(), other.begin(), other.end());
}

std::string Dims::to_string() const {
  std::string text = "(";
  for (std::size_t i = 0; i < size_; ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(data()[i]);
  }
  if (size_ == 1) text += ",";
  return text + ")";
}

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

Dims c_strides(DimSpan shape) {
  Dims strides(shape.size(), 1);
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

Dims f_strides(DimSpan shape) {
  Dims strides(shape.size(), 1);
  std::int64_t step = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    strides[i] = step;
    step *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

namespace {

// Walks the dimensions from the innermost; `at(k)` is the k-th of them.
template <class At>
bool is_contiguous(DimSpan shape, DimSpan strides, At at) noexcept {
  for (const std::int64_t length : shape) {
    if (length == 0) return true;
  }
  std::int64_t step = 1;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    const std::size_t i = at(k);
    if (shape[i] == 1) continue;
    if (strides[i] != step) return false;
    if (__builtin_mul_overflow(step, shape[i], &step)) return false;
  }
  return true;
}

}  // namespace

bool is_c_contiguous(DimSpan shape, DimSpan strides) noexcept {
  return is_contiguous(shape, strides, [n = shape.size()](std::size_t k) { return n - 1 - k; });
}

bool is_f_contiguous(DimSpan shape, DimSpan strides) noexcept {
  return is_contiguous(shape, strides, [](std::size_t k) { return k; });
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

}  // namespace forklift
