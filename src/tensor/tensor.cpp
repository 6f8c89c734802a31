#include "forklift/tensor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "forklift/error.h"
#include "tensor/access.h"
#include "tensor/copy.h"
#include "tensor/dense.h"

namespace forklift {
namespace {

constexpr std::size_t kCacheLine = 64;

class HeapStorage final : public Storage {
 public:
  HeapStorage(void* data, std::size_t bytes) noexcept : Storage(data, bytes) {}
  ~HeapStorage() override { std::free(data()); }
};

class BorrowedStorage final : public Storage {
 public:
  BorrowedStorage(void* data, std::size_t bytes, std::shared_ptr<const void> owner) noexcept
      : Storage(data, bytes), owner_(std::move(owner)) {}

 private:
  std::shared_ptr<const void> owner_;
};

Status no_dimension(std::int64_t dim, std::size_t ndim) {
  return {Code::kInvalid, "no dimension " + std::to_string(dim) + " in a tensor of " + std::to_string(ndim)};
}

// A dimension's or an element's number, negative from the end. Nothing if there is none.
std::optional<std::size_t> resolve(std::int64_t index, std::int64_t length) noexcept {
  if (index < -length || index >= length) return std::nullopt;
  return static_cast<std::size_t>(index < 0 ? index + length : index);
}

std::optional<std::size_t> resolve_dim(std::int64_t dim, std::size_t ndim) noexcept {
  return resolve(dim, static_cast<std::int64_t>(ndim));
}

// Where a tensor's elements begin and end. Precondition: it has some.
std::pair<const std::byte*, const std::byte*> memory_of(const Tensor& tensor) {
  const Extent extent = *byte_extent(tensor.shape(), tensor.strides(), tensor.item_size());
  return {tensor.raw() + extent.low, tensor.raw() + extent.high};
}

}  // namespace

Result<std::shared_ptr<Storage>> Storage::heap(std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(PTRDIFF_MAX) - kCacheLine) {
    return {Code::kInvalid, std::to_string(bytes) + " bytes are more than an address space holds"};
  }
  const std::size_t rounded = std::max((bytes + kCacheLine - 1) / kCacheLine * kCacheLine, kCacheLine);
  void* data = std::aligned_alloc(kCacheLine, rounded);
  if (data == nullptr) return Status::system("aligned_alloc", ENOMEM, std::to_string(bytes) + " bytes");
  return std::shared_ptr<Storage>(std::make_shared<HeapStorage>(data, bytes));
}

Result<std::shared_ptr<Storage>> Storage::borrow(void* data, std::size_t bytes,
                                                 std::shared_ptr<const void> owner) {
  if (data == nullptr && bytes != 0)
    return {Code::kInvalid, "no address for " + std::to_string(bytes) + " bytes"};
  if (reinterpret_cast<std::uintptr_t>(data) > UINTPTR_MAX - bytes) {
    return {Code::kInvalid, std::to_string(bytes) + " bytes reach beyond the address space"};
  }
  return std::shared_ptr<Storage>(std::make_shared<BorrowedStorage>(data, bytes, std::move(owner)));
}

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

Result<Tensor> Tensor::wrap(std::shared_ptr<Storage> storage, DType dtype, Dims shape,
                            std::size_t byte_offset, bool readonly) {
  if (const Result<std::int64_t> count = forklift::numel(shape); !count) return count.status();
  Dims strides = c_strides(shape);
  return wrap_strided(std::move(storage), dtype, std::move(shape), std::move(strides), byte_offset, readonly);
}

Result<Tensor> Tensor::wrap_strided(std::shared_ptr<Storage> storage, DType dtype, Dims shape, Dims strides,
                                    std::size_t byte_offset, bool readonly) {
  const std::size_t item = forklift::item_size(dtype);
  if (item == 0) return {Code::kInvalid, "no dtype " + std::to_string(static_cast<int>(dtype))};
  const std::size_t bytes = storage ? storage->bytes() : 0;
  std::int64_t count = 0;
  // Without gaps, what lies within is a matter of the number alone. Whatever is not plainly right is for the
  // general way to judge.
  if (const std::optional<std::int64_t> dense = tensor::dense_count(shape, strides);
      dense && tensor::is_within(*dense, item, byte_offset, bytes)) [[likely]] {
    count = *dense;
  } else {
    if (Status status = check_within(shape, strides, item, byte_offset, bytes); !status.ok()) return status;
    count = *forklift::numel(shape);
  }
  if (count == 0) {
    strides = c_strides(shape);  // they mean nothing: whatever came is not carried on
  } else if ((reinterpret_cast<std::uintptr_t>(storage->data()) + byte_offset) % alignment(dtype) != 0) {
    return {Code::kInvalid, std::string(name(dtype)) + " at an address that is no multiple of " +
                                std::to_string(alignment(dtype))};
  }
  return detail::TensorAccess::make(std::move(storage), byte_offset, count, std::move(shape),
                                    std::move(strides), dtype, readonly);
}

