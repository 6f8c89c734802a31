#include "tensor/operations.h"

#include <algorithm>
#include <string>
#include <utility>

#include "tensor/access.h"
#include "tensor/copy.h"
#include "tensor/dense.h"
#include "tensor/extent.h"
#include "tensor/pending.h"
#include "tensor/storage.h"

namespace forklift::inline abi_0_1::tensor {
namespace {

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

// The first element, which may not be used before the tensor is settled.
std::byte* address_of(const Tensor& tensor) noexcept {
  return detail::StorageAccess::address(*tensor.storage()) + tensor.byte_offset();
}

// Where a tensor's elements begin and end. Precondition: it has some.
std::pair<const std::byte*, const std::byte*> memory_of(const Tensor& tensor) {
  const Extent extent = *byte_extent(tensor.shape(), tensor.strides(), tensor.item_size());
  const std::byte* const first = address_of(tensor);
  return {first + extent.low, first + extent.high};
}

// Precondition: the view's elements are some of the tensor's, so that no check can fail.
Result<Tensor> view_of(const Tensor& tensor, Dims shape, Dims strides, std::int64_t first_element) {
  const std::int64_t count = *numel(shape);
  std::size_t offset = tensor.byte_offset();
  if (count == 0) {
    strides = c_strides(shape);  // an empty view has no first element that could lie anywhere else
  } else {
    // modulo 2^64: may go back
    offset += static_cast<std::size_t>(first_element) * tensor.item_size();
  }
  return detail::TensorAccess::make(std::shared_ptr<Storage>(tensor.storage()), offset, count,
                                    std::move(shape), std::move(strides), tensor.dtype(), tensor.readonly());
}

}  // namespace

Result<Tensor> wrap(std::shared_ptr<Storage> storage, DType dtype, Dims shape, std::size_t byte_offset,
                    bool readonly) {
  if (const Result<std::int64_t> count = numel(shape); !count) return count.status();
  Dims strides = c_strides(shape);
  return wrap_strided(std::move(storage), dtype, std::move(shape), std::move(strides), byte_offset, readonly);
}

Result<Tensor> wrap_strided(std::shared_ptr<Storage> storage, DType dtype, Dims shape, Dims strides,
                            std::size_t byte_offset, bool readonly) {
  const std::size_t item = forklift::item_size(dtype);
  if (item == 0) return {Code::kInvalid, "no dtype " + std::to_string(static_cast<int>(dtype))};
  const std::size_t bytes = storage ? storage->bytes() : 0;
  std::int64_t count = 0;
  // Without gaps, what lies within is a matter of the number alone. Whatever is not plainly right is for the
  // general way to judge.
  if (const std::optional<std::int64_t> dense = dense_count(shape, strides);
      dense && is_within(*dense, item, byte_offset, bytes)) [[likely]] {
    count = *dense;
  } else {
    if (Status status = check_within(shape, strides, item, byte_offset, bytes); !status.ok()) return status;
    count = *numel(shape);
  }
  if (count == 0) {
    strides = c_strides(shape);  // they mean nothing: whatever came is not carried on
  } else if ((reinterpret_cast<std::uintptr_t>(detail::StorageAccess::address(*storage)) + byte_offset) %
                 alignment(dtype) !=
             0) {
    return {Code::kInvalid, std::string(name(dtype)) + " at an address that is no multiple of " +
                                std::to_string(alignment(dtype))};
  }
  return detail::TensorAccess::make(std::move(storage), byte_offset, count, std::move(shape),
                                    std::move(strides), dtype, readonly);
}

Status check_access(const Tensor& tensor, DType wanted, bool write, bool contiguous) {
  if (tensor.dtype() != wanted) {
    return {Code::kInvalid, tensor.to_string() + " accessed as " + std::string(name(wanted))};
  }
  if (write && tensor.readonly()) return {Code::kInvalid, tensor.to_string() + " is read-only"};
  if (contiguous && !tensor.is_contiguous()) {
    return {Code::kInvalid,
            tensor.to_string() + " with strides " + tensor.strides().to_string() + " is not contiguous"};
  }
  return settle(tensor);
}

std::optional<std::int64_t> element_offset(const Tensor& tensor, DimSpan index) noexcept {
  if (index.size() != tensor.ndim()) return std::nullopt;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < index.size(); ++i) {
    const std::optional<std::size_t> at = resolve(index[i], tensor.shape()[i]);
    if (!at) return std::nullopt;
    if (*at != 0) offset += static_cast<std::int64_t>(*at) * tensor.strides()[i];
  }
  return offset;
}

Result<Tensor> select(const Tensor& tensor, std::int64_t dim, std::int64_t index) {
  const std::optional<std::size_t> d = resolve_dim(dim, tensor.ndim());
  if (!d) return no_dimension(dim, tensor.ndim());
  const std::optional<std::size_t> at = resolve(index, tensor.shape()[*d]);
  if (!at) {
    return {Code::kInvalid, "no index " + std::to_string(index) + " in dimension " + std::to_string(dim) +
                                " of " + tensor.to_string()};
  }
  const std::int64_t first = *at == 0 ? 0 : static_cast<std::int64_t>(*at) * tensor.strides()[*d];
  Dims shape = tensor.shape();
  Dims strides = tensor.strides();
  shape.erase(*d);
  strides.erase(*d);
  return view_of(tensor, std::move(shape), std::move(strides), first);
}

