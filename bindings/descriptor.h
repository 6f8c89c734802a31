// Descriptors of Python objects: waiting on them.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

void bind_descriptor(nanobind::module_& m);

}  // namespace forklift::py
