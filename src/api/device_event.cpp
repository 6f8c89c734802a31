#include "forklift/device_event.h"

#include <cstring>

#include "device/cuda/gpu.h"
#include "forklift/error.h"

namespace forklift::inline abi_0_1 {

using device::cuda::CudaError;
using device::cuda::Current;
using device::cuda::Gpu;
using device::cuda::Stream;

// Never destroyed before the device, which the registry keeps.
struct DeviceEvent::Impl {
  std::shared_ptr<device::Device> device;
  device::cuda::Event event = nullptr;

  explicit Impl(std::shared_ptr<device::Device> on) : device(std::move(on)) {
    if (device == nullptr || device->gpu() == nullptr)
      throw Error(Status(Code::kUnsupported, "only a GPU has events"));
    throw_if_failed(device->usable());
  }
  ~Impl() {
    if (event == nullptr || !device->usable()) return;
    const Current current(gpu().driver(), gpu().context());
    (void)gpu().driver().call("cuEventDestroy", gpu().driver().functions().event_destroy, event);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Gpu& gpu() const noexcept { return *device->gpu(); }
  // Calls a function of the driver with the device's context.
  template <class Function, class... Arguments>
  void call(const char* name, Function function, Arguments... arguments) const {
    throw_if_failed(device->usable());
    const Current current(gpu().driver(), gpu().context());
    throw_if_failed(current.status());
    throw_if_failed(gpu().driver().call(name, function, arguments...));
  }
};

DeviceEvent::DeviceEvent(std::string_view device)
    : impl_(std::make_shared<Impl>(value_or_throw(device::open(device)))) {
  using device::cuda::kEventDisableTiming;
  using device::cuda::kEventInterprocess;
  impl_->call("cuEventCreate", impl_->gpu().driver().functions().event_create, &impl_->event,
              kEventDisableTiming | kEventInterprocess);
}

DeviceEvent::DeviceEvent(const Handle& handle)
    : impl_(std::make_shared<Impl>(
          value_or_throw(device::open_gpu(value_or_throw(device::cuda::find_by_uuid(handle.device)))))) {
  device::cuda::IpcEventHandle said{};
  std::memcpy(said.bytes, handle.event.data(), sizeof said.bytes);
  impl_->call("cuIpcOpenEventHandle", impl_->gpu().driver().functions().ipc_open_event_handle, &impl_->event,
              said);
}

void DeviceEvent::record() { record(impl_->gpu().stream()); }

void DeviceEvent::record(void* stream) {
  impl_->call("cuEventRecord", impl_->gpu().driver().functions().event_record, impl_->event,
              static_cast<Stream>(stream));
}

void DeviceEvent::wait() const { wait(impl_->gpu().stream()); }

void DeviceEvent::wait(void* stream) const {
  impl_->call("cuStreamWaitEvent", impl_->gpu().driver().functions().stream_wait_event,
              static_cast<Stream>(stream), impl_->event, 0U);
}

bool DeviceEvent::done() const {
  throw_if_failed(impl_->device->usable());
  const Current current(impl_->gpu().driver(), impl_->gpu().context());
  throw_if_failed(current.status());
  const CudaError error = impl_->gpu().driver().functions().event_query(impl_->event);
  if (error == CudaError::kNotReady) return false;
  if (error != CudaError::kSuccess) throw Error(impl_->gpu().driver().failure("cuEventQuery", error));
  return true;
}

void DeviceEvent::synchronize() const {
  impl_->call("cuEventSynchronize", impl_->gpu().driver().functions().event_synchronize, impl_->event);
}

DeviceEvent::Handle DeviceEvent::handle() const {
  device::cuda::IpcEventHandle said{};
  impl_->call("cuIpcGetEventHandle", impl_->gpu().driver().functions().ipc_get_event_handle, &said,
              impl_->event);
  Handle handle{.device = impl_->gpu().uuid()};
  static_assert(sizeof handle.event == sizeof said.bytes);
  std::memcpy(handle.event.data(), said.bytes, sizeof said.bytes);
  return handle;
}

void set_device_handover(Handover handover) noexcept {
  device::set_handover_waits(handover == Handover::kWait);
}
Handover device_handover() noexcept { return device::handover_waits() ? Handover::kWait : Handover::kEvent; }

}  // namespace forklift::inline abi_0_1