bool Tensor::is_contiguous(Order order) const noexcept {
  return order == Order::kC ? is_c_contiguous(shape_, strides_) : is_f_contiguous(shape_, strides_);
}

Status Tensor::check_access(DType wanted, bool write, bool contiguous) const {
  if (dtype_ != wanted) {
    return {Code::kInvalid, to_string() + " accessed as " + std::string(name(wanted))};
  }
  if (write && readonly_) return {Code::kInvalid, to_string() + " is read-only"};
  if (contiguous && !is_contiguous()) {
    return {Code::kInvalid, to_string() + " with strides " + strides_.to_string() + " is not contiguous"};
  }
  return {};
}

std::optional<std::int64_t> Tensor::element_offset(DimSpan index) const noexcept {
  if (index.size() != ndim()) return std::nullopt;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < index.size(); ++i) {
    const std::optional<std::size_t> at = resolve(index[i], shape_[i]);
    if (!at) return std::nullopt;
    if (*at != 0) offset += static_cast<std::int64_t>(*at) * strides_[i];
  }
  return offset;
}

// Precondition: the view's elements are some of this tensor's, so that no check can fail.
Tensor Tensor::view(Dims shape, Dims strides, std::int64_t first_element) const {
  Tensor result;
  result.storage_ = storage_;
  result.numel_ = *forklift::numel(shape);
  if (result.numel_ == 0) {
    result.offset_ = offset_;  // an empty view has no first element that could lie anywhere else
    strides = c_strides(shape);
  } else {
    // modulo 2^64: may go back
    result.offset_ = offset_ + static_cast<std::size_t>(first_element) * item_size();
  }
  result.shape_ = std::move(shape);
  result.strides_ = std::move(strides);
  result.dtype_ = dtype_;
  result.readonly_ = readonly_;
  return result;
}

Result<Tensor> Tensor::select(std::int64_t dim, std::int64_t index) const {
  const std::optional<std::size_t> d = resolve_dim(dim, ndim());
  if (!d) return no_dimension(dim, ndim());
  const std::optional<std::size_t> at = resolve(index, shape_[*d]);
  if (!at) {
    return {Code::kInvalid, "no index " + std::to_string(index) + " in dimension " + std::to_string(dim) +
                                " of " + to_string()};
  }
  const std::int64_t first = *at == 0 ? 0 : static_cast<std::int64_t>(*at) * strides_[*d];
  Dims shape = shape_;
  Dims strides = strides_;
  shape.erase(*d);
  strides.erase(*d);
  return view(std::move(shape), std::move(strides), first);
}

Result<Tensor> Tensor::narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const {
  const std::optional<std::size_t> d = resolve_dim(dim, ndim());
  if (!d) return no_dimension(dim, ndim());
  const std::int64_t from = start < 0 ? start + shape_[*d] : start;
  if (from < 0 || from > shape_[*d] || length < 0 || length > shape_[*d] - from) {
    return {Code::kInvalid, std::to_string(length) + " from " + std::to_string(start) + " in dimension " +
                                std::to_string(dim) + " of " + to_string()};
  }
  Dims shape = shape_;
  shape[*d] = length;
  return view(std::move(shape), strides_, from == 0 || length == 0 ? 0 : from * strides_[*d]);
}

Result<Tensor> Tensor::slice(std::int64_t dim, std::optional<std::int64_t> start,
                             std::optional<std::int64_t> stop, std::int64_t step) const {
  const std::optional<std::size_t> d = resolve_dim(dim, ndim());
  if (!d) return no_dimension(dim, ndim());
  if (step == 0) return {Code::kInvalid, "a slice with step 0"};
  const std::int64_t length = shape_[*d];
  const std::int64_t lowest = step < 0 ? -1 : 0;
  const std::int64_t highest = step < 0 ? length - 1 : length;
  const auto clamp = [&](std::optional<std::int64_t> bound, std::int64_t otherwise) {
    if (!bound) return otherwise;
    return std::clamp(*bound < 0 ? *bound + length : *bound, lowest, highest);
  };
  const std::int64_t first = clamp(start, step < 0 ? highest : lowest);
  const std::int64_t end = clamp(stop, step < 0 ? lowest : highest);
  // In unsigned numbers: the step may be the most negative one.
  const std::uint64_t stride =
      step < 0 ? 0 - static_cast<std::uint64_t>(step) : static_cast<std::uint64_t>(step);
  const std::int64_t distance = step < 0 ? first - end : end - first;
  const std::uint64_t count = distance <= 0 ? 0 : (static_cast<std::uint64_t>(distance) - 1) / stride + 1;

  Dims shape = shape_;
  Dims strides = strides_;
  shape[*d] = static_cast<std::int64_t>(count);
  if (count > 1) strides[*d] *= step;  // two elements that far apart exist, so it fits
  return view(std::move(shape), std::move(strides), count == 0 || first == 0 ? 0 : first * strides_[*d]);
}

