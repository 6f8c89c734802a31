#include "bindings/endpoints/pipe.h"

#include <cerrno>
#include <new>
#include <utility>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/endpoints/queue_object.h"
#include "bindings/message/foreign.h"
#include "bindings/message/transfer.h"
#include "channel/pipe.h"
#include "node/node.h"

namespace forklift::py {

namespace {

struct PipeObject {
  PyObject ob_base;
  channel::ChannelPtr in;
  channel::ChannelPtr out;
  std::unique_ptr<Doorbell> room_bell;
  int handle;  // -1: None
  bool readable;
  bool writable;

  bool native() const noexcept { return in || out; }
  channel::PipeEnd end() const {
    channel::PipeEnd made{handle, in, out};
    made.meet_readers();
    return made;
  }
};

PipeObject* as_pipe(PyObject* self) { return reinterpret_cast<PipeObject*>(self); }

// The standard library's Connection, for objects without channels.
PyObject* standard_class = nullptr;
PyTypeObject* pipe_type = nullptr;

PyObject* pipe_new(PyTypeObject* type, PyObject*, PyObject*) {
  auto* pipe = reinterpret_cast<PipeObject*>(type->tp_alloc(type, 0));
  if (!pipe) return nullptr;
  new (&pipe->in) channel::ChannelPtr;
  new (&pipe->out) channel::ChannelPtr;
  new (&pipe->room_bell) std::unique_ptr<Doorbell>;
  pipe->handle = -1;
  pipe->readable = pipe->writable = true;
  return reinterpret_cast<PyObject*>(pipe);
}

// Gives the channels up. The last holder of a channel empties it.
void drop(PipeObject& pipe) {
  if (!pipe.native()) return;
  pipe.room_bell.reset();
  channel::ChannelPtr in = std::move(pipe.in);
  channel::ChannelPtr out = std::move(pipe.out);
  const GilRelease released;
  channel::PipeEnd(-1, in, out).let_go();
  in.reset();
  out.reset();
}

void pipe_dealloc(PyObject* self) {
  PipeObject* pipe = as_pipe(self);
  PyTypeObject* type = Py_TYPE(self);
  drop(*pipe);
  pipe->in.~shared_ptr();
  pipe->out.~shared_ptr();
  pipe->room_bell.~unique_ptr();
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* raise_os(const char* words) {
  PyErr_SetString(PyExc_OSError, words);
  return nullptr;
}

bool may_read(const PipeObject& pipe) {
  if (pipe.handle < 0) return raise_os("handle is closed") != nullptr;
  if (!pipe.readable) return raise_os("connection is write-only") != nullptr;
  return true;
}

bool may_write(const PipeObject& pipe) {
  if (pipe.handle < 0) return raise_os("handle is closed") != nullptr;
  if (!pipe.writable) return raise_os("connection is read-only") != nullptr;
  return true;
}

PyObject* raise_pipe_failure(const Status& status) {
  switch (status.code()) {
    case Code::kClosed: PyErr_SetNone(PyExc_EOFError); return nullptr;
    case Code::kSystem:
      // In the words of the standard library's.
      errno = status.errno_value();
      return PyErr_SetFromErrno(PyExc_OSError);
    default: return raise(status);
  }
}

PyObject* send_before(PyObject* self, PyObject* object, os::Deadline deadline) {
  const PipeObject& pipe = *as_pipe(self);
  if (!may_write(pipe)) return nullptr;
  if (!pipe.native()) return PyObject_CallMethod(standard_class, "send", "OO", self, object);
  // A reducer may close the connection meanwhile.
  channel::PipeEnd end = pipe.end();
  const SendResult result = send_object(end, object, Format::kPython, deadline, deadline.is_never(), -1);
  switch (result.sent) {
    case Sent::kDone: Py_RETURN_NONE;
    case Sent::kUnpicklable: return nullptr;
    case Sent::kFailed: return raise_pipe_failure(result.status);
  }
  return nullptr;
}

PyObject* recv_before(PyObject* self, os::Deadline deadline, PyObject* as, PyObject* copy) {
  const PipeObject& pipe = *as_pipe(self);
  Delivery delivery;
  if (!may_read(pipe) || !delivery.open(as) || !delivery.parse_copy(copy)) return nullptr;
  if (!pipe.native()) return delivery.finish(PyObject_CallMethod(standard_class, "recv", "O", self));
  channel::PipeEnd end = pipe.end();
  Status status;
  PyObject* object = receive_object(end, Format::kPython, deadline, -1, status, &delivery);
  return object || status ? object : raise_pipe_failure(status);
}

PyObject* pipe_send(PyObject* self, PyObject* object) {
  return send_before(self, object, os::Deadline::never());
}
PyObject* pipe_recv(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  PyObject* as = nullptr;
  PyObject* copy = nullptr;
  if ((count != 0 || keywords) && !only_as("recv", arguments, count, keywords, as, &copy)) return nullptr;
  return recv_before(self, os::Deadline::never(), as, copy);
}
// The same without waiting: TimeoutError.
PyObject* pipe_send_now(PyObject* self, PyObject* object) {
  return send_before(self, object, os::Deadline::after_ns(0));
}
PyObject* pipe_recv_now(PyObject* self, PyObject*) {
  return recv_before(self, os::Deadline::after_ns(0), nullptr, nullptr);
}

PyObject* pipe_taken(PyObject* self, PyObject*) {
  const channel::ChannelPtr out = as_pipe(self)->out;
  return PyLong_FromUnsignedLong(out ? out->taken() : 0);
}

PyObject* pipe_room_fileno(PyObject* self, PyObject* taken) {
  PipeObject& pipe = *as_pipe(self);
  if (!may_write(pipe)) return nullptr;
  if (!pipe.out) return raise_os("connection is read-only");
  return wait_for_room(pipe.room_bell, pipe.out, taken);
}

PyObject* pipe_send_raw(PyObject* self, PyObject* buffer) {
  const PipeObject& pipe = *as_pipe(self);
  if (!pipe.native()) return PyObject_CallMethod(standard_class, "_send_bytes", "OO", self, buffer);
  Py_buffer view;
  if (PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE) != 0) return nullptr;
  channel::PipeEnd end = pipe.end();
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(view.buf),
                                         static_cast<std::size_t>(view.len));
  const Status status = send_raw(end, bytes, os::Deadline::never());
  PyBuffer_Release(&view);
  if (!status) return raise_pipe_failure(status);
  Py_RETURN_NONE;
}

// (is it bytes, the bytes or the object)
PyObject* pipe_take(PyObject* self, PyObject*) {
  channel::PipeEnd end = as_pipe(self)->end();
  Status status;
  bool raw = false;
  PyObject* object = receive_raw_or_object(end, os::Deadline::never(), status, &raw);
  if (object) return Py_BuildValue("(NN)", PyBool_FromLong(raw ? 1 : 0), object);
  return status ? nullptr : raise_pipe_failure(status);
}

PyObject* pipe_wait(PyObject* self, PyObject* timeout) {
  Waiting waiting;
  if (!waiting.parse(nullptr, timeout)) return nullptr;
  channel::PipeEnd end = as_pipe(self)->end();
  GilRelease released;
  PyHooks hooks(released);
  const Status status = end.wait_readable(waiting.deadline, &hooks);
  released.acquire();
  if (status) Py_RETURN_TRUE;
  if (status.code() == Code::kTimeout) Py_RETURN_FALSE;
  return raise_pipe_failure(status);
}

PyObject* pipe_make_selectable(PyObject* self, PyObject*) {
  channel::PipeEnd end = as_pipe(self)->end();
  GilRelease released;
  const Status status = end.make_selectable();
  released.acquire();
  if (!status) return raise_pipe_failure(status);
  Py_RETURN_NONE;
}

PyObject* id_of(const channel::ChannelPtr& channel) {
  if (!channel) Py_RETURN_NONE;
  return Py_BuildValue("(II)", channel->id().index, channel->id().generation);
}

// What names the channels: (for reading, for writing), each (index, generation) or None.
PyObject* pipe_ids(PyObject* self, PyObject*) {
  return Py_BuildValue("(NN)", id_of(as_pipe(self)->in), id_of(as_pipe(self)->out));
}

PyObject* pipe_offer(PyObject* self, PyObject* arguments) {
  domain::SlotRef child;
  if (!PyArg_ParseTuple(arguments, "II:_offer", &child.index, &child.generation)) return nullptr;
  const channel::PipeEnd end = as_pipe(self)->end();
  GilRelease released;
  Status status;
  for (const channel::ChannelPtr& channel : {end.in(), end.out()}) {
    if (channel && status) status = channel->offer(child);
  }
  released.acquire();
  if (!status) return raise(status);
  Py_RETURN_NONE;
}

// Opens the channels of these ids (as from _ids) for an object that has its handle already.
PyObject* pipe_open(PyObject* self, PyObject* arguments) {
  PyObject* names[2] = {};
  if (!PyArg_ParseTuple(arguments, "OO:_open", &names[0], &names[1])) return nullptr;
  channel::ChannelId ids[2];
  for (int i = 0; i < 2; ++i) {
    if (names[i] != Py_None && !PyArg_ParseTuple(names[i], "II:_open", &ids[i].index, &ids[i].generation))
      return nullptr;
  }
  channel::ChannelPtr opened[2];
  Status status;
  GilRelease released;
  node::Node* node = node::Node::existing();
  for (int i = 0; i < 2 && status; ++i) {
    if (names[i] == Py_None) continue;
    Result<channel::ChannelPtr> made =
        node ? channel::Channel::open(node->channels(), ids[i])
             : Result<channel::ChannelPtr>(Code::kNotAttached,
                                           "this process is not of the connection's tree of processes");
    status = made.status();
    if (made) opened[i] = *std::move(made);
  }
  released.acquire();
  if (!status) return raise(status);
  as_pipe(self)->in = std::move(opened[0]);
  as_pipe(self)->out = std::move(opened[1]);
  Py_RETURN_NONE;
}

// Makes this object use another object's channels.
PyObject* pipe_share(PyObject* self, PyObject* other) {
  if (!PyObject_TypeCheck(other, pipe_type)) {
    PyErr_SetString(PyExc_TypeError, "a Connection of forklift is needed");
    return nullptr;
  }
  as_pipe(self)->in = as_pipe(other)->in;
  as_pipe(self)->out = as_pipe(other)->out;
  Py_RETURN_NONE;
}

PyObject* pipe_let_go(PyObject* self, PyObject*) {
  drop(*as_pipe(self));
  Py_RETURN_NONE;
}

PyObject* get_handle(PyObject* self, void*) {
  if (as_pipe(self)->handle < 0) Py_RETURN_NONE;
  return PyLong_FromLong(as_pipe(self)->handle);
}
int set_handle(PyObject* self, PyObject* value, void*) {
  long handle = -1;
  if (value && value != Py_None) {
    handle = PyLong_AsLong(value);
    if (handle == -1 && PyErr_Occurred()) return -1;
  }
  as_pipe(self)->handle = static_cast<int>(handle);
  return 0;
}
PyObject* get_native(PyObject* self, void*) { return PyBool_FromLong(as_pipe(self)->native() ? 1 : 0); }

template <bool PipeObject::* Flag>
PyObject* get_flag(PyObject* self, void*) {
  return PyBool_FromLong(as_pipe(self)->*Flag ? 1 : 0);
}
template <bool PipeObject::* Flag>
int set_flag(PyObject* self, PyObject* value, void*) {
  const int truth = value ? PyObject_IsTrue(value) : 0;
  if (truth < 0) return -1;
  as_pipe(self)->*Flag = truth != 0;
  return 0;
}

PyMethodDef pipe_methods[] = {
    {"send", pipe_send, METH_O, "send($self, obj, /)\n--\n\nSend a (picklable) object"},
    {"recv", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(pipe_recv)),
     METH_FASTCALL | METH_KEYWORDS,
     "recv($self, /, *, as_=None, copy=True)\n--\n\nReceive a (picklable) object; as_ and copy as for a "
     "queue's get"},
    {"_send_now", pipe_send_now, METH_O, nullptr},
    {"_recv_now", pipe_recv_now, METH_NOARGS, nullptr},
    {"_taken", pipe_taken, METH_NOARGS, nullptr},
    {"_room_fileno", pipe_room_fileno, METH_O, nullptr},
    {"_send_bytes", pipe_send_raw, METH_O, nullptr},
    {"_take", pipe_take, METH_NOARGS, nullptr},
    {"_wait", pipe_wait, METH_O, nullptr},
    {"_make_selectable", pipe_make_selectable, METH_NOARGS, nullptr},
    {"_ids", pipe_ids, METH_NOARGS, nullptr},
    {"_offer", pipe_offer, METH_VARARGS, nullptr},
    {"_open", pipe_open, METH_VARARGS, nullptr},
    {"_share", pipe_share, METH_O, nullptr},
    {"_let_go", pipe_let_go, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef pipe_attributes[] = {
    {"_handle", get_handle, set_handle, nullptr, nullptr},
    {"_readable", get_flag<&PipeObject::readable>, set_flag<&PipeObject::readable>, nullptr, nullptr},
    {"_writable", get_flag<&PipeObject::writable>, set_flag<&PipeObject::writable>, nullptr, nullptr},
    {"_native", get_native, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

// make_pipe(first, second, duplex): connects two new objects.
PyObject* make_pipe(PyObject*, PyObject* arguments) {
  PyObject* first = nullptr;
  PyObject* second = nullptr;
  int duplex = 0;
  if (!PyArg_ParseTuple(arguments, "O!O!p:make_pipe", pipe_type, &first, pipe_type, &second, &duplex))
    return nullptr;
  GilRelease released;
  const Result<node::Node*> node = node::Node::current();
  Result<channel::PipePair> made =
      node ? channel::make_pipe((*node)->channels(), duplex != 0) : node.status();
  released.acquire();
  if (!made) return raise_pipe_failure(made.status());
  PipeObject& left = *as_pipe(first);
  PipeObject& right = *as_pipe(second);
  left.handle = made->first_fd.release();
  right.handle = made->second_fd.release();
  left.writable = right.readable = duplex != 0;
  left.in = made->second_to_first;
  right.out = std::move(made->second_to_first);
  left.out = made->first_to_second;
  right.in = std::move(made->first_to_second);
  Py_RETURN_NONE;
}

PyObject* set_standard(PyObject*, PyObject* type) {
  Py_XSETREF(standard_class, Py_NewRef(type));
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"make_pipe", make_pipe, METH_VARARGS, nullptr},
    {"set_standard_connection", set_standard, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_pipe_type(PyObject* module) {
  PyType_Slot slots[] = {
      {Py_tp_methods, pipe_methods},
      {Py_tp_new, reinterpret_cast<void*>(pipe_new)},
      {Py_tp_dealloc, reinterpret_cast<void*>(pipe_dealloc)},
      {Py_tp_getset, pipe_attributes},
      {0, nullptr},
  };
  PyType_Spec spec = {"forklift._core.PipeCore", sizeof(PipeObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) return -1;
  pipe_type = reinterpret_cast<PyTypeObject*>(type);
  return PyModule_AddObjectRef(module, "PipeCore", type) == 0 ? PyModule_AddFunctions(module, functions) : -1;
}

}  // namespace forklift::py
