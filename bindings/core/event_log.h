// The event log (base/event_log.h) for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

void bind_event_log(nanobind::module_& module);

}  // namespace forklift::py
