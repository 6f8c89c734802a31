// Programs in any language as children, and what this one inherited as such a child.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

void bind_program(nanobind::module_& module);

}  // namespace forklift::py
