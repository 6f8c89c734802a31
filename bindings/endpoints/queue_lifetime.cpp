// The methods of queues but put and get: creation, handing over to children, inspection and waiting.
#include <Python.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "bindings/core/errors.h"
#include "bindings/core/frames.h"
#include "bindings/core/gil.h"
#include "bindings/endpoints/queue.h"
#include "bindings/endpoints/queue_object.h"
#include "node/node.h"

namespace forklift::py {

PyTypeObject* queue_base_type = nullptr;

bool usable(const QueueObject& queue) {
  if (queue.channel) return true;
  const auto* self = reinterpret_cast<const PyObject*>(&queue);
  if (is_standard(self)) {
    PyErr_Format(PyExc_TypeError,
                 "%.200s relies on the standard library's queue, which cannot do this: it overrides or uses "
                 "private parts of it",
                 Py_TYPE(self)->tp_name);
  } else {
    PyErr_SetString(PyExc_ValueError, "the queue was never opened: its __init__ was not called");
  }
  return false;
}

bool is_standard(const PyObject* queue) {
  PyObject* mark = PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(queue)), "_standard");
  if (!mark) PyErr_Clear();
  const bool standard = mark == Py_True;
  Py_XDECREF(mark);
  return standard;
}

PyObject* call_standard(PyObject* self, const char* name, PyObject* const* arguments, Py_ssize_t count,
                        PyObject* keywords) {
  PyObject* next = PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PySuper_Type),
                                                reinterpret_cast<PyObject*>(queue_base_type), self, nullptr);
  PyObject* method = next ? PyObject_GetAttrString(next, name) : nullptr;
  Py_XDECREF(next);
  if (!method) return nullptr;
  PyObject* result = PyObject_Vectorcall(method, arguments, static_cast<std::size_t>(count), keywords);
  Py_DECREF(method);
  return result;
}

channel::ChannelPtr channel_of(PyObject* queue) {
  if (!PyObject_TypeCheck(queue, queue_base_type)) {
    PyErr_Format(PyExc_TypeError, "a queue of forklift is needed, not %.200s", Py_TYPE(queue)->tp_name);
    return nullptr;
  }
  return usable(*as_queue(queue)) ? as_queue(queue)->channel : nullptr;
}

bool adopt_channel(PyObject* queue, channel::ChannelPtr channel) {
  if (!PyObject_TypeCheck(queue, queue_base_type)) {
    PyErr_SetString(PyExc_TypeError, "a queue of forklift is needed");
    return false;
  }
  as_queue(queue)->channel = std::move(channel);
  return true;
}

int descriptor_of(std::unique_ptr<Doorbell>& bell, const channel::ChannelPtr& channel,
                  Doorbell::Rings rings) {
  if (!bell || !bell->usable()) {
    Result<std::unique_ptr<Doorbell>> made = Doorbell::make(channel, rings);
    if (!made) {
      raise(made.status());
      return -1;
    }
    bell = *std::move(made);
  }
  return bell->fd();
}

PyObject* wait_for_room(std::unique_ptr<Doorbell>& bell, const channel::ChannelPtr& channel,
                        PyObject* taken) {
  const unsigned long seen = PyLong_AsUnsignedLong(taken);
  if (seen == static_cast<unsigned long>(-1) && PyErr_Occurred()) return nullptr;
  const int fd = descriptor_of(bell, channel, Doorbell::Rings::kForRoom);
  if (fd < 0) return nullptr;
  bell->rearm(static_cast<std::uint32_t>(seen));
  return PyLong_FromLong(fd);
}

PyObject* queue_qsize(PyObject* self, PyObject*) {
  if (!as_queue(self)->channel && is_standard(self)) return call_standard(self, "qsize", nullptr, 0, nullptr);
  const channel::ChannelPtr channel = channel_of(self);
  return channel ? PyLong_FromUnsignedLong(channel->size()) : nullptr;
}

PyObject* queue_full(PyObject* self, PyObject*) {
  if (!as_queue(self)->channel && is_standard(self)) return call_standard(self, "full", nullptr, 0, nullptr);
  const channel::ChannelPtr channel = channel_of(self);
  return channel ? PyBool_FromLong(channel->full() ? 1 : 0) : nullptr;
}

