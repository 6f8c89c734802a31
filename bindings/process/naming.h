// Named domains for forklift.objects.naming: serving, attaching, publishing.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

void bind_naming(nanobind::module_& module);

}  // namespace forklift::py
