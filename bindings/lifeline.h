// Python's daemons end with their parent (process/lifeline.h): lifeline() in the parent, end_with_parent() in
// the child. forklift.multiprocessing.lifeline says who counts as a daemon.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

void bind_lifeline(nanobind::module_& module);

}  // namespace forklift::py
