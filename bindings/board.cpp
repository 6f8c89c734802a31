// Broadcast and Latest: what their Python classes (forklift/broadcast.py) are made of. Objects travel as in
// queues; what a receiver is to have for itself is copied, since there are others.
#include "board.h"

#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "channel/board.h"
#include "channel/hub.h"
#include "errors.h"
#include "gil.h"
#include "queue_object.h"
#include "transfer.h"

namespace forklift::py {

namespace {

using channel::Board;
using channel::BoardPtr;
using channel::ReaderPtr;

struct BoardObject {
  PyObject ob_base;
  BoardPtr board;
};
struct ReaderObject {
  PyObject ob_base;
  ReaderPtr reader;
};

BoardObject* as_board(PyObject* self) { return reinterpret_cast<BoardObject*>(self); }
ReaderObject* as_reader(PyObject* self) { return reinterpret_cast<ReaderObject*>(self); }

template <class Object, class Held>
PyObject* make_object(PyTypeObject* type, Held Object::*held) {
  auto* object = reinterpret_cast<Object*>(type->tp_alloc(type, 0));
  if (object) new (&(object->*held)) Held;
  return reinterpret_cast<PyObject*>(object);
}

// The last holder of a board empties it, and a reader that leaves takes its lock: not with ours.
template <class Object, class Held>
void free_object(PyObject* self, Held Object::*held) {
  PyTypeObject* type = Py_TYPE(self);
  Held last = std::move(reinterpret_cast<Object*>(self)->*held);
  (reinterpret_cast<Object*>(self)->*held).~Held();
  type->tp_free(self);
  Py_DECREF(type);
  if (last) {
    const GilRelease released;
    last.reset();
  }
}

PyObject* board_new(PyTypeObject* type, PyObject*, PyObject*) {
  return make_object(type, &BoardObject::board);
}
void board_dealloc(PyObject* self) { free_object(self, &BoardObject::board); }
PyObject* reader_new(PyTypeObject* type, PyObject*, PyObject*) {
  return make_object(type, &ReaderObject::reader);
}
void reader_dealloc(PyObject* self) { free_object(self, &ReaderObject::reader); }

BoardPtr board_of(PyObject* self) {
  if (!as_board(self)->board) PyErr_Format(PyExc_ValueError, "%.200s is closed", Py_TYPE(self)->tp_name);
  return as_board(self)->board;
}
ReaderPtr reader_of(PyObject* self) {
  if (!as_reader(self)->reader) PyErr_SetString(PyExc_ValueError, "this reader was never opened");
  return as_reader(self)->reader;
}

PyObject* done_or_raise(const Status& status) {
  if (!status) return raise(status);
  Py_RETURN_NONE;
}

PyObject* raise_error(const char* name, const char* text) {
  PyObject* type = import_attribute("forklift.errors", name);
  if (type) PyErr_SetString(type, text);
  Py_XDECREF(type);
  return nullptr;
}

PyObject* board_create(PyObject* self, PyObject* arguments) {
  channel::BoardOptions options;
  unsigned char slow = 0;
  if (!PyArg_ParseTuple(arguments, "IIIb:_create", &options.capacity, &options.slot_bytes, &options.keep,
                        &slow))
    return nullptr;
  options.when_slow = static_cast<channel::WhenSlow>(slow);
  GilRelease released;
  const Result<channel::Hub*> hub = channel::Hub::current();
  Result<BoardPtr> made = hub ? Board::create(**hub, options) : Result<BoardPtr>(hub.status());
  released.acquire();
  if (!made) return raise(made.status());
  as_board(self)->board = *std::move(made);
  Py_RETURN_NONE;
}

PyObject* board_open(PyObject* self, PyObject* arguments) {
  channel::BoardId id;
  if (!PyArg_ParseTuple(arguments, "II:_open", &id.index, &id.generation)) return nullptr;
  GilRelease released;
  channel::Hub* hub = channel::Hub::existing();
  Result<BoardPtr> opened =
      hub ? Board::open(*hub, id)
          : Result<BoardPtr>(Code::kNotAttached, "this process was not started by the object's owner");
  released.acquire();
  if (!opened) return raise(opened.status());
  as_board(self)->board = *std::move(opened);
  Py_RETURN_NONE;
}

PyObject* board_offer(PyObject* self, PyObject* arguments) {
  domain::SlotRef child;
  if (!PyArg_ParseTuple(arguments, "II:_offer", &child.index, &child.generation)) return nullptr;
  const BoardPtr board = board_of(self);
  if (!board) return nullptr;
  GilRelease released;
  const Status status = board->offer(child);
  released.acquire();
  return done_or_raise(status);
}

PyObject* board_id(PyObject* self, PyObject*) {
  const BoardPtr board = board_of(self);
  return board ? Py_BuildValue("(II)", board->id().index, board->id().generation) : nullptr;
}

PyObject* board_close(PyObject* self, PyObject*) {
  BoardPtr board = std::exchange(as_board(self)->board, nullptr);
  const GilRelease released;
  board.reset();
  Py_RETURN_NONE;
}

// put(obj, timeout): queue.Full when a reader that must be waited for is too slow.
PyObject* board_put(PyObject* self, PyObject* arguments) {
  PyObject* object = nullptr;
  PyObject* timeout = Py_None;
  Waiting waiting;
  if (!PyArg_ParseTuple(arguments, "O|O:_put", &object, &timeout) || !waiting.parse(nullptr, timeout))
    return nullptr;
  const BoardPtr board = board_of(self);
  if (!board) return nullptr;
  if (board->finished()) return raise({Code::kClosed, "it is finished: nothing more can be put"});
  const SendResult result =
      send_object(*board, object, Dialect::kPython, waiting.deadline, !waiting.deadline.passed(), -1);
  switch (result.sent) {
    case Sent::kDone: Py_RETURN_NONE;
    case Sent::kUnpicklable: return nullptr;
    case Sent::kFailed: return raise_failure(result.status, "Full");
  }
  return nullptr;
}

PyObject* board_finish(PyObject* self, PyObject*) {
  const BoardPtr board = board_of(self);
  if (!board) return nullptr;
  GilRelease released;
  const Status status = board->finish();
  released.acquire();
  return done_or_raise(status);
}

PyObject* board_wait_readers(PyObject* self, PyObject* arguments) {
  unsigned int count = 0;
  PyObject* timeout = Py_None;
  Waiting waiting;
  if (!PyArg_ParseTuple(arguments, "I|O:_wait_readers", &count, &timeout) || !waiting.parse(nullptr, timeout))
    return nullptr;
  const BoardPtr board = board_of(self);
  if (!board) return nullptr;
  GilRelease released;
  PyHooks hooks(released);
  const Status status = board->wait_readers(count, waiting.deadline, &hooks);
  released.acquire();
  if (status.code() == Code::kTimeout) Py_RETURN_FALSE;
  if (!status) return raise(status);
  Py_RETURN_TRUE;
}

PyObject* get_finished(PyObject* self, void*) {
  const BoardPtr board = board_of(self);
  return board ? PyBool_FromLong(board->finished() ? 1 : 0) : nullptr;
}
PyObject* get_readers(PyObject* self, void*) {
  const BoardPtr board = board_of(self);
  return board ? PyLong_FromUnsignedLong(board->readers()) : nullptr;
}
PyObject* get_number(PyObject* self, void*) {
  const BoardPtr board = board_of(self);
  return board ? PyLong_FromUnsignedLongLong(board->number()) : nullptr;
}

// --- readers

PyTypeObject* board_type = nullptr;

PyObject* board_argument(PyObject* board) {
  if (PyObject_TypeCheck(board, board_type)) return board;
  PyErr_SetString(PyExc_TypeError, "a Broadcast or Latest is needed");
  return nullptr;
}

PyObject* reader_subscribe(PyObject* self, PyObject* arguments) {
  PyObject* source = nullptr;
  int from_oldest = 0;
  if (!PyArg_ParseTuple(arguments, "Op:_subscribe", &source, &from_oldest) || !board_argument(source))
    return nullptr;
  const BoardPtr board = board_of(source);
  if (!board) return nullptr;
  GilRelease released;
  Result<ReaderPtr> made = board->subscribe(from_oldest != 0);
  released.acquire();
  if (!made) return raise(made.status());
  as_reader(self)->reader = *std::move(made);
  Py_RETURN_NONE;
}

PyObject* reader_follow(PyObject* self, PyObject* arguments) {
  PyObject* source = nullptr;
  unsigned long long seen = 0;
  if (!PyArg_ParseTuple(arguments, "O|K:_follow", &source, &seen) || !board_argument(source)) return nullptr;
  const BoardPtr board = board_of(source);
  if (!board) return nullptr;
  as_reader(self)->reader = board->newest(seen);
  Py_RETURN_NONE;
}

// Empty where there was nothing in time; FinishedError, DisconnectedError where there will be nothing.
PyObject* raise_unread(const channel::Reader& reader, const Status& status) {
  if (status.code() != Code::kClosed) return raise_failure(status, "Empty");
  if (reader.disconnected())
    return raise_error("DisconnectedError", "this reader was too slow and was disconnected");
  if (reader.left()) return raise(status);
  return raise_error("FinishedError", "the broadcast is finished, and everything was read");
}

PyObject* read(const ReaderPtr& reader, os::Deadline deadline, PyObject* framework,
               std::uint64_t* peeked = nullptr) {
  Delivery delivery;
  if (framework && framework != Py_None && !delivery.open(framework)) return nullptr;
  Status status;
  PyObject* object = receive_object(Way(*reader, peeked), Dialect::kPython, deadline, -1, status, &delivery);
  return object || status ? object : raise_unread(*reader, status);
}

// get(timeout, as_)
PyObject* reader_get(PyObject* self, PyObject* arguments) {
  PyObject* timeout = Py_None;
  PyObject* framework = Py_None;
  Waiting waiting;
  if (!PyArg_ParseTuple(arguments, "|OO:_get", &timeout, &framework) || !waiting.parse(nullptr, timeout))
    return nullptr;
  const ReaderPtr reader = reader_of(self);
  return reader ? read(reader, waiting.deadline, framework) : nullptr;
}

PyObject* reader_peek(PyObject* self, PyObject* framework) {
  const ReaderPtr reader = reader_of(self);
  std::uint64_t version = 0;
  return reader ? read(reader, os::Deadline::after_ns(0), framework, &version) : nullptr;
}

PyObject* reader_leave(PyObject* self, PyObject*) {
  const ReaderPtr reader = reader_of(self);
  if (!reader) return nullptr;
  const GilRelease released;
  reader->leave();
  Py_RETURN_NONE;
}

template <class Answer>
PyObject* number_of(PyObject* self, Answer&& answer) {
  const ReaderPtr reader = reader_of(self);
  return reader ? PyLong_FromUnsignedLongLong(answer(*reader)) : nullptr;
}
PyObject* get_missed(PyObject* self, void*) {
  return number_of(self, [](const channel::Reader& reader) { return reader.missed(); });
}
PyObject* get_behind(PyObject* self, void*) {
  return number_of(self, [](const channel::Reader& reader) { return reader.behind(); });
}
PyObject* get_seen(PyObject* self, void*) {
  return number_of(self, [](const channel::Reader& reader) { return reader.seen(); });
}
PyObject* get_left(PyObject* self, void*) {
  const ReaderPtr reader = reader_of(self);
  return reader ? PyBool_FromLong(reader->left() ? 1 : 0) : nullptr;
}
PyObject* get_mine(PyObject* self, void*) {
  const ReaderPtr reader = reader_of(self);
  return reader ? PyBool_FromLong(reader->mine() ? 1 : 0) : nullptr;
}

PyMethodDef board_methods[] = {
    {"_create", board_create, METH_VARARGS, nullptr},
    {"_open", board_open, METH_VARARGS, nullptr},
    {"_offer", board_offer, METH_VARARGS, nullptr},
    {"_id", board_id, METH_NOARGS, nullptr},
    {"_close", board_close, METH_NOARGS, nullptr},
    {"_put", board_put, METH_VARARGS, nullptr},
    {"_finish", board_finish, METH_NOARGS, nullptr},
    {"_wait_readers", board_wait_readers, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef board_attributes[] = {
    {"_finished", get_finished, nullptr, nullptr, nullptr},
    {"_readers", get_readers, nullptr, nullptr, nullptr},
    {"_number", get_number, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyMethodDef reader_methods[] = {
    {"_subscribe", reader_subscribe, METH_VARARGS, nullptr},
    {"_follow", reader_follow, METH_VARARGS, nullptr},
    {"_get", reader_get, METH_VARARGS, nullptr},
    {"_peek", reader_peek, METH_O, nullptr},
    {"_leave", reader_leave, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef reader_attributes[] = {
    {"_missed", get_missed, nullptr, nullptr, nullptr}, {"_behind", get_behind, nullptr, nullptr, nullptr},
    {"_seen", get_seen, nullptr, nullptr, nullptr},     {"_left", get_left, nullptr, nullptr, nullptr},
    {"_mine", get_mine, nullptr, nullptr, nullptr},     {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject* make_type(PyObject* module, const char* name, std::size_t size, PyType_Slot* slots) {
  PyType_Spec spec = {name, static_cast<int>(size), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (!type || PyModule_AddObjectRef(module, std::strrchr(name, '.') + 1, type) != 0) return nullptr;
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace

int add_board_types(PyObject* module) {
  PyType_Slot board_slots[] = {{Py_tp_methods, board_methods},
                               {Py_tp_getset, board_attributes},
                               {Py_tp_new, reinterpret_cast<void*>(board_new)},
                               {Py_tp_dealloc, reinterpret_cast<void*>(board_dealloc)},
                               {0, nullptr}};
  PyType_Slot reader_slots[] = {{Py_tp_methods, reader_methods},
                                {Py_tp_getset, reader_attributes},
                                {Py_tp_new, reinterpret_cast<void*>(reader_new)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(reader_dealloc)},
                                {0, nullptr}};
  board_type = make_type(module, "forklift._core.BoardCore", sizeof(BoardObject), board_slots);
  return board_type && make_type(module, "forklift._core.ReaderCore", sizeof(ReaderObject), reader_slots)
             ? 0
             : -1;
}

}  // namespace forklift::py
