// The members of Tensor and Storage that throw. What they do is in the tensor room.
#include "forklift/tensor.h"

#include <string>
#include <utility>

#include "api/attached.h"
#include "ops/elementwise.h"
#include "tensor/arena_storage.h"
#include "tensor/operations.h"
#include "tensor/storage.h"

namespace forklift::inline abi_0_1 {

std::shared_ptr<Storage> Storage::heap(std::size_t bytes) {
  return value_or_throw(tensor::heap_storage(bytes));
}
std::shared_ptr<Storage> Storage::borrow(void* data, std::size_t bytes, std::shared_ptr<const void> owner) {
  return value_or_throw(tensor::borrowed_storage(data, bytes, std::move(owner)));
}

Tensor Tensor::empty(const Dims& shape, DType dtype) {
  return value_or_throw(tensor::in_arena(shape, dtype, false));
}
Tensor Tensor::zeros(const Dims& shape, DType dtype) {
  return value_or_throw(tensor::in_arena(shape, dtype, true));
}
Tensor Tensor::wrap(std::shared_ptr<Storage> storage, DType dtype, Dims shape, std::size_t byte_offset,
                    bool readonly) {
  return value_or_throw(tensor::wrap(std::move(storage), dtype, std::move(shape), byte_offset, readonly));
}
Tensor Tensor::wrap_strided(std::shared_ptr<Storage> storage, DType dtype, Dims shape, Dims strides,
                            std::size_t byte_offset, bool readonly) {
  return value_or_throw(tensor::wrap_strided(std::move(storage), dtype, std::move(shape), std::move(strides),
                                             byte_offset, readonly));
}

Tensor Tensor::select(std::int64_t dim, std::int64_t index) const {
  return value_or_throw(tensor::select(*this, dim, index));
}
Tensor Tensor::narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const {
  return value_or_throw(tensor::narrow(*this, dim, start, length));
}
Tensor Tensor::slice(std::int64_t dim, std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
                     std::int64_t step) const {
  return value_or_throw(tensor::slice(*this, dim, start, stop, step));
}
Tensor Tensor::transpose(std::int64_t a, std::int64_t b) const {
  return value_or_throw(tensor::transpose(*this, a, b));
}
Tensor Tensor::permute(DimSpan order) const { return value_or_throw(tensor::permute(*this, order)); }
Tensor Tensor::reshape(Dims shape) const { return value_or_throw(tensor::reshape(*this, std::move(shape))); }

void Tensor::fill_zero() {
  const std::byte zero[16] = {};
  fill_elements(dtype(), zero);
}
void Tensor::fill_elements(DType dtype, const void* item) { throw_if_failed(ops::fill(*this, dtype, item)); }
void Tensor::copy_from(const Tensor& source) { throw_if_failed(ops::copy(*this, source)); }

void Tensor::check_access(DType wanted, bool write, bool contiguous) const {
  throw_if_failed(tensor::check_access(*this, wanted, write, contiguous));
}

std::int64_t Tensor::element_offset(DimSpan index) const {
  const std::optional<std::int64_t> offset = tensor::element_offset(*this, index);
  if (!offset) throw Error({Code::kInvalid, "no element " + Dims(index).to_string() + " in " + to_string()});
  return *offset;
}

namespace detail {

void check_rank(const Tensor& tensor, std::size_t rank) {
  if (tensor.ndim() != rank)
    throw Error(
        {Code::kInvalid, "a view of " + std::to_string(rank) + " dimensions of " + tensor.to_string()});
}

void throw_no_index(std::size_t dim, std::int64_t index, std::int64_t extent) {
  throw Error({Code::kInvalid, "no index " + std::to_string(index) + " in dimension " + std::to_string(dim) +
                                   " of length " + std::to_string(extent)});
}

}  // namespace detail

}  // namespace forklift::inline abi_0_1
