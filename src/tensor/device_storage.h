// Tensors on a device, and between devices and the CPU.
//
//   Result<Tensor> there = on_device(device, {3, 4}, DType::kFloat32);        // null device: in the arena
//   Result<Tensor> back = move_to(*there, nullptr);                           // a copy for the CPU
//
// Operations on such tensors are complete when they return. What the CPU does with elements (data(), printing, sending)
// is refused with kInvalid, naming the device; what a forked child does with a tensor of its parent's with kBrokenByFork.
//
// Thread safety: as any tensor's.
#pragma once

#include <memory>

#include "device/device.h"
#include "forklift/status.h"
#include "forklift/tensor.h"

namespace forklift::tensor {

// Null: the CPU's memory.
const std::shared_ptr<device::Device>* device_of(const Tensor& tensor) noexcept;

// New memory there, elements in C order, not cleared.
Result<Tensor> on_device(const std::shared_ptr<device::Device>& device, Dims shape, DType dtype);

// A copy of a tensor without gaps, or the tensor itself if it is there already. Precondition: contiguous.
Result<Tensor> move_to(const Tensor& tensor, const std::shared_ptr<device::Device>& device);

// May operations use it in this process? kBrokenByFork.
Status check_usable(const Tensor& tensor);

// Why the CPU cannot look at a storage of a device.
Status refuse_cpu(const Storage& storage);

}  // namespace forklift::tensor
