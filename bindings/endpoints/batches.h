// put_many, get_many and drain of the queues: several objects in one call.
//
// Thread safety: with the interpreter's lock.
#pragma once

#include <Python.h>

namespace forklift::py {

PyObject* queue_put_many(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords);
PyObject* queue_get_many(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords);
PyObject* queue_drain(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords);
PyObject* simple_put_many(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords);
PyObject* simple_get_many(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords);
PyObject* simple_drain(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords);

inline constexpr char put_many_text[] =
    "put_many($self, /, iterable, timeout=None)\n--\n\n"
    "Put every object of the iterable, in order and many at a time; return how many were put.\n\n"
    "While the queue is full, wait for at most timeout seconds in all (None: without end, 0: not at all)\n"
    "and raise forklift.BatchFull, a queue.Full. What was put stays in the queue: the error has put, how\n"
    "many that is, and left, the objects that were taken from the iterable and not put; so has every\n"
    "other exception that the call raises. An exception of the iterable itself comes after all objects\n"
    "before it are put. Up to 511 objects are taken from the iterable before the first of them is put,\n"
    "so an iterable must not wait for a receiver. Objects that cannot be pickled are dropped or raise as\n"
    "in put, and are not counted.";
inline constexpr char get_many_text[] =
    "get_many($self, /, max, timeout=None, *, as_=None)\n--\n\n"
    "Take the oldest objects, at least one and at most max, as a list.\n\n"
    "Wait for the first only, at most timeout seconds (None: without end, 0: not at all), and raise\n"
    "queue.Empty; then take those that are there. Where one cannot be unpickled, the exception has got, a\n"
    "list of the others. as_: as in get.";
inline constexpr char drain_text[] =
    "drain($self, /, *, as_=None)\n--\n\n"
    "Take all objects that are there now, as a list, without waiting; an empty list where there are none.\n\n"
    "as_ and failures: as in get_many.";
inline constexpr char simple_put_many_text[] =
    "put_many($self, /, iterable)\n--\n\n"
    "Put every object of the iterable, in order and many at a time, waiting while the queue is full;\n"
    "return how many were put.\n\n"
    "An exception has put, how many objects were put before it and stay in the queue, and left, those\n"
    "that were taken from the iterable and not put. Up to 511 objects are taken before the first of them\n"
    "is put, so an iterable must not wait for a receiver.";
inline constexpr char simple_get_many_text[] =
    "get_many($self, /, max, *, as_=None)\n--\n\n"
    "Take the oldest objects, at least one and at most max, as a list: wait for the first, then take\n"
    "those that are there.\n\n"
    "Where one cannot be unpickled, the exception has got, a list of the others. as_: as in get.";

}  // namespace forklift::py
