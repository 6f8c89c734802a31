// What a lock object is, for the files that implement its methods.
#pragma once

#include <Python.h>

#include "locks/mutex.h"
#include "locks/semaphore.h"

namespace forklift::py {

// Either of the two, or neither before __init__.
struct LockObject {
  PyObject ob_base;
  locks::MutexPtr mutex;
  locks::SemaphorePtr semaphore;
  // Of a semaphore: acquisitions less releases through this object by the process `counted_by`, and the
  // thread of the last acquisition.
  long count;
  std::uint64_t counted_by;
  std::uint32_t last_thread;
};

inline LockObject* as_lock(PyObject* self) { return reinterpret_cast<LockObject*>(self); }

// (block=True, timeout=None) as SemLock.acquire takes them. `block` false: `deadline` is at once.
bool parse_acquire(PyObject* const* arguments, Py_ssize_t count, PyObject* keywords, bool& block,
                   os::Deadline& deadline);
// Seconds or None. A negative time-out is "at once", one beyond 280 years without end; OSError for NaN.
bool parse_timeout(PyObject* timeout, os::Deadline& deadline);

// What is not on the way of an acquisition (lifetime.cpp).
extern PyMethodDef lock_base_methods[];
extern PyGetSetDef lock_attributes[];
PyObject* raise_not_made(PyObject* self);

}  // namespace forklift::py
