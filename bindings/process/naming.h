// Domains with names: serving, attaching, publishing.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

void bind_meeting(nanobind::module_& module);

}  // namespace forklift::py
