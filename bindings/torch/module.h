// What forklift.adapters.torch needs of the mechanics: forklift._core._torch.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

void bind_torch(nanobind::module_& module);

}  // namespace forklift::py