namespace {

PyObject* queue_create(PyObject* self, PyObject* arguments) {
  unsigned int capacity = 0;
  unsigned long long bytes = 0;
  unsigned long long flags = 0;
  unsigned int receipts = 0;
  unsigned int tries = 0;
  PyObject* letters = nullptr;
  if (!PyArg_ParseTuple(arguments, "IKK|IIO:_create", &capacity, &bytes, &flags, &receipts, &tries, &letters))
    return nullptr;
  channel::ChannelPtr dead_letters;
  if (letters != nullptr && letters != Py_None && !(dead_letters = channel_of(letters))) return nullptr;
  GilRelease released;
  const Result<node::Node*> node = node::Node::current();
  Result<channel::ChannelPtr> made =
      node ? channel::Channel::create((*node)->channels(),
                                      {capacity, bytes, flags, receipts, tries, dead_letters})
           : Result<channel::ChannelPtr>(node.status());
  released.acquire();
  if (!made) return raise(made.status());
  as_queue(self)->channel = *std::move(made);
  label_with_line(as_queue(self)->channel->label());
  Py_RETURN_NONE;
}

PyObject* queue_open(PyObject* self, PyObject* arguments) {
  channel::ChannelId id;
  if (!PyArg_ParseTuple(arguments, "II:_open", &id.index, &id.generation)) return nullptr;
  GilRelease released;
  node::Node* node = node::Node::existing();
  Result<channel::ChannelPtr> opened =
      node ? channel::Channel::open(node->channels(), id)
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

PyObject* queue_empty(PyObject* self, PyObject*) {
  if (!as_queue(self)->channel && is_standard(self)) return call_standard(self, "empty", nullptr, 0, nullptr);
  if (as_queue(self)->reader_closed) {
    PyErr_SetString(PyExc_OSError, "handle is closed");
    return nullptr;
  }
  const channel::ChannelPtr channel = channel_of(self);
  return channel ? PyBool_FromLong(channel->empty() ? 1 : 0) : nullptr;
}

PyObject* queue_capacity(PyObject* self, PyObject*) {
  const channel::ChannelPtr channel = channel_of(self);
  return channel ? PyLong_FromUnsignedLong(channel->capacity()) : nullptr;
}

// Waits until there is something to get, or for `timeout` seconds (None: without end). Whether there is.
PyObject* queue_poll(PyObject* self, PyObject* timeout) {
  const channel::ChannelPtr channel = channel_of(self);
  Waiting waiting;
  if (!channel || !waiting.parse(nullptr, timeout)) return nullptr;
  if (!channel->empty() || channel->at_end()) Py_RETURN_TRUE;
  after_get(*as_queue(self), *channel);
  GilRelease released;
  PyHooks hooks(released);
  hooks.orphan_fd = as_queue(self)->orphan_fd;
  Status status;
  while (channel->empty() && !channel->at_end() && status)
    status = channel->wait_readable(waiting.deadline, &hooks);
  released.acquire();
  if (status || !channel->empty() || channel->at_end()) Py_RETURN_TRUE;
  if (status.code() == Code::kTimeout) Py_RETURN_FALSE;
  if (status.code() == Code::kPeerDied) Py_RETURN_TRUE;  // as at the end of a pipe: recv() raises EOFError
  return raise(status);
}

// A descriptor that is readable while there is something to get.
PyObject* queue_fileno(PyObject* self, PyObject*) {
  const channel::ChannelPtr channel = channel_of(self);
  if (!channel) return nullptr;
  const int fd = descriptor_of(as_queue(self)->bell, channel, Doorbell::Rings::kForMessages);
  return fd < 0 ? nullptr : PyLong_FromLong(fd);
}

PyObject* queue_taken(PyObject* self, PyObject*) {
  const channel::ChannelPtr channel = channel_of(self);
  return channel ? PyLong_FromUnsignedLong(channel->taken()) : nullptr;
}

PyObject* queue_room_fileno(PyObject* self, PyObject* taken) {
  const channel::ChannelPtr channel = channel_of(self);
  return channel ? wait_for_room(as_queue(self)->room_bell, channel, taken) : nullptr;
}

// Puts a message with any bytes and codec, for tests of how receivers decode damaged messages.
PyObject* queue_put_raw(PyObject* self, PyObject* arguments) {
  unsigned char codec = 0;
  const char* data = nullptr;
  Py_ssize_t length = 0;
  if (!PyArg_ParseTuple(arguments, "by#:_put_raw", &codec, &data, &length)) return nullptr;
  const channel::ChannelPtr channel = channel_of(self);
  if (!channel) return nullptr;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data),
                                         static_cast<std::size_t>(length));
  GilRelease released;
  const Status status = channel->put({bytes, {}, codec, 0}, os::Deadline::never());
  released.acquire();
  if (!status) return raise(status);
  Py_RETURN_NONE;
}

