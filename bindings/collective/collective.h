// Collectives for Python: what forklift/collectives.py is made of.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

void bind_collectives(nanobind::module_& module);

}  // namespace forklift::py
