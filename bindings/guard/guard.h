// forklift._core._guard: what the room guard knows of this process before a fork, and of a child that hangs.
// forklift.fork decides what is made of it.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

void bind_guard(nanobind::module_& module);

}  // namespace forklift::py
