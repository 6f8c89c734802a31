// A GPU of NVIDIA's as a device for tensors: "GPU", and "GPU:1" … where there are several.
//
//   Result<std::shared_ptr<Device>> device = device::open("GPU");
//   Gpu* const gpu = (*device)->gpu();                 // null: another kind of device
//   const Current current(gpu->driver(), gpu->context());
//   driver.call("cuLaunchKernel", functions.launch_kernel, ..., gpu->stream(), ...);
//
// A process uses the device's primary context, which torch, CuPy and JAX use too, so that their memory and streams mean the
// same. Forklift's copies and operations are queued on one stream of its own, in their order; what the CPU reads waits for it.
//
// Memory comes from the driver's virtual memory (device_memory.h) and can be shared with other processes.
//
// Errors: those of driver.h. kBrokenByFork in a process that was forked after its parent opened the device.
// Thread safety: all functions.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/cuda/device_memory.h"
#include "device/cuda/driver.h"
#include "device/cuda/foreign_memory.h"
#include "device/cuda/pinned_arena.h"
#include "device/cuda/work_queue.h"
#include "device/device.h"

namespace forklift::inline abi_0_1::device::cuda {

class Gpu final : public Device {
 public:
  // The number after the driver's own order, which CUDA_VISIBLE_DEVICES rules.
  static Result<std::shared_ptr<Gpu>> open(int ordinal);
  Gpu(std::string name, const MemoryPlace& place, const Uuid& uuid);
  ~Gpu() override;

  const Driver& driver() const noexcept { return *place_.driver; }
  Context context() const noexcept { return place_.context; }
  Stream stream() const noexcept { return queue_.stream; }
  const Queue* queue() const noexcept override { return &queue_; }
  int ordinal() const noexcept { return place_.device; }
  const memory_pool::DeviceUuid& uuid() const noexcept { return uuid_; }
  const MemoryPlace& place() const noexcept { return place_; }
  DeviceMemory& memory() noexcept { return memory_; }
  Result<int> attribute(DeviceAttribute attribute) const;

  // What was queued on this device's stream is done before what is queued on `other` from now on, and the reverse. A
  // stream of the same context, or one of the driver's default streams.
  Status order_before(Stream other);
  Status order_after(Stream other);
  // After all that any stream of this process has queued on the device by now. For a stream that may have been destroyed
  // meanwhile: a driver does not refuse its handle, it crashes (seen with 580.159.04). Waits where the driver is older than 12.5.
  Status order_after_all();
  // The error that CUDA gave up with, for operations that are not checked otherwise.
  Status usable() const override;
  Status complete() override;
  // Waits for what was queued on a stream of any library of this process.
  Status wait_for(Stream other) const;
  // Waits for everything that this process has queued on the device, by whatever library.
  Status complete_all();

  Result<void*> allocate(std::size_t bytes) override;
  void free(void* memory, std::size_t bytes) noexcept override;
  Result<arena::LeasePtr> share(const void* memory, std::size_t bytes) override;
  Result<arena::LeasePtr> share_foreign(const void* memory, std::size_t bytes,
                                        const std::shared_ptr<const void>& owner) override;
  ForeignMemory& foreign() noexcept { return foreign_; }
  void leave() override;
  // What another process shared. The memory lives as long as the lease. kUnsupported: of another kind of pool.
  Result<void*> open(arena::Lease& lease);

  // Of this memory, or of parts of it: pins it in one go, where it lies in the arena (pinned_arena.h).
  void expect_copies(const void* host, std::size_t bytes);
  Status copy_in(void* to, const void* host, std::size_t bytes) override;
  Status copy_out(void* host, const void* from, std::size_t bytes) override;
  Status copy_within(void* to, const void* from, std::size_t bytes) override;

  void disown() noexcept override {}
  Gpu* gpu() noexcept override { return this; }

 private:
  Status order(Stream first, Stream then);
  template <class Record>
  Status order(const Record& record, Stream then);
  Status wait_for_stream() const;
  Result<memory_pool::Pools::Memory> import(const memory_pool::PieceInfo& info, const os::Fd& file) const;

  const MemoryPlace place_;
  const memory_pool::DeviceUuid uuid_;
  Queue queue_;
  DeviceMemory memory_;
  ForeignMemory foreign_;
};

// "GPU", "GPU:1", … as far as can be said without initialising the driver: before that, one where there may be any.
std::vector<std::string> gpu_names();
// The number that such a name means; -1: it is no GPU's name.
int ordinal_of(std::string_view name) noexcept;
std::string name_of(int ordinal);

// The number of the device with this UUID. kNotFound: this process cannot see it.
Result<int> find_by_uuid(const memory_pool::DeviceUuid& uuid);
// "GPU-01020304-0506-…", as nvidia-smi writes it.
std::string to_string(const memory_pool::DeviceUuid& uuid);

}  // namespace forklift::inline abi_0_1::device::cuda
