// Invites programs in any language to be children, and opens what this process inherited as such a child.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

void bind_program(nanobind::module_& module);

}  // namespace forklift::py