Result<Tensor> Tensor::transpose(std::int64_t a, std::int64_t b) const {
  const std::optional<std::size_t> i = resolve_dim(a, ndim());
  const std::optional<std::size_t> j = resolve_dim(b, ndim());
  if (!i || !j) return no_dimension(i ? b : a, ndim());
  Dims shape = shape_;
  Dims strides = strides_;
  std::swap(shape[*i], shape[*j]);
  std::swap(strides[*i], strides[*j]);
  return view(std::move(shape), std::move(strides), 0);
}

Result<Tensor> Tensor::permute(DimSpan order) const {
  if (order.size() != ndim()) {
    return {Code::kInvalid, "an order of " + std::to_string(order.size()) + " dimensions for " + to_string()};
  }
  Dims shape = shape_;
  Dims strides = strides_;
  std::uint64_t seen = 0;  // kMaxDims is 64
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::optional<std::size_t> d = resolve_dim(order[i], ndim());
    if (!d) return no_dimension(order[i], ndim());
    if ((seen >> *d & 1) != 0) return {Code::kInvalid, "dimension " + std::to_string(order[i]) + " twice"};
    seen |= std::uint64_t{1} << *d;
    shape[i] = shape_[*d];
    strides[i] = strides_[*d];
  }
  return view(std::move(shape), std::move(strides), 0);
}

Result<Tensor> Tensor::reshape(Dims shape) const {
  const auto mismatch = [&] {
    return Status(Code::kInvalid, to_string() + " reshaped to " + shape.to_string());
  };
  if (!is_contiguous()) {
    return {Code::kInvalid,
            to_string() + " with strides " + strides_.to_string() + " is not contiguous: copy it"};
  }
  const auto open = std::find(shape.begin(), shape.end(), -1);
  if (open != shape.end()) {
    *open = 1;
    const Result<std::int64_t> rest = forklift::numel(shape);
    *open = -1;
    if (!rest || *rest == 0 || numel_ % *rest != 0) return mismatch();
    *open = numel_ / *rest;
  }
  const Result<std::int64_t> count = forklift::numel(shape);
  if (!count || *count != numel_) return mismatch();
  Dims strides = c_strides(shape);
  return view(std::move(shape), std::move(strides), 0);
}

Tensor Tensor::as_readonly() const {
  Tensor result = *this;
  result.readonly_ = true;
  return result;
}

void Tensor::fill_items(const void* item) {
  if (numel_ != 0) {
    tensor::fill_strided(raw(), tensor::byte_strides(strides_, item_size()), shape_, item, item_size());
  }
}

Status Tensor::fill_zero() {
  if (readonly_) return {Code::kInvalid, to_string() + " is read-only"};
  const std::byte zero[16] = {};
  fill_items(zero);
  return {};
}

Status Tensor::copy_from(const Tensor& source) {
  if (readonly_) return {Code::kInvalid, to_string() + " is read-only"};
  if (dtype_ != source.dtype_ || !(shape_ == source.shape_)) {
    return {Code::kInvalid, to_string() + " copied from " + source.to_string()};
  }
  if (numel_ == 0 || same_view(source)) return {};
  const std::size_t item = item_size();
  const Dims to = tensor::byte_strides(strides_, item);
  const Dims from = tensor::byte_strides(source.strides_, item);
  const auto [low, high] = memory_of(*this);
  const auto [source_low, source_high] = memory_of(source);
  if (high <= source_low || source_high <= low) {
    tensor::copy_strided(raw(), to, source.raw(), from, shape_, item);
    return {};
  }
  Result<std::shared_ptr<Storage>> between = Storage::heap(nbytes());
  if (!between) return between.status();
  const Dims dense = tensor::byte_strides(c_strides(shape_), item);
  tensor::copy_strided((*between)->data(), dense, source.raw(), from, shape_, item);
  tensor::copy_strided(raw(), to, (*between)->data(), dense, shape_, item);
  return {};
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

void detail::throw_no_item(DType wanted, DType there) {
  if (wanted == there)
    throw Error({Code::kInvalid,
                 "no such element: an index is out of range, their number is not the tensor's, "
                 "or a read-only tensor was to be written"});
  throw Error({Code::kInvalid,
               "an element as " + std::string(name(wanted)) + " of a tensor of " + std::string(name(there))});
}

}  // namespace forklift
