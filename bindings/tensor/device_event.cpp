// forklift.DeviceEvent: forklift/device_event.h for Python. In a message it travels as its handle.
#include "forklift/device_event.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <optional>
#include <string>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/tensor/tensor.h"
#include "forklift/error.h"

namespace nb = nanobind;

namespace forklift::py {
namespace {

struct EventBox {
  explicit EventBox(DeviceEvent made) : event(std::move(made)) {}
  DeviceEvent event;
};

// Without the interpreter lock: the driver may take its time. Failures are raised.
template <class Action>
auto call(Action&& action) {
  Status failure;
  {
    GilRelease released;
    try {
      if constexpr (std::is_void_v<decltype(action())>) {
        action();
        return;
      } else {
        return action();
      }
    } catch (const Error& error) {
      failure = error.status();
    }
  }
  require(failure);
  __builtin_unreachable();
}

void* stream_of(std::uintptr_t number) noexcept { return reinterpret_cast<void*>(number); }

}  // namespace

void bind_device_event(nb::module_& module) {
  nb::class_<EventBox> type(module, "DeviceEvent",
                            "A mark in the order of a GPU's work, which processes share.");
  type.attr("__module__") = "forklift";
  type.def(
          "__init__",
          [](EventBox* self, const std::string& device) {
            new (self) EventBox(call([&] { return DeviceEvent(device); }));
          },
          nb::arg("device") = "GPU")
      .def(
          "record",
          [](EventBox& self, std::optional<std::uintptr_t> stream) {
            call([&] { stream ? self.event.record(stream_of(*stream)) : self.event.record(); });
          },
          nb::arg("stream") = nb::none())
      .def(
          "wait",
          [](const EventBox& self, std::optional<std::uintptr_t> stream) {
            call([&] { stream ? self.event.wait(stream_of(*stream)) : self.event.wait(); });
          },
          nb::arg("stream") = nb::none())
      .def("done", [](const EventBox& self) { return call([&] { return self.event.done(); }); })
      .def("synchronize", [](const EventBox& self) { call([&] { self.event.synchronize(); }); })
      .def("__reduce__", [](const EventBox& self) {
        const DeviceEvent::Handle handle = call([&] { return self.event.handle(); });
        PyObject* const rebuild = import_attribute("forklift.reducers", "rebuild_device_event");
        if (!rebuild) throw nb::python_error();
        return nb::make_tuple(
            nb::steal(rebuild),
            nb::make_tuple(nb::bytes(reinterpret_cast<const char*>(&handle), sizeof handle)));
      });
  module.def("_open_device_event", [](const nb::bytes& bytes) {
    DeviceEvent::Handle handle;
    if (bytes.size() != sizeof handle) throw nb::value_error("no handle of an event");
    std::memcpy(&handle, bytes.c_str(), sizeof handle);
    return EventBox(call([&] { return DeviceEvent(handle); }));
  });
}

}  // namespace forklift::py
