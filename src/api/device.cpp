// The functions of forklift/device.h, and where a Tensor lies.
#include "forklift/device.h"

#include "api/attached.h"
#include "device/device.h"
#include "forklift/tensor.h"
#include "ops/placement.h"
#include "tensor/device_storage.h"

namespace forklift::inline abi_0_1 {

std::vector<std::string> devices() { return device::names(); }
std::string device_target() { return device::target(); }
void set_device_target(std::string_view name) { throw_if_failed(device::set_target(name)); }

std::string Tensor::device() const {
  const std::shared_ptr<device::Device>* const device = tensor::device_of(*this);
  return device == nullptr ? std::string(device::kCpu) : (*device)->name();
}
Tensor Tensor::to(const std::string& device) const { return value_or_throw(ops::move_to(*this, device)); }

}  // namespace forklift::inline abi_0_1
