// Creates locks and semaphores, hands them to children and reports their state: all but acquire and release.
#include <cerrno>
#include <utility>

#include "bindings/core/errors.h"
#include "bindings/core/frames.h"
#include "bindings/core/gil.h"
#include "bindings/locks/object.h"
#include "node/node.h"

namespace forklift::py {

PyObject* raise_not_made(PyObject* self) {
  PyErr_Format(PyExc_ValueError, "%.200s was never made: its __init__ was not called",
               Py_TYPE(self)->tp_name);
  return nullptr;
}

namespace {

bool made(PyObject* self) {
  if (as_lock(self)->mutex || as_lock(self)->semaphore) return true;
  raise_not_made(self);
  return false;
}

locks::Object& object_of(PyObject* self) {
  LockObject* lock = as_lock(self);
  return lock->mutex ? static_cast<locks::Object&>(*lock->mutex)
                     : static_cast<locks::Object&>(*lock->semaphore);
}

// Calls `make(table)`, which returns a Result, without the interpreter lock, and stores its value in `into`.
// `known` is the node to use; nullptr: the process's own, which is made if there is none.
template <class Make, class Pointer>
PyObject* fill(Pointer& into, node::Node* known, Make&& make) {
  using Answer = decltype(make(known->locks()));
  GilRelease released;
  Result<node::Node*> node = known ? Result<node::Node*>(known) : node::Node::current();
  Answer answer = node ? make((*node)->locks()) : Answer(node.status());
  released.acquire();
  if (!answer) return raise(answer.status());
  std::swap(into, *answer);
  Py_RETURN_NONE;
}

PyObject* make_lock(PyObject* self, PyObject* recursive) {
  const int truth = PyObject_IsTrue(recursive);
  if (truth < 0) return nullptr;
  PyObject* const made = fill(as_lock(self)->mutex, nullptr,
                              [&](locks::Table& table) { return locks::Mutex::create(table, truth != 0); });
  if (made != nullptr) label_with_line(as_lock(self)->mutex->label());
  return made;
}

// Checks the arguments as the standard library's SemLock does: they must be ints, and a wrong value raises
// the OSError of sem_open.
PyObject* make_semaphore(PyObject* self, PyObject* arguments) {
  int value = 0;
  int most = 0;
  int recover = 0;
  if (!PyArg_ParseTuple(arguments, "iip:_make_semaphore", &value, &most, &recover)) return nullptr;
  if (value < 0 || most < value) {
    errno = EINVAL;
    return PyErr_SetFromErrno(PyExc_OSError);
  }
  const locks::SemaphoreOptions options{static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(most),
                                        recover != 0};
  PyObject* const made = fill(as_lock(self)->semaphore, nullptr,
                              [&](locks::Table& table) { return locks::Semaphore::create(table, options); });
  if (made != nullptr) label_with_line(as_lock(self)->semaphore->label());
  return made;
}

// In a spawned child: opens the lock or semaphore that the parent has offered.
PyObject* open_again(PyObject* self, PyObject* arguments) {
  locks::LockId id;
  int is_lock = 0;
  if (!PyArg_ParseTuple(arguments, "IIp:_open", &id.index, &id.generation, &is_lock)) return nullptr;
  node::Node* node = node::Node::existing();
  if (!node) return raise({Code::kNotAttached, "this process was not started by the lock's owner"});
  if (is_lock != 0)
    return fill(as_lock(self)->mutex, node,
                [&](locks::Table& table) { return locks::Mutex::open(table, id); });
  return fill(as_lock(self)->semaphore, node,
              [&](locks::Table& table) { return locks::Semaphore::open(table, id); });
}

PyObject* offer(PyObject* self, PyObject* arguments) {
  domain::SlotRef child;
  if (!made(self) || !PyArg_ParseTuple(arguments, "II:_offer", &child.index, &child.generation))
    return nullptr;
  GilRelease released;
  const Status status = object_of(self).offer(child);
  released.acquire();
  if (!status) return raise(status);
  Py_RETURN_NONE;
}

PyObject* id_of(PyObject* self, PyObject*) {
  if (!made(self)) return nullptr;
  const locks::LockId id = object_of(self).id();
  return Py_BuildValue("(IIO)", id.index, id.generation, as_lock(self)->mutex ? Py_True : Py_False);
}

long own_count(const LockObject* lock) {
  if (lock->mutex) return static_cast<long>(lock->mutex->depth());
  return lock->counted_by == lock->semaphore->table().process() ? lock->count : 0;
}

long value_of(const LockObject* lock) {
  if (lock->mutex) return lock->mutex->locked() ? 0 : 1;
  return static_cast<long>(lock->semaphore->value());
}

PyObject* is_mine(PyObject* self, PyObject*) {
  if (!made(self)) return nullptr;
  const LockObject* lock = as_lock(self);
  const bool mine =
      lock->mutex ? lock->mutex->mine() : own_count(lock) > 0 && lock->last_thread == os::thread_id();
  return PyBool_FromLong(mine ? 1 : 0);
}
PyObject* count(PyObject* self, PyObject*) {
  return made(self) ? PyLong_FromLong(own_count(as_lock(self))) : nullptr;
}
PyObject* get_value(PyObject* self, PyObject*) {
  return made(self) ? PyLong_FromLong(value_of(as_lock(self))) : nullptr;
}
PyObject* is_zero(PyObject* self, PyObject*) {
  return made(self) ? PyBool_FromLong(value_of(as_lock(self)) == 0 ? 1 : 0) : nullptr;
}
PyObject* nothing(PyObject*, PyObject*) { Py_RETURN_NONE; }

PyObject* get_semlock(PyObject* self, void*) { return Py_NewRef(self); }
PyObject* get_handle(PyObject* self, void*) {
  return made(self) ? PyLong_FromUnsignedLong(object_of(self).id().index) : nullptr;
}
PyObject* get_name(PyObject*, void*) { Py_RETURN_NONE; }
PyObject* get_kind(PyObject* self, void*) {
  return PyLong_FromLong(as_lock(self)->mutex && as_lock(self)->mutex->recursive() ? 0 : 1);
}
PyObject* get_most(PyObject* self, void*) {
  return PyLong_FromUnsignedLong(as_lock(self)->semaphore ? as_lock(self)->semaphore->most() : 1);
}
PyObject* get_abandoned(PyObject* self, void*) {
  return PyBool_FromLong(as_lock(self)->mutex && as_lock(self)->mutex->abandoned() ? 1 : 0);
}
PyObject* get_for_forks(PyObject* self, void*) { return PyBool_FromLong(as_lock(self)->for_forks ? 1 : 0); }
int set_for_forks(PyObject* self, PyObject* value, void*) {
  const int truth = value ? PyObject_IsTrue(value) : 0;
  if (truth < 0) return -1;
  as_lock(self)->for_forks = truth != 0;
  return 0;
}
PyObject* get_recovers(PyObject* self, void*) {
  return PyBool_FromLong(as_lock(self)->semaphore && as_lock(self)->semaphore->recovers() ? 1 : 0);
}
PyObject* get_taken_over(PyObject* self, void*) {
  const LockObject* lock = as_lock(self);
  const bool yes = lock->mutex ? lock->mutex->recovers() : lock->semaphore && lock->semaphore->recovers();
  return PyBool_FromLong(yes ? 1 : 0);
}
PyObject* get_value_max(PyObject*, void*) { return PyLong_FromUnsignedLong(locks::kMostUnits); }

}  // namespace

PyMethodDef lock_base_methods[] = {
    {"_make_lock", make_lock, METH_O, nullptr},
    {"_make_semaphore", make_semaphore, METH_VARARGS, nullptr},
    {"_open", open_again, METH_VARARGS, nullptr},
    {"_offer", offer, METH_VARARGS, nullptr},
    {"_id", id_of, METH_NOARGS, nullptr},
    {"_is_mine", is_mine, METH_NOARGS, "Whether the lock is owned by this thread."},
    {"_count", count, METH_NOARGS, "Num of `acquire()`s minus num of `release()`s for this process."},
    {"_get_value", get_value, METH_NOARGS, "Get the value of the semaphore."},
    {"_is_zero", is_zero, METH_NOARGS, "Return whether semaphore has value zero."},
    {"_after_fork", nothing, METH_NOARGS, "Does nothing: each process has counts of its own."},
    {"locked", is_zero, METH_NOARGS,
     "locked($self, /)\n--\n\nWhether an acquire by another thread or process would have to wait."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef lock_attributes[] = {
    {"_semlock", get_semlock, nullptr, nullptr, nullptr},
    {"handle", get_handle, nullptr, nullptr, nullptr},
    {"name", get_name, nullptr, nullptr, nullptr},
    {"kind", get_kind, nullptr, nullptr, nullptr},
    {"maxvalue", get_most, nullptr, nullptr, nullptr},
    {"SEM_VALUE_MAX", get_value_max, nullptr, nullptr, nullptr},
    {"abandoned", get_abandoned, nullptr,
     "Whether the present holder took the lock over from a process that died holding it.", nullptr},
    {"recovers", get_taken_over, nullptr,
     "Whether the lock is taken over, or the units come back, when their holder dies. For a lock this turns "
     "false for good when a process that does not hold it releases it.",
     nullptr},
    {"_recovers", get_recovers, nullptr, nullptr, nullptr},
    {"_is_fork_ctx", get_for_forks, set_for_forks, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

}  // namespace forklift::py
