// Locks, semaphores, conditions, events and barriers for forklift.multiprocessing.synchronize, whose classes
// have the standard library's interface.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

// Adds SemLockCore, LockCore and SemaphoreCore, from which the classes in synchronize.py derive. 0 on
// success, -1 with an exception set.
int add_lock_types(PyObject* module);
// Adds ConditionCore, EventCore and BarrierCore, which the classes in synchronize.py hold as `_core`.
void bind_waits(nanobind::module_& module);

}  // namespace forklift::py
