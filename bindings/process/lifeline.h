// forklift._core.lifeline(), for Python's daemons and ranks, which end with their parent (process/lifeline.h).
// The parent calls it; soften_end() is for ranks, which get SIGINT first. The child's side is in forklift.child_boot, because a daemon may need nothing else of
// Forklift. forklift.multiprocessing._start.lifeline decides which children get a lifeline.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

void bind_lifeline(nanobind::module_& module);

}  // namespace forklift::py
