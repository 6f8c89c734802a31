// forklift._core._torch: the functions that forklift.adapters.torch is made of.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

void bind_torch(nanobind::module_& module);

}  // namespace forklift::py
