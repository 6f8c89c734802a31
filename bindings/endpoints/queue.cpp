#include "bindings/endpoints/queue.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/endpoints/batches.h"
#include "bindings/endpoints/loan.h"
#include "bindings/endpoints/queue_object.h"
#include "bindings/inspect/inspect.h"
#include "bindings/message/reader.h"

namespace forklift::py {

namespace {

PyObject* queue_new(PyTypeObject* type, PyObject*, PyObject*) {
  auto* queue = reinterpret_cast<QueueObject*>(type->tp_alloc(type, 0));
  if (!queue) return nullptr;
  new (&queue->channel) channel::ChannelPtr;
  new (&queue->bell) std::unique_ptr<Doorbell>;
  new (&queue->room_bell) std::unique_ptr<Doorbell>;
  new (&queue->claims) std::unique_ptr<Claims>;
  queue->format = Format::kPython;
  queue->orphan_fd = -1;
  return reinterpret_cast<PyObject*>(queue);
}

void queue_dealloc(PyObject* self) {
  auto* queue = as_queue(self);
  PyTypeObject* type = Py_TYPE(self);
  Py_CLEAR(queue->framework);
  channel::ChannelPtr channel = std::move(queue->channel);
  queue->channel.~shared_ptr();
  queue->bell.~unique_ptr();
  queue->room_bell.~unique_ptr();
  queue->claims.~unique_ptr();
  type->tp_free(self);
  Py_DECREF(type);
  if (channel) {
    // The last holder of a channel empties it.
    const GilRelease released;
    channel.reset();
  }
}

// queue.Empty and queue.Full, the standard library's own.
PyObject* raise_named(const char* name) {
  PyObject* type = import_attribute("queue", name);
  if (type) PyErr_SetNone(type);
  Py_XDECREF(type);
  return nullptr;
}

}  // namespace

PyObject* raise_handle_closed() {
  PyErr_SetString(PyExc_OSError, "handle is closed");
  return nullptr;
}

PyObject* raise_closed(PyObject* self) {
  PyErr_Format(PyExc_ValueError, "Queue %R is closed", self);
  return nullptr;
}

PyObject* raise_failure(const Status& status, const char* timed_out) {
  if (status.code() == Code::kTimeout) return raise_named(timed_out);
  if (status.code() == Code::kPeerDied) {
    PyErr_SetNone(PyExc_EOFError);
    return nullptr;
  }
  if (status.code() == Code::kClosed) return raise_error("FinishedError", std::string(status.what()).c_str());
  return raise(status);
}

bool parse_arguments(const char* function, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords,
                     const char* const* names, int most, int needed, PyObject** out, int positional) {
  if (positional < 0) positional = most;
  if (count > positional) {
    PyErr_Format(PyExc_TypeError, "%s() takes at most %d arguments (%zd given)", function, positional, count);
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i) out[i] = arguments[i];
  const Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject* keyword = PyTuple_GET_ITEM(keywords, i);
    int place = 0;
    while (place < most && PyUnicode_CompareWithASCIIString(keyword, names[place]) != 0) ++place;
    if (place == most) {
      PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", function, keyword);
      return false;
    }
    if (out[place]) {
      PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", function, keyword);
      return false;
    }
    out[place] = arguments[count + i];
  }
  for (int i = 0; i < needed; ++i) {
    if (out[i]) continue;
    PyErr_Format(PyExc_TypeError, "%s() missing 1 required positional argument: '%s'", function, names[i]);
    return false;
  }
  return true;
}

PyObject* report_unpicklable(PyObject* self, PyObject* object) {
  if (as_queue(self)->strict || !PyErr_ExceptionMatches(PyExc_Exception)) return nullptr;
  PyObject* exception = take_exception();
  PyObject* done = PyObject_CallMethod(self, "_pickling_failed", "OO", exception, object);
  Py_DECREF(exception);
  return done;
}

