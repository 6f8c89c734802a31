#include "ops/placement.h"

#include "ops/elementwise.h"

namespace forklift::inline abi_0_1::ops {
namespace {

std::string name_of(const std::shared_ptr<device::Device>* device) {
  return device == nullptr ? std::string(device::kCpu) : (*device)->name();
}

}  // namespace

Result<Place> place_of(std::string_view name, std::initializer_list<const Tensor*> tensors) {
  const Tensor* first = nullptr;
  for (const Tensor* const tensor : tensors) {
    if (tensor == nullptr) continue;
    if (first == nullptr) {
      first = tensor;
      if (Status status = tensor::check_usable(*tensor); !status) return status;
      continue;
    }
    const std::shared_ptr<device::Device>* const one = tensor::device_of(*first);
    const std::shared_ptr<device::Device>* const other = tensor::device_of(*tensor);
    if (one == other || (one != nullptr && other != nullptr && *one == *other)) continue;
    return {Code::kInvalid, std::string(name) + ": a tensor on " + name_of(one) + " and one on " +
                                name_of(other) + "; copy one of them with to()"};
  }
  if (first != nullptr) {
    const std::shared_ptr<device::Device>* const device = tensor::device_of(*first);
    return Place(device == nullptr ? nullptr : *device);
  }
  if (device::targets_cpu()) return Place(nullptr);
  Result<std::shared_ptr<device::Device>> device = device::open(device::target());
  if (!device) return device.status();
  return Place(*std::move(device));
}

Result<Tensor> move_to(const Tensor& tensor, std::string_view name) {
  Result<std::shared_ptr<device::Device>> device = device::open(name);
  if (!device) return device.status();
  if (tensor.is_contiguous()) return tensor::move_to(tensor, *device);
  Result<Tensor> dense = convert(tensor, tensor.dtype());
  return dense ? tensor::move_to(*dense, *device) : dense;
}

Result<Tensor> move_to_target(const Tensor& tensor) {
  return device::targets_cpu() ? Result<Tensor>(tensor) : move_to(tensor, device::target());
}

}  // namespace forklift::inline abi_0_1::ops
