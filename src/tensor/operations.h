// Tensors over memory, parts of tensors and copies between them: what the members of forklift/tensor.h do, as Results.
//
//   Result<Tensor> image = wrap(storage, DType::kFloat32, {480, 640});
//   Result<Tensor> row = select(*image, 0, 3);
//
// Errors: kInvalid, with the values that were involved.
// Thread safety: as Tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "forklift/status.h"
#include "forklift/tensor.h"

namespace forklift::inline abi_0_1::tensor {

Result<Tensor> wrap(std::shared_ptr<Storage> storage, DType dtype, Dims shape, std::size_t byte_offset = 0,
                    bool readonly = false);
Result<Tensor> wrap_strided(std::shared_ptr<Storage> storage, DType dtype, Dims shape, Dims strides,
                            std::size_t byte_offset = 0, bool readonly = false);

Result<Tensor> select(const Tensor& tensor, std::int64_t dim, std::int64_t index);
Result<Tensor> narrow(const Tensor& tensor, std::int64_t dim, std::int64_t start, std::int64_t length);
Result<Tensor> slice(const Tensor& tensor, std::int64_t dim, std::optional<std::int64_t> start,
                     std::optional<std::int64_t> stop, std::int64_t step);
Result<Tensor> transpose(const Tensor& tensor, std::int64_t a, std::int64_t b);
Result<Tensor> permute(const Tensor& tensor, DimSpan order);
Result<Tensor> reshape(const Tensor& tensor, Dims shape);

// Sets every element. kInvalid: `item` is of another type than the elements, or they are read-only.
Status fill_elements(const Tensor& tensor, DType dtype, const void* item);
template <Element T>
Status fill_elements(const Tensor& tensor, const T& item) {
  return fill_elements(tensor, dtype_of<T>(), &item);
}

// Of the same dtype and shape; the two may overlap.
Status copy_elements(const Tensor& into, const Tensor& source);

// May its elements be accessed as this dtype?
Status check_access(const Tensor& tensor, DType wanted, bool write, bool contiguous);
// In elements, from the first one. Nothing: there is no such element.
std::optional<std::int64_t> element_offset(const Tensor& tensor, DimSpan index) noexcept;

}  // namespace forklift::inline abi_0_1::tensor