PyObject* queue_take_raw(PyObject* self, PyObject*) {
  const channel::ChannelPtr channel = channel_of(self);
  if (!channel) return nullptr;
  channel::Incoming message;
  GilRelease released;
  const Status status = channel->get(message, os::Deadline::after_ns(0));
  released.acquire();
  if (!status) return raise(status);
  return Py_BuildValue("(iy#)", int{message.codec()}, message.bytes().data(),
                       static_cast<Py_ssize_t>(message.bytes().size()));
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

PyObject* queue_shutdown(PyObject* self, PyObject*) {
  const channel::ChannelPtr channel = channel_of(self);
  if (!channel) return nullptr;
  GilRelease released;
  const Status status = channel->close();
  released.acquire();
  if (!status) return raise(status);
  Py_RETURN_NONE;
}

PyObject* queue_is_shutdown(PyObject* self, PyObject*) {
  const channel::ChannelPtr channel = channel_of(self);
  return channel ? PyBool_FromLong(channel->closed() ? 1 : 0) : nullptr;
}

PyObject* queue_set_format(PyObject* self, PyObject* format) {
  const long number = PyLong_AsLong(format);
  if (number < 0 || number > 2) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "no such format");
    return nullptr;
  }
  as_queue(self)->format = static_cast<Format>(number);
  Py_RETURN_NONE;
}

template <bool QueueObject::* Flag>
PyObject* get_flag(PyObject* self, void*) {
  return PyBool_FromLong(as_queue(self)->*Flag ? 1 : 0);
}
template <bool QueueObject::* Flag>
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

PyObject* get_framework(PyObject* self, void*) {
  PyObject* framework = as_queue(self)->framework;
  return Py_NewRef(framework ? framework : Py_None);
}
int set_framework(PyObject* self, PyObject* value, void*) {
  PyObject* wanted = !value || value == Py_None ? nullptr : Py_NewRef(value);
  PyObject* before = std::exchange(as_queue(self)->framework, wanted);
  Py_XDECREF(before);
  return 0;
}

}  // namespace

PyGetSetDef queue_base_attributes[] = {
    {"_closed", get_flag<&QueueObject::closed>, set_flag<&QueueObject::closed>, nullptr, nullptr},
    {"_used", get_flag<&QueueObject::used>, set_flag<&QueueObject::used>, nullptr, nullptr},
    {"_reader_closed", get_flag<&QueueObject::reader_closed>, set_flag<&QueueObject::reader_closed>, nullptr,
     nullptr},
    {"_writer_closed", get_flag<&QueueObject::writer_closed>, set_flag<&QueueObject::writer_closed>, nullptr,
     nullptr},
    {"_strict", get_flag<&QueueObject::strict>, set_flag<&QueueObject::strict>, nullptr, nullptr},
    {"_orphan_fd", get_orphan, set_orphan, nullptr, nullptr},
    {"_framework", get_framework, set_framework, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef queue_base_methods[] = {
    {"_create", queue_create, METH_VARARGS, nullptr},
    {"_open", queue_open, METH_VARARGS, nullptr},
    {"_offer", queue_offer, METH_VARARGS, nullptr},
    {"_id", queue_id, METH_NOARGS, nullptr},
    {"_size", queue_qsize, METH_NOARGS, nullptr},
    {"_is_full", queue_full, METH_NOARGS, nullptr},
    {"_poll_for", queue_poll, METH_O, nullptr},
    {"_capacity", queue_capacity, METH_NOARGS, nullptr},
    {"_fileno", queue_fileno, METH_NOARGS, nullptr},
    {"_taken", queue_taken, METH_NOARGS, nullptr},
    {"_room_fileno", queue_room_fileno, METH_O, nullptr},
    {"_put_raw", queue_put_raw, METH_VARARGS, nullptr},
    {"_take_raw", queue_take_raw, METH_NOARGS, nullptr},
    {"_task_done", queue_task_done, METH_NOARGS, nullptr},
    {"_give_back", queue_give_back, METH_NOARGS, nullptr},
    {"_unacknowledged", queue_unacknowledged, METH_NOARGS, nullptr},
    {"_dropped", queue_dropped, METH_NOARGS, nullptr},
    {"_unfinished", queue_unfinished, METH_NOARGS, nullptr},
    {"_join", queue_join, METH_NOARGS, nullptr},
    {"shutdown", queue_shutdown, METH_NOARGS,
     "shutdown($self, /)\n--\n\n"
     "End the queue for all processes, as queue.Queue.shutdown of Python 3.13 does for threads.\n\n"
     "From now on put raises forklift.FinishedError, and so does get once the queue is empty. The error\n"
     "is a queue.ShutDown where Python has that. Those who wait in either are woken. C++ programs call\n"
     "it close()."},
    {"_is_shutdown", queue_is_shutdown, METH_NOARGS, nullptr},
    {"_set_format", queue_set_format, METH_O, nullptr},
    {"empty", queue_empty, METH_NOARGS, "empty($self, /)\n--\n\nIs there nothing to get just now?"},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace forklift::py
