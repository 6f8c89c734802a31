#include "bindings/endpoints/batches.h"

#include "bindings/core/errors.h"
#include "bindings/endpoints/queue_object.h"
#include "bindings/inspect/inspect.h"
#include "bindings/message/batch.h"

namespace forklift::py {

namespace {

// The exception that is set gets an attribute. Steals `value`; without it the exception stays as it is.
void note_on_error(const char* name, PyObject* value) {
  PyObject* error = take_exception();
  if (!value || PyObject_SetAttrString(error, name, value) != 0) PyErr_Clear();
  Py_XDECREF(value);
  put_exception(error);
}

PyObject* raise_batch_failure(const Status& status) {
  if (status.code() != Code::kTimeout) return raise_failure(status, "Full");
  return raise_error("BatchFull",
                     "the queue was full: `put` says how many objects were put, `left` has the rest");
}

// What is done about an object that cannot be pickled: nullptr with an exception set ends the call.
using Unpicklable = PyObject* (*)(PyObject * self, PyObject* object);

// Adds every object of the iterator. False with an exception set.
bool put_each(PyObject* self, PyObject* iterator, BatchPut& batch, Unpicklable unpicklable) {
  for (;;) {
    PyObject* object = PyIter_Next(iterator);
    if (!object) {
      // What came before an exception of the iterator is put, as if each had been put by itself.
      PyObject* error = take_exception();
      const SendResult result = batch.flush();
      if (result.sent != Sent::kDone) {
        Py_XDECREF(error);
        raise_batch_failure(result.status);
        return false;
      }
      if (error) put_exception(error);
      return error == nullptr;
    }
    const SendResult result = batch.add(object);
    if (result.sent == Sent::kFailed) {
      raise_batch_failure(result.status);
      return false;
    }
    if (result.sent == Sent::kUnpicklable) {
      PyObject* dealt_with = unpicklable(self, object);
      if (!dealt_with) return false;
      Py_DECREF(dealt_with);
      batch.drop_newest();
    }
  }
}

PyObject* put_batch(PyObject* self, PyObject* iterable, os::Deadline deadline, Unpicklable unpicklable) {
  // A reducer or the iterable may close or drop the queue meanwhile.
  const channel::ChannelPtr channel = as_queue(self)->channel;
  PyObject* iterator = PyObject_GetIter(iterable);
  if (!iterator) return nullptr;
  BatchPut batch(*channel, as_queue(self)->format, deadline, as_queue(self)->orphan_fd);
  const bool all = put_each(self, iterator, batch, unpicklable);
  Py_DECREF(iterator);
  as_queue(self)->used = true;
  if (all) return PyLong_FromSize_t(batch.put());
  PyObject* error = take_exception();
  PyObject* put = PyLong_FromSize_t(batch.put());
  PyObject* left = batch.left();
  put_exception(error);
  note_on_error("put", put);
  note_on_error("left", left);
  return nullptr;
}

// Of a queue that delivers at least once: each message is a claim of its own. One that cannot be decoded goes back, and
// the next call meets it.
bool claim_many(QueueObject& queue, const channel::ChannelPtr& channel, std::size_t most,
                os::Deadline deadline, const Delivery& delivery, PyObject* list, Status& status) {
  for (std::size_t i = 0; i < most; ++i) {
    Claims::Getting getting(queue, channel);
    PyObject* object = receive_object(*channel, queue.format, i == 0 ? deadline : os::Deadline::after_ns(0),
                                      queue.orphan_fd, status, &delivery, nullptr, getting.receipt());
    PyObject* error = object ? nullptr : take_exception();
    getting.settle(object, status);
    if (!object) {
      if (i == 0 && error) {
        put_exception(error);
        return false;
      }
      Py_XDECREF(error);
      return true;
    }
    const bool appended = PyList_Append(list, object) == 0;
    Py_DECREF(object);
    if (!appended) return false;
  }
  return true;
}

PyObject* get_batch(PyObject* self, std::size_t most, os::Deadline deadline, PyObject* as, bool may_be_none) {
  QueueObject* queue = as_queue(self);
  Delivery delivery;
  if (!open_delivery(delivery, *queue, as)) return nullptr;
  const channel::ChannelPtr channel = queue->channel;
  PyObject* list = PyList_New(0);
  if (!list) return nullptr;
  Status status;
  const bool decoded =
      channel->redelivers()
          ? claim_many(*queue, channel, most, deadline, delivery, list, status)
          : receive_many(*channel, queue->format, most, deadline, queue->orphan_fd, delivery, list, status);
  after_get(*queue, *channel);
  const bool came = PyList_GET_SIZE(list) != 0;
  const bool ended = status.code() == Code::kTimeout || status.code() == Code::kClosed;
  if (decoded && (status || (ended && (came || may_be_none)))) return list;
  if (decoded) {
    raise_failure(status, "Empty");
    if (deadline.when_ns() != 0) note_prospects(status, {inspect::Need::kMessage, object_of(*channel), 0});
  }
  if (came) {
    note_on_error("got", list);
  } else {
    Py_DECREF(list);
  }
  return nullptr;
}

// How many objects a call wants. False with an exception set.
bool parse_most(PyObject* object, std::size_t& most) {
  const Py_ssize_t number = PyNumber_AsSsize_t(object, PyExc_OverflowError);
  if (number == -1 && PyErr_Occurred()) return false;
  if (number < 1) {
    PyErr_Format(PyExc_ValueError, "get_many() of at most %zd objects: max must be 1 or more", number);
    return false;
  }
  most = static_cast<std::size_t>(number);
  return true;
}

PyObject* unpicklable_in_simple(PyObject*, PyObject*) { return nullptr; }

}  // namespace

PyObject* queue_put_many(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  static const char* const names[] = {"iterable", "timeout"};
  PyObject* given[2] = {};
  Waiting waiting;
  if (!parse_arguments("put_many", arguments, count, keywords, names, 2, 1, given) ||
      !waiting.parse(nullptr, given[1]))
    return nullptr;
  if (as_queue(self)->closed) return raise_closed(self);
  return usable(*as_queue(self)) ? put_batch(self, given[0], waiting.deadline, report_unpicklable) : nullptr;
}

PyObject* queue_get_many(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  static const char* const names[] = {"max", "timeout", "as_"};
  PyObject* given[3] = {};
  Waiting waiting;
  std::size_t most = 0;
  if (!parse_arguments("get_many", arguments, count, keywords, names, 3, 1, given, 2) ||
      !waiting.parse(nullptr, given[1]) || !parse_most(given[0], most))
    return nullptr;
  if (as_queue(self)->closed) return raise_closed(self);
  return usable(*as_queue(self)) ? get_batch(self, most, waiting.deadline, given[2], false) : nullptr;
}

PyObject* queue_drain(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  PyObject* as = nullptr;
  if ((count != 0 || keywords) && !only_as("drain", arguments, count, keywords, as)) return nullptr;
  if (as_queue(self)->closed) return raise_closed(self);
  if (!usable(*as_queue(self))) return nullptr;
  const std::size_t there = as_queue(self)->channel->size();
  return get_batch(self, there, os::Deadline::after_ns(0), as, true);
}

PyObject* simple_put_many(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  static const char* const names[] = {"iterable"};
  PyObject* given[1] = {};
  if (!parse_arguments("put_many", arguments, count, keywords, names, 1, 1, given)) return nullptr;
  if (as_queue(self)->writer_closed) return raise_handle_closed();
  return usable(*as_queue(self)) ? put_batch(self, given[0], os::Deadline::never(), unpicklable_in_simple)
                                 : nullptr;
}

PyObject* simple_get_many(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  static const char* const names[] = {"max", "as_"};
  PyObject* given[2] = {};
  std::size_t most = 0;
  if (!parse_arguments("get_many", arguments, count, keywords, names, 2, 1, given, 1) ||
      !parse_most(given[0], most))
    return nullptr;
  if (as_queue(self)->reader_closed) return raise_handle_closed();
  return usable(*as_queue(self)) ? get_batch(self, most, os::Deadline::never(), given[1], false) : nullptr;
}

PyObject* simple_drain(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  PyObject* as = nullptr;
  if ((count != 0 || keywords) && !only_as("drain", arguments, count, keywords, as)) return nullptr;
  if (as_queue(self)->reader_closed) return raise_handle_closed();
  if (!usable(*as_queue(self))) return nullptr;
  const std::size_t there = as_queue(self)->channel->size();
  return get_batch(self, there, os::Deadline::after_ns(0), as, true);
}

}  // namespace forklift::py
