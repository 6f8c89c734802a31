// The base types of Broadcast and Latest, whose Python classes are in forklift/objects/broadcast.py. Objects
// travel as in queues, but a receiver copies what it is to own, since other receivers get the same message.
#include "bindings/endpoints/topic.h"

#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "bindings/core/errors.h"
#include "bindings/core/frames.h"
#include "bindings/core/gil.h"
#include "bindings/endpoints/queue_object.h"
#include "bindings/inspect/inspect.h"
#include "bindings/message/transfer.h"
#include "node/node.h"
#include "topic/topic.h"

namespace forklift::py {

namespace {

using topic::ReaderPtr;
using topic::Topic;
using topic::TopicPtr;

struct TopicObject {
  PyObject ob_base;
  TopicPtr topic;
};
struct ReaderObject {
  PyObject ob_base;
  ReaderPtr reader;
};

TopicObject* as_topic(PyObject* self) { return reinterpret_cast<TopicObject*>(self); }
ReaderObject* as_reader(PyObject* self) { return reinterpret_cast<ReaderObject*>(self); }

template <class Object, class Held>
PyObject* make_object(PyTypeObject* type, Held Object::* held) {
  auto* object = reinterpret_cast<Object*>(type->tp_alloc(type, 0));
  if (object) new (&(object->*held)) Held;
  return reinterpret_cast<PyObject*>(object);
}

// The last holder of a topic empties it, and a reader that leaves takes its lock: without the interpreter
// lock.
template <class Object, class Held>
void free_object(PyObject* self, Held Object::* held) {
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

PyObject* topic_new(PyTypeObject* type, PyObject*, PyObject*) {
  return make_object(type, &TopicObject::topic);
}
void topic_dealloc(PyObject* self) { free_object(self, &TopicObject::topic); }
PyObject* reader_new(PyTypeObject* type, PyObject*, PyObject*) {
  return make_object(type, &ReaderObject::reader);
}
void reader_dealloc(PyObject* self) { free_object(self, &ReaderObject::reader); }

TopicPtr topic_of(PyObject* self) {
  if (!as_topic(self)->topic) PyErr_Format(PyExc_ValueError, "%.200s is closed", Py_TYPE(self)->tp_name);
  return as_topic(self)->topic;
}
ReaderPtr reader_of(PyObject* self) {
  if (!as_reader(self)->reader) PyErr_SetString(PyExc_ValueError, "this reader was never opened");
  return as_reader(self)->reader;
}

PyObject* done_or_raise(const Status& status) {
  if (!status) return raise(status);
  Py_RETURN_NONE;
}

PyObject* topic_create(PyObject* self, PyObject* arguments) {
  topic::TopicOptions options;
  unsigned char slow = 0;
  if (!PyArg_ParseTuple(arguments, "IIIb:_create", &options.capacity, &options.slot_bytes, &options.keep,
                        &slow))
    return nullptr;
  options.when_slow = static_cast<topic::WhenSlow>(slow);
  GilRelease released;
  const Result<node::Node*> node = node::Node::current();
  Result<TopicPtr> made = node ? Topic::create((*node)->topics(), options) : Result<TopicPtr>(node.status());
  released.acquire();
  if (!made) return raise(made.status());
  as_topic(self)->topic = *std::move(made);
  label_with_line(as_topic(self)->topic->label());
  Py_RETURN_NONE;
}

PyObject* topic_open(PyObject* self, PyObject* arguments) {
  topic::TopicId id;
  if (!PyArg_ParseTuple(arguments, "II:_open", &id.index, &id.generation)) return nullptr;
  GilRelease released;
  node::Node* node = node::Node::existing();
  Result<TopicPtr> opened =
      node ? Topic::open(node->topics(), id)
           : Result<TopicPtr>(Code::kNotAttached, "this process was not started by the object's owner");
  released.acquire();
  if (!opened) return raise(opened.status());
  as_topic(self)->topic = *std::move(opened);
  Py_RETURN_NONE;
}

PyObject* topic_offer(PyObject* self, PyObject* arguments) {
  domain::SlotRef child;
  if (!PyArg_ParseTuple(arguments, "II:_offer", &child.index, &child.generation)) return nullptr;
  const TopicPtr topic = topic_of(self);
  if (!topic) return nullptr;
  GilRelease released;
  const Status status = topic->offer(child);
  released.acquire();
  return done_or_raise(status);
}

PyObject* topic_id(PyObject* self, PyObject*) {
  const TopicPtr topic = topic_of(self);
  return topic ? Py_BuildValue("(II)", topic->id().index, topic->id().generation) : nullptr;
}

PyObject* topic_close(PyObject* self, PyObject*) {
  TopicPtr topic = std::exchange(as_topic(self)->topic, nullptr);
  const GilRelease released;
  topic.reset();
  Py_RETURN_NONE;
}

// put(obj, timeout): queue.Full when a reader that must be waited for is too slow.
PyObject* topic_put(PyObject* self, PyObject* arguments) {
  PyObject* object = nullptr;
  PyObject* timeout = Py_None;
  Waiting waiting;
  if (!PyArg_ParseTuple(arguments, "O|O:_put", &object, &timeout) || !waiting.parse(nullptr, timeout))
    return nullptr;
  const TopicPtr topic = topic_of(self);
  if (!topic) return nullptr;
  if (topic->finished()) return raise({Code::kClosed, "it is finished: nothing more can be put"});
  const SendResult result =
      send_object(*topic, object, Format::kPython, waiting.deadline, !waiting.deadline.passed(), -1);
  switch (result.sent) {
    case Sent::kDone: Py_RETURN_NONE;
    case Sent::kUnpicklable: return nullptr;
    case Sent::kFailed:
      raise_failure(result.status, "Full");
      if (waiting.deadline.when_ns() != 0)
        note_prospects(result.status, {inspect::Need::kReaders, object_of(*topic), 0});
      return nullptr;
  }
  return nullptr;
}

PyObject* topic_finish(PyObject* self, PyObject*) {
  const TopicPtr topic = topic_of(self);
  if (!topic) return nullptr;
  GilRelease released;
  const Status status = topic->finish();
  released.acquire();
  return done_or_raise(status);
}

PyObject* topic_wait_readers(PyObject* self, PyObject* arguments) {
  unsigned int count = 0;
  PyObject* timeout = Py_None;
  Waiting waiting;
  if (!PyArg_ParseTuple(arguments, "I|O:_wait_readers", &count, &timeout) || !waiting.parse(nullptr, timeout))
    return nullptr;
  const TopicPtr topic = topic_of(self);
  if (!topic) return nullptr;
  GilRelease released;
  PyHooks hooks(released);
  const Status status = topic->wait_readers(count, waiting.deadline, &hooks);
  released.acquire();
  if (status.code() == Code::kTimeout) Py_RETURN_FALSE;
  if (!status) return raise(status);
  Py_RETURN_TRUE;
}

PyObject* get_finished(PyObject* self, void*) {
  const TopicPtr topic = topic_of(self);
  return topic ? PyBool_FromLong(topic->finished() ? 1 : 0) : nullptr;
}
PyObject* get_readers(PyObject* self, void*) {
  const TopicPtr topic = topic_of(self);
  return topic ? PyLong_FromUnsignedLong(topic->readers()) : nullptr;
}
PyObject* get_number(PyObject* self, void*) {
  const TopicPtr topic = topic_of(self);
  return topic ? PyLong_FromUnsignedLongLong(topic->number()) : nullptr;
}

// --- readers

PyTypeObject* topic_type = nullptr;

PyObject* topic_argument(PyObject* topic) {
  if (PyObject_TypeCheck(topic, topic_type)) return topic;
  PyErr_SetString(PyExc_TypeError, "a Broadcast or Latest is needed");
  return nullptr;
}

PyObject* reader_subscribe(PyObject* self, PyObject* arguments) {
  PyObject* source = nullptr;
  int from_oldest = 0;
  if (!PyArg_ParseTuple(arguments, "Op:_subscribe", &source, &from_oldest) || !topic_argument(source))
    return nullptr;
  const TopicPtr topic = topic_of(source);
  if (!topic) return nullptr;
  GilRelease released;
  Result<ReaderPtr> made = topic->subscribe(from_oldest != 0);
  released.acquire();
  if (!made) return raise(made.status());
  as_reader(self)->reader = *std::move(made);
  Py_RETURN_NONE;
}

PyObject* reader_follow(PyObject* self, PyObject* arguments) {
  PyObject* source = nullptr;
  unsigned long long seen = 0;
  if (!PyArg_ParseTuple(arguments, "O|K:_follow", &source, &seen) || !topic_argument(source)) return nullptr;
  const TopicPtr topic = topic_of(source);
  if (!topic) return nullptr;
  as_reader(self)->reader = topic->newest(seen);
  Py_RETURN_NONE;
}

// Raises queue.Empty if nothing came in time, FinishedError or DisconnectedError if nothing will come.
PyObject* raise_unread(const topic::Reader& reader, const Status& status) {
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
  const Endpoint endpoint = peeked ? Endpoint(reader.get(), Endpoint::kPeek) : Endpoint(reader.get());
  PyObject* object = receive_object(endpoint, Format::kPython, deadline, -1, status, &delivery, peeked);
  if (object || status) return object;
  raise_unread(*reader, status);
  if (deadline.when_ns() != 0) note_prospects(status, {inspect::Need::kNews, object_of(*reader->topic()), 0});
  return nullptr;
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
  return number_of(self, [](const topic::Reader& reader) { return reader.missed(); });
}
PyObject* get_behind(PyObject* self, void*) {
  return number_of(self, [](const topic::Reader& reader) { return reader.behind(); });
}
PyObject* get_seen(PyObject* self, void*) {
  return number_of(self, [](const topic::Reader& reader) { return reader.seen(); });
}
PyObject* get_left(PyObject* self, void*) {
  const ReaderPtr reader = reader_of(self);
  return reader ? PyBool_FromLong(reader->left() ? 1 : 0) : nullptr;
}
PyObject* get_mine(PyObject* self, void*) {
  const ReaderPtr reader = reader_of(self);
  return reader ? PyBool_FromLong(reader->mine() ? 1 : 0) : nullptr;
}

PyMethodDef topic_methods[] = {
    {"_create", topic_create, METH_VARARGS, nullptr},
    {"_open", topic_open, METH_VARARGS, nullptr},
    {"_offer", topic_offer, METH_VARARGS, nullptr},
    {"_id", topic_id, METH_NOARGS, nullptr},
    {"_close", topic_close, METH_NOARGS, nullptr},
    {"_put", topic_put, METH_VARARGS, nullptr},
    {"_finish", topic_finish, METH_NOARGS, nullptr},
    {"_wait_readers", topic_wait_readers, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef topic_attributes[] = {
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

int add_topic_types(PyObject* module) {
  PyType_Slot topic_slots[] = {{Py_tp_methods, topic_methods},
                               {Py_tp_getset, topic_attributes},
                               {Py_tp_new, reinterpret_cast<void*>(topic_new)},
                               {Py_tp_dealloc, reinterpret_cast<void*>(topic_dealloc)},
                               {0, nullptr}};
  PyType_Slot reader_slots[] = {{Py_tp_methods, reader_methods},
                                {Py_tp_getset, reader_attributes},
                                {Py_tp_new, reinterpret_cast<void*>(reader_new)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(reader_dealloc)},
                                {0, nullptr}};
  topic_type = make_type(module, "forklift._core.TopicCore", sizeof(TopicObject), topic_slots);
  return topic_type && make_type(module, "forklift._core.ReaderCore", sizeof(ReaderObject), reader_slots)
             ? 0
             : -1;
}

}  // namespace forklift::py
