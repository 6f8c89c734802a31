// Python's daemons end with their parent (process/lifeline.h): lifeline() in the parent. What the child does
// is in forklift.child_boot, since a daemon may need nothing else. forklift.multiprocessing._start.lifeline says who
// counts.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

void bind_lifeline(nanobind::module_& module);

}  // namespace forklift::py
