// Tensors on a device, and between devices and the CPU.
//
//   Result<Tensor> there = on_device(device, {3, 4}, DType::kFloat32);        // null device: in the arena
//   Result<Tensor> back = move_to(*there, nullptr);                           // a copy for the CPU
//
// What the CPU does with elements (data()) is refused with kInvalid, naming the device; what a forked child does with a
// tensor of its parent's with kBrokenByFork.
//
// Memory of a GPU travels to other processes as a handle, as memory of the arena does: share_device_memory() gives the lease,
// and received_on_device() makes the storage in the receiver.
//
// Thread safety: as any tensor's.
#pragma once

#include <memory>

#include "arena/lease.h"
#include "device/device.h"
#include "forklift/status.h"
#include "forklift/tensor.h"

namespace forklift::inline abi_0_1::tensor {

// Null: the CPU's memory.
const std::shared_ptr<device::Device>* device_of(const Tensor& tensor) noexcept;

// New memory there, elements in C order, not cleared.
Result<Tensor> on_device(const std::shared_ptr<device::Device>& device, Dims shape, DType dtype);

// A copy of a tensor without gaps, or the tensor itself if it is there already. Precondition: contiguous.
Result<Tensor> move_to(const Tensor& tensor, const std::shared_ptr<device::Device>& device);

// The lease of memory on a device, which it gets when it is first sent. What was queued for it is done then, unless the
// program orders by events (device::handover_waits). kInvalid: a
// device whose memory belongs to one process.
Result<const arena::LeasePtr*> share_device_memory(const Storage& storage);

// A lease on memory of the GPU with that number, of whatever library of this process, and where the memory begins in the
// lease's. What was queued on `stream` is done then, or comes first, as in share_device_memory(). `owner` keeps memory that is
// not Forklift's for as long as any process holds it.
struct SharedPart {
  arena::LeasePtr lease;
  std::size_t begin = 0;
};
Result<SharedPart> share_part(int ordinal, void* memory, std::size_t bytes, std::uintptr_t stream,
                              const std::shared_ptr<const void>& owner);

// The number of the GPU on which a storage lies; -1: on none.
int gpu_of(const Storage& storage) noexcept;

// Memory of another library of this process, on the GPU with that number. `owner` keeps it.
Result<std::shared_ptr<Storage>> foreign_on_device(int ordinal, void* memory, std::size_t bytes,
                                                   std::shared_ptr<const void> owner);

// The storage of this library in which that memory lies, if it was allocated by it or received. Null: neither.
std::shared_ptr<Storage> find_on_device(const void* memory, std::size_t bytes);

// What a receiver makes of a lease on a piece of a memory pool.
Result<std::shared_ptr<Storage>> received_on_device(arena::LeasePtr lease);

// May operations use it in this process? kBrokenByFork; kPeerDied: the memory went with the process that it belonged to.
Status check_usable(const Tensor& tensor);

// Why the CPU cannot look at a storage of a device.
Status refuse_cpu(const Storage& storage);

}  // namespace forklift::inline abi_0_1::tensor
