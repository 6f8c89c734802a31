// What a queue object is, for the files that implement its methods.
#pragma once

#include <Python.h>

#include <memory>

#include "bindings/endpoints/claims.h"
#include "bindings/endpoints/doorbell.h"
#include "bindings/message/transfer.h"
#include "channel/channel.h"

namespace forklift::py {

struct QueueObject {
  PyObject ob_base;
  channel::ChannelPtr channel;
  std::unique_ptr<Doorbell> bell;
  std::unique_ptr<Doorbell> room_bell;
  std::unique_ptr<Claims> claims;  // of a queue that delivers at least once, after its first get
  Format format;
  bool closed;         // Queue: neither end is used any more by this process
  bool used;           // Queue: this object has put something
  bool reader_closed;  // SimpleQueue and pools: by end
  bool writer_closed;
  bool strict;
  int orphan_fd;
  PyObject* framework;  // whose arrays get() returns; nullptr: as they were sent
};

inline QueueObject* as_queue(PyObject* self) { return reinterpret_cast<QueueObject*>(self); }

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

// False with an exception set if the queue was never opened.
bool usable(const QueueObject& queue);
// True for a subclass that gets the standard library's engine; such a queue has no channel
// (docs/decisions/0140).
bool is_standard(const PyObject* queue);
// Calls that engine's method: the next one of that name in the order of the object's classes.
PyObject* call_standard(PyObject* self, const char* name, PyObject* const* arguments, Py_ssize_t count,
                        PyObject* keywords);
// After a get: arms the bell again where the queue is empty, so that its descriptor does not stay readable.
inline void after_get(QueueObject& queue, const channel::Channel& channel) {
  if (queue.bell && queue.bell->usable() && channel.empty()) queue.bell->rearm();
}

// Fills `out` from positional and keyword arguments; the last ones may be keywords only. False with TypeError
// set.
bool parse_arguments(const char* function, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords,
                     const char* const* names, int most, int needed, PyObject** out, int positional = -1);
// `as` is what the call asked for, nullptr where it did not.
bool open_delivery(Delivery& delivery, const QueueObject& queue, PyObject* as);
// Gives an object that could not be pickled to the queue's hook, as the standard library's feeder thread
// does. With strict=True, and for an exception that is no Exception, the caller gets it.
PyObject* report_unpicklable(PyObject* self, PyObject* object);
PyObject* raise_handle_closed();

// The exceptions of put and get, shared with loans. All return nullptr.
PyObject* raise_failure(const Status& status, const char* timed_out);
PyObject* raise_closed(PyObject* queue);
// The descriptor of a bell, which is made if there is none: -1 with an exception set if it cannot be.
int descriptor_of(std::unique_ptr<Doorbell>& bell, const channel::ChannelPtr& channel, Doorbell::Rings rings);
// (descriptor, armed for the next message that is taken after `taken`)
PyObject* wait_for_room(std::unique_ptr<Doorbell>& bell, const channel::ChannelPtr& channel, PyObject* taken);

// The methods and attributes of the base type (queue_lifetime.cpp).
extern PyMethodDef queue_base_methods[];
extern PyGetSetDef queue_base_attributes[];
extern PyTypeObject* queue_base_type;
PyObject* queue_qsize(PyObject* self, PyObject*);
PyObject* queue_full(PyObject* self, PyObject*);

}  // namespace forklift::py
