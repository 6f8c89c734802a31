// The layout of a lock object, for the files that implement its methods.
#pragma once

#include <Python.h>

#include "locks/mutex.h"
#include "locks/semaphore.h"

namespace forklift::py {

// Has either a mutex or a semaphore; before __init__, neither.
struct LockObject {
  PyObject ob_base;
  locks::MutexPtr mutex;
  locks::SemaphorePtr semaphore;
  // For a semaphore: acquisitions minus releases through this object by the process `counted_by`, and the
  // thread of the last acquisition.
  long count;
  std::uint64_t counted_by;
  std::uint32_t last_thread;
  // May be passed to forked children only. Here, since an instance that has an attribute of Python's own has a
  // dictionary for it.
  bool for_forks;
};

inline LockObject* as_lock(PyObject* self) { return reinterpret_cast<LockObject*>(self); }

// Parses (block=True, timeout=None) as SemLock.acquire does. If `block` is false, `deadline` has passed
// already. False with an exception set.
bool parse_acquire(PyObject* const* arguments, Py_ssize_t count, PyObject* keywords, bool& block,
                   os::Deadline& deadline);
// Parses a time-out: a number of seconds, or None, which leaves `deadline` as it is. A negative number means
// "do not wait", one above 280 years "without end". False with an exception set; NaN raises OSError.
bool parse_timeout(PyObject* timeout, os::Deadline& deadline);

// Defined in lifetime.cpp: everything but acquire and release.
extern PyMethodDef lock_base_methods[];
extern PyGetSetDef lock_attributes[];
PyObject* raise_not_made(PyObject* self);

}  // namespace forklift::py
