// Where the result of an operation lies: on the device of its operands.
//
//   Result<Place> place = place_of("add", {&a, &b});
//   Result<Tensor> result = place->make(shape, dtype);
//
// Thread safety: pure functions.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "forklift/tensor.h"
#include "tensor/device_storage.h"

namespace forklift::inline abi_0_1::ops {

class Place {
 public:
  explicit Place(std::shared_ptr<device::Device> device) noexcept : device_(std::move(device)) {}
  Result<Tensor> make(Dims shape, DType dtype) const {
    return tensor::on_device(device_, std::move(shape), dtype);
  }

 private:
  std::shared_ptr<device::Device> device_;
};

// Null pointers are numbers, which fit anywhere. Without any tensor: where new tensors are made. kInvalid: tensors of
// two devices. kBrokenByFork: a device of this process's parent.
Result<Place> place_of(std::string_view name, std::initializer_list<const Tensor*> tensors);

// A copy there, or the tensor itself.
Result<Tensor> move_to(const Tensor& tensor, std::string_view device);

// To where new tensors are made.
Result<Tensor> move_to_target(const Tensor& tensor);

}  // namespace forklift::inline abi_0_1::ops
