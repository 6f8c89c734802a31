#include "queue.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "arrival.h"
#include "doorbell.h"
#include "errors.h"
#include "gil.h"
#include "transfer.h"

namespace forklift::py {

namespace {

struct QueueObject {
  PyObject ob_base;
  channel::ChannelPtr channel;
  std::unique_ptr<Doorbell> bell;
  Dialect dialect;
  bool closed;         // Queue: neither end is used any more by this process
  bool reader_closed;  // SimpleQueue and pools: by end
  bool writer_closed;
  bool strict;
  int orphan_fd;
};

PyTypeObject* base_type = nullptr;

QueueObject* as_queue(PyObject* self) { return reinterpret_cast<QueueObject*>(self); }

PyObject* queue_new(PyTypeObject* type, PyObject*, PyObject*) {
  auto* queue = reinterpret_cast<QueueObject*>(type->tp_alloc(type, 0));
  if (!queue) return nullptr;
  new (&queue->channel) channel::ChannelPtr;
  new (&queue->bell) std::unique_ptr<Doorbell>;
  queue->dialect = Dialect::kPython;
  queue->orphan_fd = -1;
  return reinterpret_cast<PyObject*>(queue);
}

void queue_dealloc(PyObject* self) {
  auto* queue = as_queue(self);
  PyTypeObject* type = Py_TYPE(self);
  channel::ChannelPtr channel = std::move(queue->channel);
  queue->channel.~shared_ptr();
  queue->bell.~unique_ptr();
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

PyObject* raise_closed(PyObject* self) {
  PyErr_Format(PyExc_ValueError, "Queue %R is closed", self);
  return nullptr;
}

PyObject* raise_handle_closed() {
  PyErr_SetString(PyExc_OSError, "handle is closed");
  return nullptr;
}

bool usable(const QueueObject& queue) {
  if (queue.channel) return true;
  PyErr_SetString(PyExc_ValueError, "the queue was never opened: its __init__ was not called");
  return false;
}

PyObject* raise_failure(const Status& status, const char* timed_out) {
  if (status.code() == Code::kTimeout) return raise_named(timed_out);
  if (status.code() == Code::kPeerDied) {
    PyErr_SetNone(PyExc_EOFError);
    return nullptr;
  }
  return raise(status);
}

// (block=True, timeout=None) as the standard library takes them.
struct Waiting {
  bool block = true;
  os::Deadline deadline = os::Deadline::never();

  bool parse(PyObject* block_object, PyObject* timeout) {
    if (block_object) {
      const int truth = PyObject_IsTrue(block_object);
      if (truth < 0) return false;
      block = truth != 0;
    }
    if (!block) {
      deadline = os::Deadline::after_ns(0);
      return true;
    }
    if (!timeout || timeout == Py_None) return true;
    const double seconds = PyFloat_AsDouble(timeout);
    if (seconds == -1.0 && PyErr_Occurred()) return false;
    deadline = os::Deadline::after_seconds(seconds);
    return true;
  }
};

// Fills `out` from positional and keyword arguments. False with TypeError set.
bool parse_arguments(const char* function, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords,
                     const char* const* names, int most, int needed, PyObject** out) {
  if (count > most) {
    PyErr_Format(PyExc_TypeError, "%s() takes at most %d arguments (%zd given)", function, most, count);
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

// What could not be pickled goes to the queue's hook, as the standard library's feeder thread does it; with
// strict=True, and for anything but an Exception, to the caller.
PyObject* report_unpicklable(PyObject* self, PyObject* object) {
  if (as_queue(self)->strict || !PyErr_ExceptionMatches(PyExc_Exception)) return nullptr;
  PyObject* exception = take_exception();
  PyObject* done = PyObject_CallMethod(self, "_pickling_failed", "OO", exception, object);
  Py_DECREF(exception);
  return done;
}

PyObject* do_put(PyObject* self, PyObject* object, const Waiting& waiting) {
  QueueObject* queue = as_queue(self);
  if (queue->closed) return raise_closed(self);
  if (!usable(*queue)) return nullptr;
  // A reducer may close or drop the queue meanwhile.
  const channel::ChannelPtr channel = queue->channel;
  // The standard library takes the capacity before it pickles: a full queue is reported whatever the object.
  if (!waiting.block && channel->capacity() != 0 && channel->full()) return raise_named("Full");
  const SendResult result =
      send_object(*channel, object, queue->dialect, waiting.deadline, waiting.block, -1);
  switch (result.sent) {
    case Sent::kDone: Py_RETURN_NONE;
    case Sent::kUnpicklable: return report_unpicklable(self, object);
    case Sent::kFailed: return raise_failure(result.status, "Full");
  }
  return nullptr;
}

// Whoever asked for a descriptor must not find it readable for long when there is nothing.
void after_get(QueueObject& queue, const channel::Channel& channel) {
  if (queue.bell && queue.bell->usable() && channel.empty()) queue.bell->rearm();
}

PyObject* do_get(PyObject* self, const Waiting& waiting) {
  QueueObject* queue = as_queue(self);
  if (queue->closed) return raise_closed(self);
  if (!usable(*queue)) return nullptr;
  const channel::ChannelPtr channel = queue->channel;
  Status status;
  PyObject* object = receive_object(*channel, queue->dialect, waiting.deadline, queue->orphan_fd, status);
  after_get(*queue, *channel);
  if (object || status) return object;
  return raise_failure(status, "Empty");
}

PyObject* queue_put(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
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
  static const char* const names[] = {"block", "timeout"};
  PyObject* given[2] = {};
  Waiting waiting;
  if ((count != 0 || keywords) && (!parse_arguments("get", arguments, count, keywords, names, 2, 0, given) ||
                                   !waiting.parse(given[0], given[1]))) {
    return nullptr;
  }
  return do_get(self, waiting);
}

PyObject* simple_put(PyObject* self, PyObject* object) {
  QueueObject* queue = as_queue(self);
  if (queue->writer_closed) return raise_handle_closed();
  if (!usable(*queue)) return nullptr;
  const channel::ChannelPtr channel = queue->channel;
  const SendResult result =
      send_object(*channel, object, queue->dialect, os::Deadline::never(), true, queue->orphan_fd);
  if (result.sent == Sent::kDone) Py_RETURN_NONE;
  if (result.status.code() == Code::kPeerDied) {
    errno = EPIPE;
    return PyErr_SetFromErrno(PyExc_OSError);
  }
  return result.sent == Sent::kUnpicklable ? nullptr : raise_failure(result.status, "Full");
}

PyObject* simple_get(PyObject* self, PyObject*) {
  QueueObject* queue = as_queue(self);
  if (queue->reader_closed) return raise_handle_closed();
  if (!usable(*queue)) return nullptr;
  const channel::ChannelPtr channel = queue->channel;
  Status status;
  PyObject* object =
      receive_object(*channel, queue->dialect, os::Deadline::never(), queue->orphan_fd, status);
  after_get(*queue, *channel);
  return object || status ? object : raise_failure(status, "Empty");
}

// --- for the Python classes

PyObject* queue_create(PyObject* self, PyObject* arguments) {
  unsigned int capacity = 0;
  unsigned long long bytes = 0;
  unsigned long long flags = 0;
  if (!PyArg_ParseTuple(arguments, "IKK:_create", &capacity, &bytes, &flags)) return nullptr;
  GilRelease released;
  const Result<channel::Hub*> hub = channel::Hub::current();
  Result<channel::ChannelPtr> made = hub ? channel::Channel::create(**hub, {capacity, bytes, flags})
                                         : Result<channel::ChannelPtr>(hub.status());
  released.acquire();
  if (!made) return raise(made.status());
  as_queue(self)->channel = *std::move(made);
  Py_RETURN_NONE;
}

PyObject* queue_open(PyObject* self, PyObject* arguments) {
  channel::ChannelId id;
  if (!PyArg_ParseTuple(arguments, "II:_open", &id.index, &id.generation)) return nullptr;
  GilRelease released;
  channel::Hub* hub = channel::Hub::existing();
  Result<channel::ChannelPtr> opened =
      hub ? channel::Channel::open(*hub, id)
          : Result<channel::ChannelPtr>(Code::kNotAttached,
                                        "this process was not started by the queue's owner");
  released.acquire();
  if (!opened) return raise(opened.status());
  as_queue(self)->channel = *std::move(opened);
  Py_RETURN_NONE;
}

PyObject* queue_offer(PyObject* self, PyObject* arguments) {
  domain::SlotRef child;
  if (!PyArg_ParseTuple(arguments, "II:_offer", &child.index, &child.generation)) return nullptr;
  const channel::ChannelPtr channel = channel_of(self);
  if (!channel) return nullptr;
  GilRelease released;
  const Status status = channel->offer(child);
  released.acquire();
  if (!status) return raise(status);
  Py_RETURN_NONE;
}

PyObject* queue_id(PyObject* self, PyObject*) {
  const channel::ChannelPtr channel = channel_of(self);
  return channel ? Py_BuildValue("(II)", channel->id().index, channel->id().generation) : nullptr;
}

PyObject* queue_qsize(PyObject* self, PyObject*) {
  const channel::ChannelPtr channel = channel_of(self);
  return channel ? PyLong_FromUnsignedLong(channel->size()) : nullptr;
}

PyObject* queue_empty(PyObject* self, PyObject*) {
  const channel::ChannelPtr channel = channel_of(self);
  return channel ? PyBool_FromLong(channel->empty() ? 1 : 0) : nullptr;
}

PyObject* queue_full(PyObject* self, PyObject*) {
  const channel::ChannelPtr channel = channel_of(self);
  return channel ? PyBool_FromLong(channel->full() ? 1 : 0) : nullptr;
}

// Waits until there is something to get, or for `timeout` seconds (None: without end). Whether there is.
PyObject* queue_poll(PyObject* self, PyObject* timeout) {
  const channel::ChannelPtr channel = channel_of(self);
  Waiting waiting;
  if (!channel || !waiting.parse(nullptr, timeout)) return nullptr;
  if (!channel->empty()) Py_RETURN_TRUE;
  after_get(*as_queue(self), *channel);
  GilRelease released;
  PyHooks hooks(released);
  hooks.orphan_fd = as_queue(self)->orphan_fd;
  Status status;
  while (channel->empty() && status) status = channel->wait_readable(waiting.deadline, &hooks);
  released.acquire();
  if (status || !channel->empty()) Py_RETURN_TRUE;
  if (status.code() == Code::kTimeout) Py_RETURN_FALSE;
  if (status.code() == Code::kPeerDied) Py_RETURN_TRUE;  // as at the end of a pipe: recv() raises EOFError
  return raise(status);
}

// A descriptor that is readable while there is something to get.
PyObject* queue_fileno(PyObject* self, PyObject*) {
  const channel::ChannelPtr channel = channel_of(self);
  if (!channel) return nullptr;
  std::unique_ptr<Doorbell>& bell = as_queue(self)->bell;
  if (!bell || !bell->usable()) {
    Result<std::unique_ptr<Doorbell>> made = Doorbell::make(channel);
    if (!made) return raise(made.status());
    bell = *std::move(made);
  }
  return PyLong_FromLong(bell->fd());
}

PyObject* queue_task_done(PyObject* self, PyObject*) {
  const channel::ChannelPtr channel = channel_of(self);
  return channel ? PyBool_FromLong(channel->task_done() ? 1 : 0) : nullptr;
}

PyObject* queue_join(PyObject* self, PyObject*) {
  const channel::ChannelPtr channel = channel_of(self);
  if (!channel) return nullptr;
  GilRelease released;
  PyHooks hooks(released);
  const Status status = channel->join(os::Deadline::never(), &hooks);
  released.acquire();
  if (!status) return raise(status);
  Py_RETURN_NONE;
}

PyObject* queue_unfinished(PyObject* self, PyObject*) {
  const channel::ChannelPtr channel = channel_of(self);
  return channel ? PyLong_FromUnsignedLong(channel->unfinished()) : nullptr;
}

PyObject* queue_speak(PyObject* self, PyObject* dialect) {
  const long number = PyLong_AsLong(dialect);
  if (number < 0 || number > 2) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "no such dialect");
    return nullptr;
  }
  as_queue(self)->dialect = static_cast<Dialect>(number);
  Py_RETURN_NONE;
}

template <bool QueueObject::*Flag>
PyObject* get_flag(PyObject* self, void*) {
  return PyBool_FromLong(as_queue(self)->*Flag ? 1 : 0);
}
template <bool QueueObject::*Flag>
int set_flag(PyObject* self, PyObject* value, void*) {
  const int truth = value ? PyObject_IsTrue(value) : 0;
  if (truth < 0) return -1;
  as_queue(self)->*Flag = truth != 0;
  return 0;
}
PyObject* get_orphan(PyObject* self, void*) { return PyLong_FromLong(as_queue(self)->orphan_fd); }
int set_orphan(PyObject* self, PyObject* value, void*) {
  const long fd = value ? PyLong_AsLong(value) : -1;
  if (fd == -1 && PyErr_Occurred()) return -1;
  as_queue(self)->orphan_fd = static_cast<int>(fd);
  return 0;
}

PyGetSetDef attributes[] = {
    {"_closed", get_flag<&QueueObject::closed>, set_flag<&QueueObject::closed>, nullptr, nullptr},
    {"_reader_closed", get_flag<&QueueObject::reader_closed>, set_flag<&QueueObject::reader_closed>, nullptr,
     nullptr},
    {"_writer_closed", get_flag<&QueueObject::writer_closed>, set_flag<&QueueObject::writer_closed>, nullptr,
     nullptr},
    {"_strict", get_flag<&QueueObject::strict>, set_flag<&QueueObject::strict>, nullptr, nullptr},
    {"_orphan_fd", get_orphan, set_orphan, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef base_methods[] = {
    {"_create", queue_create, METH_VARARGS, nullptr},
    {"_open", queue_open, METH_VARARGS, nullptr},
    {"_offer", queue_offer, METH_VARARGS, nullptr},
    {"_id", queue_id, METH_NOARGS, nullptr},
    {"_size", queue_qsize, METH_NOARGS, nullptr},
    {"_is_full", queue_full, METH_NOARGS, nullptr},
    {"_poll_for", queue_poll, METH_O, nullptr},
    {"_fileno", queue_fileno, METH_NOARGS, nullptr},
    {"_task_done", queue_task_done, METH_NOARGS, nullptr},
    {"_unfinished", queue_unfinished, METH_NOARGS, nullptr},
    {"_join", queue_join, METH_NOARGS, nullptr},
    {"_speak", queue_speak, METH_O, nullptr},
    {"empty", queue_empty, METH_NOARGS, "empty($self, /)\n--\n\nIs there nothing to get just now?"},
    {nullptr, nullptr, 0, nullptr},
};

PyCFunction fast(_PyCFunctionFastWithKeywords function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef queue_methods[] = {
    {"put", fast(queue_put), METH_FASTCALL | METH_KEYWORDS,
     "put($self, /, obj, block=True, timeout=None)\n--\n\n"
     "Put obj into the queue; when it is full, wait for at most timeout seconds (None: without end),\n"
     "or not at all if block is false, and raise queue.Full."},
    {"get", fast(queue_get), METH_FASTCALL | METH_KEYWORDS,
     "get($self, /, block=True, timeout=None)\n--\n\n"
     "Take the oldest object; when there is none, wait for at most timeout seconds (None: without end),\n"
     "or not at all if block is false, and raise queue.Empty."},
    {"qsize", queue_qsize, METH_NOARGS, "qsize($self, /)\n--\n\nHow many objects are in the queue just now."},
    {"full", queue_full, METH_NOARGS, "full($self, /)\n--\n\nWould a put have to wait just now?"},
    {nullptr, nullptr, 0, nullptr},
};

PyMethodDef simple_methods[] = {
    {"put", simple_put, METH_O,
     "put($self, obj, /)\n--\n\nPut obj into the queue, waiting while it is full."},
    {"get", simple_get, METH_NOARGS,
     "get($self, /)\n--\n\nTake the oldest object, waiting until there is one."},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject* make_type(PyObject* module, const char* name, PyMethodDef* methods, PyTypeObject* base) {
  PyType_Slot slots[] = {
      {Py_tp_methods, methods},
      {base ? 0 : Py_tp_new, reinterpret_cast<void*>(queue_new)},
      {Py_tp_dealloc, reinterpret_cast<void*>(queue_dealloc)},
      {Py_tp_getset, attributes},
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

channel::ChannelPtr channel_of(PyObject* queue) {
  if (!PyObject_TypeCheck(queue, base_type)) {
    PyErr_Format(PyExc_TypeError, "a queue of forklift is needed, not %.200s", Py_TYPE(queue)->tp_name);
    return nullptr;
  }
  return usable(*as_queue(queue)) ? as_queue(queue)->channel : nullptr;
}

int add_queue_types(PyObject* module) {
  base_type = make_type(module, "forklift._core.QueueBase", base_methods, nullptr);
  if (!base_type) return -1;
  return make_type(module, "forklift._core.QueueCore", queue_methods, base_type) &&
                 make_type(module, "forklift._core.SimpleQueueCore", simple_methods, base_type)
             ? 0
             : -1;
}

}  // namespace forklift::py
