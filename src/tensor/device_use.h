// Another library's work on a tensor that lies on a GPU, on a stream of that library's.
//
//   Result<DeviceUse> use = DeviceUse::begin(tensor, stream);     // what is queued on `stream` from now on sees the elements
//   ...
//   // its destructor: what is queued here from now on comes after that library's work, the memory's next use included
//
// Neither end waits: an event orders the streams. Another one than the default stream may be destroyed before the end, so Forklift's
// stream then comes after all that the process has queued on the device.
//
// Thread safety: distinct objects from distinct threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "device/device.h"
#include "forklift/status.h"
#include "forklift/tensor.h"

namespace forklift::inline abi_0_1::tensor {

class DeviceUse {
 public:
  // Of no device: a tensor of the CPU.
  DeviceUse() = default;
  DeviceUse(DeviceUse&& other) noexcept = default;
  DeviceUse& operator=(DeviceUse&& other) noexcept {
    end();
    device_ = std::move(other.device_);
    stream_ = other.stream_;
    return *this;
  }
  ~DeviceUse() { end(); }

  // `stream`: as forklift::tensor::export_versioned says. kInvalid: 0, a simulated device. What the driver says.
  static Result<DeviceUse> begin(const Tensor& tensor, std::optional<std::intptr_t> stream);

  // The GPU's number; -1: the tensor is the CPU's.
  int ordinal() const noexcept;

 private:
  void end() noexcept;

  std::shared_ptr<device::Device> device_;
  std::intptr_t stream_ = -1;
};

}  // namespace forklift::inline abi_0_1::tensor
