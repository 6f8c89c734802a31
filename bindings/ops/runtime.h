// _core._runtime: the executor for Python, and Python's part of a fork.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

// Makes os.fork() wait for the executor, without the interpreter lock, and raise TimeoutError instead of forking when
// that takes too long. The first call installs an audit hook; what comes later is one load. Needs the interpreter lock.
void watch_forks();

void bind_runtime(nanobind::module_& module);

}  // namespace forklift::py
