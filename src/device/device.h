// Places where tensors lie and are computed, besides the CPU and the arena.
//
//   Result<std::shared_ptr<Device>> gpu = device::open("GPU");
//   Result<void*> memory = (*gpu)->allocate(1 << 20);
//   Result<arena::LeasePtr> lease = (*gpu)->share(*memory, 1 << 20);      // travels in a message
//   ...
//   Result<Opened> there = device::open_shared(*incoming.leases()[0]);    // in the receiver
//
// A process opens a device when it first needs it, and holds it until it ends. A forked child holds none of its
// parent's: usable() is false there of every device that was open, their memory is not mapped, and the target is the CPU.
//
// Errors: kNotFound names the devices that there are; kRefused: another process holds the device; kUnsupported: its
// memory cannot be shared; kSystem; kDevice: its driver failed.
// Thread safety: yes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arena/lease.h"
#include "forklift/status.h"

namespace forklift::inline abi_0_1::device {

namespace cuda {
class Gpu;     // device/cuda/gpu.h
struct Queue;  // device/cuda/work_queue.h
}  // namespace cuda

inline constexpr std::string_view kCpu = "CPU";

class Device {
 public:
  explicit Device(std::string name) : name_(std::move(name)) {}
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const noexcept { return name_; }

  // May this process use it? kBrokenByFork: its parent opened it, and this process was forked from it. kDevice: its
  // driver gave up.
  virtual Status usable() const = 0;
  // Waits until everything that was queued on the device is done.
  virtual Status complete() { return {}; }

  // Memory that only this process, and only through the device, may touch.
  virtual Result<void*> allocate(std::size_t bytes) = 0;
  virtual void free(void* memory, std::size_t bytes) noexcept = 0;

  // A lease on memory that allocate() has returned, by which other processes get at it. The first lease on it makes it
  // shared: it is given out again when no process holds a lease any more.
  virtual Result<arena::LeasePtr> share(const void* memory, std::size_t bytes);
  // The same of memory of the device that another library of this process has allocated. `owner` keeps it, here for as long
  // as any process holds the lease.
  virtual Result<arena::LeasePtr> share_foreign(const void* memory, std::size_t bytes,
                                                const std::shared_ptr<const void>& owner);
  // Before this process ends: others may still want memory that ends with it.
  virtual void leave() {}

  // In a forked child: gives up what the child has inherited of the parent's claim.
  virtual void disown() noexcept = 0;

  // The first two are done when they return.
  virtual Status copy_in(void* to, const void* host, std::size_t bytes) = 0;
  virtual Status copy_out(void* host, const void* from, std::size_t bytes) = 0;
  virtual Status copy_within(void* to, const void* from, std::size_t bytes) = 0;

  // Null: it is no GPU, and the executor computes on its memory.
  virtual cuda::Gpu* gpu() noexcept { return nullptr; }

  // Where operations on its tensors are queued, if it is a GPU. Null: the CPU computes them in the device's memory.
  // Memory may be freed while queued work uses it: what is allocated there next is used by later work only.
  virtual const cuda::Queue* queue() const noexcept { return nullptr; }

 private:
  const std::string name_;
};

// "CPU" and whatever else there is.
std::vector<std::string> names();

// The device of that name, which this process holds from then on. Null: the CPU, which needs no opening.
Result<std::shared_ptr<Device>> open(std::string_view name);

// A GPU by its number in the driver's order. kUnsupported: its name means a simulated device.
Result<std::shared_ptr<Device>> open_gpu(int ordinal);

// Memory of a device that another process shared (or this one), and its device, which this process opens for it.
struct Opened {
  std::shared_ptr<Device> device;
  void* memory = nullptr;
};
// The memory is there as long as the lease. kNotFound: this process cannot see the device; kPeerDied, kStalled: the
// broker that keeps the memory (memory_pool/pools.h).
Result<Opened> open_shared(arena::Lease& lease);

// kPeerDied: the memory of a received lease went with the process that it belonged to.
Status check_origin(const arena::Lease& lease);

// Before this process ends, or calls _exit(): leaves all devices that it has opened. What leave() finds nothing to do for
// costs nothing; it may be called again.
void leave();

// Does sending a tensor wait for what is queued on its device? It does, unless the program orders by events of its own.
void set_handover_waits(bool waits) noexcept;
bool handover_waits() noexcept;

// Where new tensors are made: at first what FORKLIFT_DEVICE_TARGET says, or the CPU. kNotFound. The device itself is
// opened by the first tensor.
Status set_target(std::string_view name);
std::string target();
// Is it the CPU? Cheaper than asking for the name.
bool targets_cpu() noexcept;

}  // namespace forklift::inline abi_0_1::device
