// Acquire and release: C functions that release the interpreter lock only to wait.
#include "bindings/locks/lock.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <new>
#include <utility>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/locks/object.h"

namespace forklift::py {

namespace {

using locks::Released;
using locks::Took;

// Emits AbandonedLockWarning to the acquirer. If a filter turns the warning into an exception, releases the
// lock before the exception is raised.
PyObject* warn_abandoned(PyObject* self) {
  PyObject* category = import_attribute("forklift.errors", "AbandonedLockWarning");
  const int refused =
      !category || PyErr_WarnFormat(category, 1,
                                    "%R was taken over: the process that held it died; what it guards may be "
                                    "half changed",
                                    self) != 0;
  Py_XDECREF(category);
  if (!refused) Py_RETURN_TRUE;
  const KeepError kept;
  as_lock(self)->mutex->release();
  return nullptr;
}

PyObject* wait_for_lock(PyObject* self, os::Deadline deadline) {
  const locks::MutexPtr mutex = as_lock(self)->mutex;
  Took how = Took::kNo;
  GilRelease released;
  PyHooks hooks(released);
  const Status status = mutex->acquire(deadline, &hooks, how);
  released.acquire();
  if (status) return how == Took::kAbandoned ? warn_abandoned(self) : Py_NewRef(Py_True);
  if (status.code() == Code::kTimeout) Py_RETURN_FALSE;
  return raise(status);
}

PyObject* take_lock(PyObject* self, os::Deadline deadline) {
  switch (as_lock(self)->mutex->try_before_waiting()) {
    case Took::kYes: Py_RETURN_TRUE;
    case Took::kAbandoned: return warn_abandoned(self);
    case Took::kNo: break;
  }
  return wait_for_lock(self, deadline);
}

PyObject* lock_acquire(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  if (!as_lock(self)->mutex) [[unlikely]]
    return raise_not_made(self);
  bool block = true;
  os::Deadline deadline = os::Deadline::never();
  if ((count != 0 || keywords) && !parse_acquire(arguments, count, keywords, block, deadline)) return nullptr;
  return take_lock(self, deadline);
}

PyObject* lock_enter(PyObject* self, PyObject*) {
  if (!as_lock(self)->mutex) [[unlikely]]
    return raise_not_made(self);
  return take_lock(self, os::Deadline::never());
}

PyObject* lock_release(PyObject* self, PyObject*) {
  if (!as_lock(self)->mutex) [[unlikely]]
    return raise_not_made(self);
  switch (as_lock(self)->mutex->release()) {
    case Released::kYes: Py_RETURN_NONE;
    case Released::kNotHeld:
      PyErr_SetString(PyExc_ValueError, "semaphore or lock released too many times");
      return nullptr;
    case Released::kNotOwner:
      PyErr_SetString(PyExc_AssertionError, "attempt to release recursive lock not owned by thread");
      return nullptr;
    case Released::kNotAttached: break;
  }
  return raise(as_lock(self)->mutex->table().domain().not_attached());
}

PyObject* lock_exit(PyObject* self, PyObject* const*, Py_ssize_t) { return lock_release(self, nullptr); }

// --- semaphores

void count_one(LockObject* lock, long change) {
  const std::uint64_t here = lock->semaphore->table().process();
  if (lock->counted_by != here) {
    lock->counted_by = here;
    lock->count = 0;
  }
  lock->count += change;
}

PyObject* taken_one(LockObject* lock) {
  count_one(lock, 1);
  lock->last_thread = os::thread_id();
  Py_RETURN_TRUE;
}

PyObject* take_unit(PyObject* self, os::Deadline deadline) {
  LockObject* lock = as_lock(self);
  const locks::SemaphorePtr semaphore = lock->semaphore;
  if (!semaphore->recovers()) [[likely]] {
    bool taken = false;
    if (const Status status = semaphore->try_before_waiting(taken); !status) return raise(status);
    if (taken) return taken_one(lock);
  }
  GilRelease released;
  PyHooks hooks(released);
  const Status status = semaphore->acquire(deadline, &hooks);
  released.acquire();
  if (status) return taken_one(lock);
  if (status.code() == Code::kTimeout) Py_RETURN_FALSE;
  return raise(status);
}

PyObject* semaphore_acquire(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                            PyObject* keywords) {
  if (!as_lock(self)->semaphore) [[unlikely]]
    return raise_not_made(self);
  bool block = true;
  os::Deadline deadline = os::Deadline::never();
  if ((count != 0 || keywords) && !parse_acquire(arguments, count, keywords, block, deadline)) return nullptr;
  return take_unit(self, deadline);
}

PyObject* semaphore_enter(PyObject* self, PyObject*) {
  if (!as_lock(self)->semaphore) [[unlikely]]
    return raise_not_made(self);
  return take_unit(self, os::Deadline::never());
}

PyObject* semaphore_release(PyObject* self, PyObject*) {
  LockObject* lock = as_lock(self);
  if (!lock->semaphore) [[unlikely]]
    return raise_not_made(self);
  Status status;
  if (lock->semaphore->recovers()) {
    const locks::SemaphorePtr semaphore = lock->semaphore;
    const GilRelease released;
    status = semaphore->release();
  } else {
    status = lock->semaphore->release();
  }
  if (status.code() == Code::kInvalid) {
    PyErr_SetString(PyExc_ValueError, "semaphore or lock released too many times");
    return nullptr;
  }
  if (!status) return raise(status);
  count_one(lock, -1);
  Py_RETURN_NONE;
}

PyObject* semaphore_exit(PyObject* self, PyObject* const*, Py_ssize_t) {
  return semaphore_release(self, nullptr);
}

// --- a lock or a semaphore, for the class SemLock itself

PyObject* any_acquire(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  return as_lock(self)->mutex ? lock_acquire(self, arguments, count, keywords)
                              : semaphore_acquire(self, arguments, count, keywords);
}
PyObject* any_enter(PyObject* self, PyObject* unused) {
  return as_lock(self)->mutex ? lock_enter(self, unused) : semaphore_enter(self, unused);
}
PyObject* any_release(PyObject* self, PyObject* unused) {
  return as_lock(self)->mutex ? lock_release(self, unused) : semaphore_release(self, unused);
}
PyObject* any_exit(PyObject* self, PyObject* const*, Py_ssize_t) { return any_release(self, nullptr); }

template <class Function>
PyCFunction method(Function function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

constexpr const char* kAcquire =
    "acquire($self, /, block=True, timeout=None)\n--\n\n"
    "Acquire the semaphore/lock. Wait for at most timeout seconds (None: without end), or not at all if\n"
    "block is false. Returns whether it was acquired.";
constexpr const char* kRelease = "release($self, /)\n--\n\nRelease the semaphore/lock.";

template <auto Acquire, auto Release, auto Enter, auto Exit>
PyMethodDef* hot_methods() {
  static PyMethodDef methods[] = {
      {"acquire", method(Acquire), METH_FASTCALL | METH_KEYWORDS, kAcquire},
      {"release", Release, METH_NOARGS, kRelease},
      {"__enter__", Enter, METH_NOARGS, "__enter__($self, /)\n--\n\nEnter the semaphore/lock."},
      {"__exit__", method(Exit), METH_FASTCALL, "Exit the semaphore/lock."},
      {nullptr, nullptr, 0, nullptr},
  };
  return methods;
}

PyObject* lock_new(PyTypeObject* type, PyObject*, PyObject*) {
  auto* lock = reinterpret_cast<LockObject*>(type->tp_alloc(type, 0));
  if (!lock) return nullptr;
  new (&lock->mutex) locks::MutexPtr;
  new (&lock->semaphore) locks::SemaphorePtr;
  return reinterpret_cast<PyObject*>(lock);
}

void lock_dealloc(PyObject* self) {
  LockObject* lock = as_lock(self);
  PyTypeObject* type = Py_TYPE(self);
  locks::MutexPtr mutex = std::move(lock->mutex);
  locks::SemaphorePtr semaphore = std::move(lock->semaphore);
  lock->mutex.~shared_ptr();
  lock->semaphore.~shared_ptr();
  type->tp_free(self);
  Py_DECREF(type);
  if (mutex || semaphore) {
    const GilRelease released;  // dropping a right to the object takes an internal lock
    mutex.reset();
    semaphore.reset();
  }
}

PyTypeObject* add_type(PyObject* module, const char* name, PyType_Slot* slots, PyTypeObject* base) {
  PyType_Spec spec = {name, sizeof(LockObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  PyObject* type =
      base ? PyType_FromSpecWithBases(&spec, reinterpret_cast<PyObject*>(base)) : PyType_FromSpec(&spec);
  if (!type || PyModule_AddObjectRef(module, std::strrchr(name, '.') + 1, type) != 0) return nullptr;
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace

bool parse_timeout(PyObject* timeout, os::Deadline& deadline) {
  if (!timeout || timeout == Py_None) return true;
  const double seconds = PyFloat_AsDouble(timeout);
  if (seconds == -1.0 && PyErr_Occurred()) return false;
  if (std::isnan(seconds)) {  // as sem_timedwait fails
    errno = EINVAL;
    PyErr_SetFromErrno(PyExc_OSError);
    return false;
  }
  deadline = os::Deadline::after_seconds(seconds);
  return true;
}

bool parse_acquire(PyObject* const* arguments, Py_ssize_t count, PyObject* keywords, bool& block,
                   os::Deadline& deadline) {
  static const char* const names[] = {"block", "timeout"};
  PyObject* given[2] = {};
  const Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
  if (count + named > 2) {
    PyErr_Format(PyExc_TypeError, "acquire() takes at most 2 arguments (%zd given)", count + named);
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i) given[i] = arguments[i];
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject* keyword = PyTuple_GET_ITEM(keywords, i);
    int place = 0;
    while (place < 2 && PyUnicode_CompareWithASCIIString(keyword, names[place]) != 0) ++place;
    if (place == 2) {
#if PY_VERSION_HEX >= 0x030d0000
      PyErr_Format(PyExc_TypeError, "acquire() got an unexpected keyword argument '%U'", keyword);
#else
      PyErr_Format(PyExc_TypeError, "'%U' is an invalid keyword argument for acquire()", keyword);
#endif
      return false;
    }
    if (given[place]) {
      PyErr_Format(PyExc_TypeError, "argument for acquire() given by name ('%U') and position (%d)", keyword,
                   place + 1);
      return false;
    }
    given[place] = arguments[count + i];
  }
  if (given[0]) {
    const int truth = PyObject_IsTrue(given[0]);
    if (truth < 0) return false;
    block = truth != 0;
  }
  if (!parse_timeout(given[1], deadline)) return false;
  if (!block) deadline = os::Deadline::after_ns(0);
  return true;
}

int add_lock_types(PyObject* module) {
  PyMethodDef* any = hot_methods<any_acquire, any_release, any_enter, any_exit>();
  PyType_Slot base_slots[] = {
      {Py_tp_methods, lock_base_methods},
      {Py_tp_getset, lock_attributes},
      {Py_tp_new, reinterpret_cast<void*>(lock_new)},
      {Py_tp_dealloc, reinterpret_cast<void*>(lock_dealloc)},
      {0, nullptr},
  };
  PyTypeObject* care = add_type(module, "forklift._core.SemLockLifetime", base_slots, nullptr);
  if (!care) return -1;
  PyType_Slot any_slots[] = {{Py_tp_methods, any}, {0, nullptr}};
  PyTypeObject* base = add_type(module, "forklift._core.SemLockCore", any_slots, care);
  if (!base) return -1;
  PyType_Slot lock_slots[] = {
      {Py_tp_methods, hot_methods<lock_acquire, lock_release, lock_enter, lock_exit>()}, {0, nullptr}};
  PyType_Slot semaphore_slots[] = {
      {Py_tp_methods, hot_methods<semaphore_acquire, semaphore_release, semaphore_enter, semaphore_exit>()},
      {0, nullptr}};
  return add_type(module, "forklift._core.LockCore", lock_slots, base) &&
                 add_type(module, "forklift._core.SemaphoreCore", semaphore_slots, base)
             ? 0
             : -1;
}

}  // namespace forklift::py