bool open_delivery(Delivery& delivery, const QueueObject& queue, PyObject* as) {
  PyObject* framework = as && as != Py_None ? as : queue.framework;
  if (!framework) return true;
  Py_INCREF(framework);
  const bool opened = delivery.open(framework);
  Py_DECREF(framework);
  return opened;
}

namespace {

PyObject* do_put(PyObject* self, PyObject* object, const Waiting& waiting) {
  QueueObject* queue = as_queue(self);
  if (queue->closed) return raise_closed(self);
  if (!usable(*queue)) return nullptr;
  // A reducer may close or drop the queue meanwhile.
  const channel::ChannelPtr channel = queue->channel;
  // The standard library takes the capacity before it pickles: a full queue is reported whatever the object.
  if (!waiting.block && channel->capacity() != 0 && channel->full() && !channel->closed())
    return raise_named("Full");
  const SendResult result = send_object(*channel, object, queue->format, waiting.deadline, waiting.block, -1);
  queue->used = true;
  switch (result.sent) {
    case Sent::kDone: Py_RETURN_NONE;
    case Sent::kUnpicklable: return report_unpicklable(self, object);
    case Sent::kFailed:
      raise_failure(result.status, "Full");
      if (waiting.block) note_prospects(result.status, {inspect::Need::kRoom, object_of(*channel), 0});
      return nullptr;
  }
  return nullptr;
}

PyObject* do_get(PyObject* self, const Waiting& waiting, PyObject* as, PyObject* copy) {
  QueueObject* queue = as_queue(self);
  if (queue->closed) return raise_closed(self);
  Delivery delivery;
  if (!usable(*queue) || !open_delivery(delivery, *queue, as) || !delivery.parse_copy(copy)) return nullptr;
  const channel::ChannelPtr channel = queue->channel;
  Status status;
  Claims::Getting getting(*queue, channel);
  PyObject* object = receive_object(*channel, queue->format, waiting.deadline, queue->orphan_fd, status,
                                    &delivery, nullptr, getting.receipt());
  getting.settle(object, status);
  after_get(*queue, *channel);
  if (object || status) return object;
  raise_failure(status, "Empty");
  if (waiting.block) note_prospects(status, {inspect::Need::kMessage, object_of(*channel), 0});
  return nullptr;
}

PyObject* queue_put(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  if (!as_queue(self)->channel && is_standard(self)) {
    return call_standard(self, "put", arguments, count, keywords);
  }
  static const char* const names[] = {"obj", "block", "timeout"};
  PyObject* given[3] = {};
  Waiting waiting;
  if (count == 1 && !keywords) {
    given[0] = arguments[0];
  } else if (!parse_arguments("put", arguments, count, keywords, names, 3, 1, given) ||
             !waiting.parse(given[1], given[2])) {
    return nullptr;
  }
  return do_put(self, given[0], waiting);
}

PyObject* queue_get(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  if (!as_queue(self)->channel && is_standard(self)) {
    return call_standard(self, "get", arguments, count, keywords);
  }
  static const char* const names[] = {"block", "timeout", "as_", "copy"};
  PyObject* given[4] = {};
  Waiting waiting;
  if ((count != 0 || keywords) &&
      (!parse_arguments("get", arguments, count, keywords, names, 4, 0, given, 2) ||
       !waiting.parse(given[0], given[1]))) {
    return nullptr;
  }
  return do_get(self, waiting, given[2], given[3]);
}

PyObject* put_simply(PyObject* self, PyObject* object, bool block) {
  QueueObject* queue = as_queue(self);
  if (queue->writer_closed) return raise_handle_closed();
  if (!usable(*queue)) return nullptr;
  const channel::ChannelPtr channel = queue->channel;
  const os::Deadline deadline = block ? os::Deadline::never() : os::Deadline::after_ns(0);
  const SendResult result = send_object(*channel, object, queue->format, deadline, block, queue->orphan_fd);
  if (result.sent == Sent::kDone) Py_RETURN_NONE;
  if (result.status.code() == Code::kPeerDied) {
    errno = EPIPE;
    return PyErr_SetFromErrno(PyExc_OSError);
  }
  return result.sent == Sent::kUnpicklable ? nullptr : raise_failure(result.status, "Full");
}

PyObject* simple_put(PyObject* self, PyObject* object) {
  if (!as_queue(self)->channel && is_standard(self)) return call_standard(self, "put", &object, 1, nullptr);
  return put_simply(self, object, true);
}
PyObject* simple_put_now(PyObject* self, PyObject* object) { return put_simply(self, object, false); }

PyObject* get_simply(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords,
                     os::Deadline deadline) {
  PyObject* as = nullptr;
  PyObject* copy = nullptr;
  if ((count != 0 || keywords) && !only_as("get", arguments, count, keywords, as, &copy)) return nullptr;
  QueueObject* queue = as_queue(self);
  if (queue->reader_closed) return raise_handle_closed();
  Delivery delivery;
  if (!usable(*queue) || !open_delivery(delivery, *queue, as) || !delivery.parse_copy(copy)) return nullptr;
  const channel::ChannelPtr channel = queue->channel;
  Status status;
  PyObject* object = receive_object(*channel, queue->format, deadline, queue->orphan_fd, status, &delivery);
  after_get(*queue, *channel);
  return object || status ? object : raise_failure(status, "Empty");
}

PyObject* queue_loan(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  static const char* const names[] = {"shape", "dtype", "block", "timeout"};
  PyObject* given[4] = {};
  Waiting waiting;
  if (!parse_arguments("loan", arguments, count, keywords, names, 4, 1, given)) return nullptr;
  if (!waiting.parse(given[2], given[3])) return nullptr;
  if (as_queue(self)->closed) return raise_closed(self);
  return usable(*as_queue(self)) ? new_loan(self, given[0], given[1], given[2], given[3]) : nullptr;
}

PyObject* simple_loan(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  static const char* const names[] = {"shape", "dtype"};
  PyObject* given[2] = {};
  if (!parse_arguments("loan", arguments, count, keywords, names, 2, 1, given)) return nullptr;
  if (as_queue(self)->writer_closed) return raise_handle_closed();
  return usable(*as_queue(self)) ? new_loan(self, given[0], given[1], nullptr, nullptr) : nullptr;
}

PyObject* simple_get(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  if (!as_queue(self)->channel && is_standard(self)) {
    return call_standard(self, "get", arguments, count, keywords);
  }
  return get_simply(self, arguments, count, keywords, os::Deadline::never());
}
PyObject* simple_get_now(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  return get_simply(self, arguments, count, keywords, os::Deadline::after_ns(0));
}

PyCFunction fast(_PyCFunctionFastWithKeywords function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef queue_methods[] = {
    {"put", fast(queue_put), METH_FASTCALL | METH_KEYWORDS,
     "put($self, /, obj, block=True, timeout=None)\n--\n\n"
     "Put obj into the queue; when it is full, wait for at most timeout seconds (None: without end),\n"
     "or not at all if block is false, and raise queue.Full."},
    {"get", fast(queue_get), METH_FASTCALL | METH_KEYWORDS,
     "get($self, /, block=True, timeout=None, *, as_=None, copy=True)\n--\n\n"
     "Take the oldest object; when there is none, wait for at most timeout seconds (None: without end),\n"
     "or not at all if block is false, and raise queue.Empty. as_ names the framework whose arrays are\n"
     "wanted: 'numpy', 'torch', 'jax', 'cupy' or 'forklift'. With copy=False, bytes of more than 1 MiB "
     "arrive\n"
     "as a read-only memoryview of the shared memory, which is free again when the view is released."},
    {"put_many", fast(queue_put_many), METH_FASTCALL | METH_KEYWORDS, put_many_text},
    {"get_many", fast(queue_get_many), METH_FASTCALL | METH_KEYWORDS, get_many_text},
    {"drain", fast(queue_drain), METH_FASTCALL | METH_KEYWORDS, drain_text},
    {"loan", fast(queue_loan), METH_FASTCALL | METH_KEYWORDS,
     "loan($self, /, shape, dtype=float, block=True, timeout=None)\n--\n\n"
     "A context manager whose array lies in shared memory already; leaving the block puts it without a "
     "copy.\n"
     "It is not cleared. After the block the array is empty; an exception abandons it. See "
     "docs/semantics.md."},
    {"qsize", queue_qsize, METH_NOARGS, "qsize($self, /)\n--\n\nHow many objects are in the queue just now."},
    {"full", queue_full, METH_NOARGS, "full($self, /)\n--\n\nWould a put have to wait just now?"},
    {nullptr, nullptr, 0, nullptr},
};

PyMethodDef simple_methods[] = {
    {"put", simple_put, METH_O,
     "put($self, obj, /)\n--\n\nPut obj into the queue, waiting while it is full."},
    {"get", fast(simple_get), METH_FASTCALL | METH_KEYWORDS,
     "get($self, /, *, as_=None, copy=True)\n--\n\n"
     "Take the oldest object, waiting until there is one. as_ and copy: as for a Queue."},
    {"put_many", fast(simple_put_many), METH_FASTCALL | METH_KEYWORDS, simple_put_many_text},
    {"get_many", fast(simple_get_many), METH_FASTCALL | METH_KEYWORDS, simple_get_many_text},
    {"drain", fast(simple_drain), METH_FASTCALL | METH_KEYWORDS, drain_text},
    {"loan", fast(simple_loan), METH_FASTCALL | METH_KEYWORDS,
     "loan($self, /, shape, dtype=float)\n--\n\n"
     "A context manager whose array lies in shared memory already; leaving the block puts it without a "
     "copy.\n"
     "It is not cleared. After the block the array is empty; an exception abandons it. See "
     "docs/semantics.md."},
    {"_put_now", simple_put_now, METH_O, nullptr},
    {"_get_now", fast(simple_get_now), METH_FASTCALL | METH_KEYWORDS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject* make_type(PyObject* module, const char* name, PyMethodDef* methods, PyTypeObject* base) {
  PyType_Slot slots[] = {
      {Py_tp_methods, methods},
      {base ? 0 : Py_tp_new, reinterpret_cast<void*>(queue_new)},
      {Py_tp_dealloc, reinterpret_cast<void*>(queue_dealloc)},
      {Py_tp_getset, queue_base_attributes},
      {0, nullptr},
  };
  PyType_Slot derived[] = {{Py_tp_methods, methods}, {0, nullptr}};
  PyType_Spec spec = {name, sizeof(QueueObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                      base ? derived : slots};
  PyObject* type =
      base ? PyType_FromSpecWithBases(&spec, reinterpret_cast<PyObject*>(base)) : PyType_FromSpec(&spec);
  if (!type) return nullptr;
  const char* short_name = std::strrchr(name, '.') + 1;
  return PyModule_AddObjectRef(module, short_name, type) == 0 ? reinterpret_cast<PyTypeObject*>(type)
                                                              : nullptr;
}

}  // namespace

int add_queue_types(PyObject* module) {
  queue_base_type = make_type(module, "forklift._core.QueueBase", queue_base_methods, nullptr);
  if (!queue_base_type) return -1;
  if (add_loan_type(module) != 0) return -1;
  return make_type(module, "forklift._core.QueueCore", queue_methods, queue_base_type) &&
                 make_type(module, "forklift._core.SimpleQueueCore", simple_methods, queue_base_type)
             ? 0
             : -1;
}

}  // namespace forklift::py