Result<Tensor> narrow(const Tensor& tensor, std::int64_t dim, std::int64_t start, std::int64_t length) {
  const std::optional<std::size_t> d = resolve_dim(dim, tensor.ndim());
  if (!d) return no_dimension(dim, tensor.ndim());
  const std::int64_t from = start < 0 ? start + tensor.shape()[*d] : start;
  if (from < 0 || from > tensor.shape()[*d] || length < 0 || length > tensor.shape()[*d] - from) {
    return {Code::kInvalid, std::to_string(length) + " from " + std::to_string(start) + " in dimension " +
                                std::to_string(dim) + " of " + tensor.to_string()};
  }
  Dims shape = tensor.shape();
  shape[*d] = length;
  return view_of(tensor, std::move(shape), tensor.strides(),
                 from == 0 || length == 0 ? 0 : from * tensor.strides()[*d]);
}

Result<Tensor> slice(const Tensor& tensor, std::int64_t dim, std::optional<std::int64_t> start,
                     std::optional<std::int64_t> stop, std::int64_t step) {
  const std::optional<std::size_t> d = resolve_dim(dim, tensor.ndim());
  if (!d) return no_dimension(dim, tensor.ndim());
  if (step == 0) return {Code::kInvalid, "a slice with step 0"};
  const std::int64_t length = tensor.shape()[*d];
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

  Dims shape = tensor.shape();
  Dims strides = tensor.strides();
  shape[*d] = static_cast<std::int64_t>(count);
  if (count > 1) strides[*d] *= step;  // two elements that far apart exist, so it fits
  return view_of(tensor, std::move(shape), std::move(strides),
                 count == 0 || first == 0 ? 0 : first * tensor.strides()[*d]);
}

Result<Tensor> transpose(const Tensor& tensor, std::int64_t a, std::int64_t b) {
  const std::optional<std::size_t> i = resolve_dim(a, tensor.ndim());
  const std::optional<std::size_t> j = resolve_dim(b, tensor.ndim());
  if (!i || !j) return no_dimension(i ? b : a, tensor.ndim());
  Dims shape = tensor.shape();
  Dims strides = tensor.strides();
  std::swap(shape[*i], shape[*j]);
  std::swap(strides[*i], strides[*j]);
  return view_of(tensor, std::move(shape), std::move(strides), 0);
}

Result<Tensor> permute(const Tensor& tensor, DimSpan order) {
  if (order.size() != tensor.ndim()) {
    return {Code::kInvalid,
            "an order of " + std::to_string(order.size()) + " dimensions for " + tensor.to_string()};
  }
  Dims shape = tensor.shape();
  Dims strides = tensor.strides();
  std::uint64_t seen = 0;  // kMaxDims is 64
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::optional<std::size_t> d = resolve_dim(order[i], tensor.ndim());
    if (!d) return no_dimension(order[i], tensor.ndim());
    if ((seen >> *d & 1) != 0) return {Code::kInvalid, "dimension " + std::to_string(order[i]) + " twice"};
    seen |= std::uint64_t{1} << *d;
    shape[i] = tensor.shape()[*d];
    strides[i] = tensor.strides()[*d];
  }
  return view_of(tensor, std::move(shape), std::move(strides), 0);
}

Result<Tensor> reshape(const Tensor& tensor, Dims shape) {
  const auto mismatch = [&] {
    return Status(Code::kInvalid, tensor.to_string() + " reshaped to " + shape.to_string());
  };
  if (!tensor.is_contiguous()) {
    return {Code::kInvalid, tensor.to_string() + " with strides " + tensor.strides().to_string() +
                                " is not contiguous: copy it"};
  }
  const auto open = std::find(shape.begin(), shape.end(), -1);
  if (open != shape.end()) {
    *open = 1;
    const Result<std::int64_t> rest = numel(shape);
    *open = -1;
    if (!rest || *rest == 0 || tensor.numel() % *rest != 0) return mismatch();
    *open = tensor.numel() / *rest;
  }
  const Result<std::int64_t> count = numel(shape);
  if (!count || *count != tensor.numel()) return mismatch();
  Dims strides = c_strides(shape);
  return view_of(tensor, std::move(shape), std::move(strides), 0);
}

Status fill_elements(const Tensor& tensor, DType dtype, const void* item) {
  if (Status status = check_access(tensor, dtype, true, false); !status.ok()) return status;
  if (tensor.numel() != 0) {
    const std::size_t size = tensor.item_size();
    fill_strided(tensor.raw(), byte_strides(tensor.strides(), size), tensor.shape(), item, size);
  }
  return {};
}

Status copy_elements(const Tensor& into, const Tensor& source) {
  if (into.readonly()) return {Code::kInvalid, into.to_string() + " is read-only"};
  if (into.dtype() != source.dtype() || !(into.shape() == source.shape())) {
    return {Code::kInvalid, into.to_string() + " copied from " + source.to_string()};
  }
  if (into.numel() == 0 || into.same_view(source)) return {};
  if (Status status = settle(into); !status) return status;
  if (Status status = settle_for_reading(source); !status) return status;
  const std::size_t item = into.item_size();
  const Dims to = byte_strides(into.strides(), item);
  const Dims from = byte_strides(source.strides(), item);
  const auto [low, high] = memory_of(into);
  const auto [source_low, source_high] = memory_of(source);
  if (high <= source_low || source_high <= low) {
    copy_strided(address_of(into), to, address_of(source), from, into.shape(), item);
    return {};
  }
  Result<std::shared_ptr<Storage>> between = heap_storage(into.nbytes());
  if (!between) return between.status();
  const Dims dense = byte_strides(c_strides(into.shape()), item);
  copy_strided((*between)->data(), dense, address_of(source), from, into.shape(), item);
  copy_strided(address_of(into), to, (*between)->data(), dense, into.shape(), item);
  return {};
}

}  // namespace forklift::inline abi_0_1::tensor
