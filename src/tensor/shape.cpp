#include "forklift/shape.h"

#include <algorithm>
#include <limits>
#include <ostream>
#include <utility>

namespace forklift::inline abi_0_1 {

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

std::string Dims::to_string() const {
  std::string text = "(";
  for (std::size_t i = 0; i < size_; ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(data()[i]);
  }
  if (size_ == 1) text += ",";
  return text + ")";
}

std::ostream& operator<<(std::ostream& out, const Dims& dims) { return out << dims.to_string(); }

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

}  // namespace forklift::inline abi_0_1
