// forklift._core's functions on this process's domain: joining it, inviting a child, budget, counters, audit.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

void bind_domain(nanobind::module_& module);

}  // namespace forklift::py
