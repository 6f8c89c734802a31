#include "descriptor.h"

#include "os/poll.h"
#include "sync/event.h"

namespace forklift::py {

void bind_descriptor(nanobind::module_& m) {
  m.def(
      "spin_readable", [](int fd) { return os::spin_readable(fd, sync::kSpinNs); }, nanobind::arg("fd"),
      nanobind::call_guard<nanobind::gil_scoped_release>(),
      "Look for some 20 microseconds whether the descriptor becomes readable, before one sleeps on it.");
}

}  // namespace forklift::py
