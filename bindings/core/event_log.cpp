#include "bindings/core/event_log.h"

#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>

#include "base/event_log.h"
#include "bindings/core/errors.h"

namespace nb = nanobind;

namespace forklift::py {

void bind_event_log(nb::module_& module) {
  module.def("log_events_to", [](const std::string& path) { require(open_event_log(path)); });
  module.def("event_log_on", [] { return event_log_on(); });
  module.def("log_start", [](std::int64_t pid, const std::string& name) {
    EventLine("started")("of", pid)("name", name).write();
  });
  module.def("log_end", [](std::int64_t pid, const std::string& name, std::int64_t exitcode) {
    EventLine("ended")("of", pid)("name", name)(exitcode < 0 ? "signal" : "exit_code",
                                                exitcode < 0 ? -exitcode : exitcode)
        .write();
  });
}

}  // namespace forklift::py
