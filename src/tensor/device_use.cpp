#include "tensor/device_use.h"

#include <string>

#include "device/cuda/gpu.h"
#include "tensor/device_storage.h"

namespace forklift::inline abi_0_1::tensor {
namespace {

// The driver takes the same numbers for its two default streams.
device::cuda::Stream stream_of(std::intptr_t number) noexcept {
  return reinterpret_cast<device::cuda::Stream>(number);
}

}  // namespace

Result<DeviceUse> DeviceUse::begin(const Tensor& tensor, std::optional<std::intptr_t> stream) {
  DeviceUse use;
  const std::shared_ptr<device::Device>* const device = device_of(tensor);
  if (device == nullptr) return use;
  if ((*device)->gpu() == nullptr) return refuse_cpu(*tensor.storage());
  if (Status status = check_usable(tensor); !status) return status;
  if (stream == 0)
    return Status(
        Code::kInvalid,
        "stream 0 of a DLPack exchange is ambiguous: 1 is the default stream, 2 that of each thread");
  use.stream_ = stream.value_or(static_cast<std::intptr_t>(device::cuda::kLegacyStreamNumber));
  if (use.stream_ != -1) {
    if (Status ordered = (*device)->gpu()->order_before(stream_of(use.stream_)); !ordered) {
      use.stream_ = -1;
      return ordered;
    }
  }
  use.device_ = *device;
  return use;
}

int DeviceUse::ordinal() const noexcept { return device_ == nullptr ? -1 : device_->gpu()->ordinal(); }

void DeviceUse::end() noexcept {
  if (device_ == nullptr) return;
  device::cuda::Gpu& gpu = *device_->gpu();
  // Only the legacy default stream is there for certain: another one may be destroyed by now, or be that of another thread. Of a
  // consumer that wanted no order nothing is known but that it is on this device.
  if (gpu.usable()) {
    const Status ordered = stream_ == static_cast<std::intptr_t>(device::cuda::kLegacyStreamNumber)
                               ? gpu.order_after(stream_of(stream_))
                               : gpu.order_after_all();
    if (!ordered) (void)gpu.complete_all();
  }
  device_.reset();
}

}  // namespace forklift::inline abi_0_1::tensor
