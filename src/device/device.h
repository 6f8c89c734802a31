// Places where tensors lie and are computed, besides the CPU and the arena.
//
//   Result<std::shared_ptr<Device>> ascend = device::open("Ascend");
//   Result<void*> memory = (*ascend)->allocate(1 << 20);
//
// A process opens a device when it first needs it, and holds it until it ends. A forked child holds none of its
// parent's: usable() is false there of every device that was open, their memory is not mapped, and the target is the CPU.
//
// Errors: kNotFound names the devices that there are; kRefused: another process holds the device; kSystem.
// Thread safety: yes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "forklift/status.h"

namespace forklift::device {

namespace cuda {
struct Queue;  // device/cuda/work_queue.h
}

inline constexpr std::string_view kCpu = "CPU";

class Device {
 public:
  explicit Device(std::string name) : name_(std::move(name)) {}
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const noexcept { return name_; }

  // Does this process hold it? Ok, or kBrokenByFork: its parent does, and this process was forked from it.
  virtual Status usable() const = 0;

  // Memory that only this process, and only through the device, may touch.
  virtual Result<void*> allocate(std::size_t bytes) = 0;
  virtual void free(void* memory, std::size_t bytes) noexcept = 0;

  // In a forked child: gives up what the child has inherited of the parent's claim.
  virtual void disown() noexcept = 0;

  virtual void copy_in(void* to, const void* host, std::size_t bytes) const = 0;
  virtual void copy_out(void* host, const void* from, std::size_t bytes) const = 0;

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

// Where new tensors are made. kNotFound. The device itself is opened by the first tensor.
Status set_target(std::string_view name);
std::string target();
// Is it the CPU? Cheaper than asking for the name.
bool targets_cpu() noexcept;

}  // namespace forklift::device
