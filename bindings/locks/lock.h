// Locks, semaphores, conditions, events and barriers for forklift.multiprocessing.synchronize, which gives
// them the standard library's faces.
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

// SemLockCore, LockCore and SemaphoreCore, bases of the classes in synchronize.py. -1 with an exception set.
int add_lock_types(PyObject* module);
// ConditionCore, EventCore, BarrierCore, which classes in synchronize.py hold.
void bind_waits(nanobind::module_& module);

}  // namespace forklift::py
