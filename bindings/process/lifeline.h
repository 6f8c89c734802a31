// forklift._core.lifeline(), for Python's daemons, which end with their parent (process/lifeline.h). The
// parent calls it. The child's side is in forklift.child_boot, because a daemon may need nothing else of
// Forklift. forklift.multiprocessing._start.lifeline decides which children get a lifeline.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

void bind_lifeline(nanobind::module_& module);

}  // namespace forklift::py
