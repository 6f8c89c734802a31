// An event on a GPU: a mark in the order of its work, which processes share.
//
//   // the producer, with set_device_handover(Handover::kEvent)
//   Tensor y = ops::exp(x);                       // queued on the GPU, not computed yet
//   DeviceEvent ready("GPU");
//   ready.record();
//   queue.put(y);                                 // returns at once
//   events.put(ready.handle());                   // Queue<DeviceEvent::Handle>
//
//   // the consumer
//   Tensor y = queue.get();
//   DeviceEvent ready(events.get());
//   ready.wait();                                 // what is queued from now on comes after it; the CPU goes on
//   Tensor z = ops::log(y);
//
// By default put() waits until what was queued for a tensor is done, and no event is needed.
//
// Ownership: an event belongs to the process that made it. Others open it by its handle, which is as long of use as the event
// lives; opening it in its own process is refused by the driver.
//
// Errors: Error with kNotFound (no such device, or one that this process cannot see), kUnsupported (a simulated device, or
// a driver without such events), kDevice; kBrokenByFork after a fork.
// Thread safety: all functions. Fork: a child has no use of it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string_view>

namespace forklift::inline abi_0_1 {

// A mark in the order of a GPU's work.
class DeviceEvent {
 public:
  // What travels.
  struct Handle {
    std::array<std::byte, 16> device{};  // its UUID
    std::array<std::byte, 64> event{};   // as the driver gives it
    bool operator==(const Handle&) const = default;
  };

  // A new event of a GPU.
  explicit DeviceEvent(std::string_view device = "GPU");
  // An event of another process.
  explicit DeviceEvent(const Handle& handle);

  // Marks what was queued so far: by Forklift, or on a stream of the driver's, which must not have been destroyed (a driver may
  // crash on its handle). The last record counts.
  void record();
  void record(void* stream);
  // What Forklift queues from now on, or what is queued on the stream, comes after the mark.
  void wait() const;
  void wait(void* stream) const;
  // Has the device come so far? True also of an event that was never recorded.
  bool done() const;
  // Waits for it.
  void synchronize() const;

  // By which another process opens it.
  Handle handle() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// What put() does with a tensor on a GPU on which work is queued.
enum class Handover : unsigned char {
  kWait,  // waits until it is done
  kEvent  // nothing: the program orders by events
};
void set_device_handover(Handover handover) noexcept;
Handover device_handover() noexcept;

}  // namespace forklift::inline abi_0_1
