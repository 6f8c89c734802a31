// forklift._core.ProcessGroup: the ranks of spawn and start_processes (process/group.h), and what a rank sets of
// itself.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

void bind_process_group(nanobind::module_& module);

}  // namespace forklift::py
