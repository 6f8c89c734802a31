#include "tensor/dlpack.h"

#include "forklift/error.h"

namespace forklift::inline abi_0_1::dlpack {

ManagedTensorVersioned* export_versioned(const Tensor& tensor, bool copied) {
  return value_or_throw(tensor::export_versioned(tensor, copied));
}
ManagedTensor* export_legacy(const Tensor& tensor) { return value_or_throw(tensor::export_legacy(tensor)); }
Tensor import_versioned(ManagedTensorVersioned* managed) {
  return value_or_throw(tensor::import_versioned(managed));
}
Tensor import_legacy(ManagedTensor* managed) { return value_or_throw(tensor::import_legacy(managed)); }

}  // namespace forklift::inline abi_0_1::dlpack
