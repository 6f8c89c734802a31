#include "forklift/tensor.h"

#include <complex>
#include <concepts>
#include <cstring>
#include <ostream>
#include <utility>
#include <vector>

#include "tensor/copy.h"

namespace forklift::inline abi_0_1 {
void Tensor::forget_layout() noexcept {
  offset_ = 0;
  numel_ = 0;
  shape_.be_one(0);
  strides_.be_one(1);
  dtype_ = DType::kFloat32;
  readonly_ = false;
}

Tensor::Tensor(Tensor&& other) noexcept
    : storage_(std::move(other.storage_)),
      offset_(other.offset_),
      numel_(other.numel_),
      shape_(std::move(other.shape_)),
      strides_(std::move(other.strides_)),
      dtype_(other.dtype_),
      readonly_(other.readonly_) {
  other.forget_layout();
}

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  if (this == &other) return *this;
  storage_ = std::move(other.storage_);
  offset_ = other.offset_;
  numel_ = other.numel_;
  shape_ = std::move(other.shape_);
  strides_ = std::move(other.strides_);
  dtype_ = other.dtype_;
  readonly_ = other.readonly_;
  other.forget_layout();
  return *this;
}

void Tensor::swap(Tensor& other) noexcept {
  std::swap(storage_, other.storage_);
  std::swap(offset_, other.offset_);
  std::swap(numel_, other.numel_);
  std::swap(shape_, other.shape_);
  std::swap(strides_, other.strides_);
  std::swap(dtype_, other.dtype_);
  std::swap(readonly_, other.readonly_);
}

bool Tensor::is_contiguous(Order order) const noexcept {
  return order == Order::kC ? is_c_contiguous(shape_, strides_) : is_f_contiguous(shape_, strides_);
}

Tensor Tensor::as_readonly() const {
  Tensor result = *this;
  result.readonly_ = true;
  return result;
}

bool Tensor::same_layout(const Tensor& other) const noexcept {
  return dtype_ == other.dtype_ && readonly_ == other.readonly_ && shape_ == other.shape_ &&
         strides_ == other.strides_;
}

bool Tensor::same_view(const Tensor& other) const noexcept {
  return storage_ == other.storage_ && offset_ == other.offset_ && same_layout(other);
}

bool Tensor::same_elements(const Tensor& other) const {
  if (dtype_ != other.dtype_ || !(shape_ == other.shape_)) return false;
  if (numel_ == 0) return true;
  const auto dense = [](const Tensor& tensor, std::vector<std::byte>& copy) -> const std::byte* {
    if (tensor.is_contiguous()) return tensor.raw();
    copy.resize(tensor.nbytes());
    tensor::copy_strided(copy.data(), tensor.raw(), tensor::byte_strides(tensor.strides_, tensor.item_size()),
                         tensor.shape_, tensor.item_size(), Order::kC);
    return copy.data();
  };
  std::vector<std::byte> mine;
  std::vector<std::byte> theirs;
  return std::memcmp(dense(*this, mine), dense(other, theirs), nbytes()) == 0;
}

std::string Tensor::to_string() const { return std::string(name(dtype_)) + shape_.to_string(); }

namespace {

// Of a long dimension only the first and the last few are written, of a tensor with many elements none.
constexpr std::int64_t kMostWritten = 6;
constexpr std::size_t kMostDimsWritten = 4;

template <class T>
void write_item(std::ostream& out, const std::byte* at) {
  if constexpr (std::same_as<T, bool>) {
    out << (*at != std::byte{0} ? "true" : "false");  // another process may have written any byte
    return;
  }
  T item{};
  std::memcpy(&item, at, sizeof item);
  if constexpr (std::integral<T>) {
    out << +item;
  } else if constexpr (sizeof(T) == 2) {
    out << static_cast<float>(item);
  } else {
    out << item;
  }
}

void write_item(std::ostream& out, DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kBool: return write_item<bool>(out, at);
    case DType::kInt8: return write_item<std::int8_t>(out, at);
    case DType::kInt16: return write_item<std::int16_t>(out, at);
    case DType::kInt32: return write_item<std::int32_t>(out, at);
    case DType::kInt64: return write_item<std::int64_t>(out, at);
    case DType::kUInt8: return write_item<std::uint8_t>(out, at);
    case DType::kUInt16: return write_item<std::uint16_t>(out, at);
    case DType::kUInt32: return write_item<std::uint32_t>(out, at);
    case DType::kUInt64: return write_item<std::uint64_t>(out, at);
    case DType::kFloat16: return write_item<Float16>(out, at);
    case DType::kBFloat16: return write_item<BFloat16>(out, at);
    case DType::kFloat32: return write_item<float>(out, at);
    case DType::kFloat64: return write_item<double>(out, at);
    case DType::kComplex64: return write_item<std::complex<float>>(out, at);
    case DType::kComplex128: return write_item<std::complex<double>>(out, at);
  }
}

void write_dimension(std::ostream& out, const Tensor& tensor, std::size_t dim, const std::byte* at) {
  if (dim == tensor.ndim()) return write_item(out, tensor.dtype(), at);
  const std::int64_t length = tensor.shape()[dim];
  // A dimension of length one may have any stride.
  const std::int64_t step =
      length == 1 ? 0 : tensor.strides()[dim] * static_cast<std::int64_t>(tensor.item_size());
  out << '[';
  for (std::int64_t i = 0; i < length; ++i) {
    if (i != 0) out << ", ";
    if (length > kMostWritten && i == kMostWritten / 2) {
      out << "..., ";
      i = length - kMostWritten / 2;
    }
    write_dimension(out, tensor, dim + 1, at + i * step);
  }
  out << ']';
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  out << tensor.to_string() << ' ';
  if (tensor.numel() == 0) return out << "[]";
  if (tensor.ndim() > kMostDimsWritten && tensor.numel() > 1000) return out << "[...]";
  write_dimension(out, tensor, 0, tensor.raw());
  return out;
}

}  // namespace forklift::inline abi_0_1
