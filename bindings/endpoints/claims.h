// What the threads of this process have got from a queue that delivers at least once, and not acknowledged.
//
//   Claims::Getting getting(queue, channel);       // of a JoinableQueue with redeliver=True: its get() claims
//   PyObject* object = receive_object(*channel, ..., getting.receipt());
//   getting.settle(object, status);                // an object is this thread's newest claim; a failure ends the claim
//   ...
//   std::optional<channel::Receipt> oldest = claims.take(*channel);   // task_done(): this thread's oldest claim
//
// task_done() acknowledges the oldest claim of the thread that calls it. In a forked child the claims of the parent are
// none: they are dropped when they are found.
//
// Thread safety: with the interpreter's lock.
#pragma once

#include <Python.h>

#include <deque>
#include <optional>
#include <unordered_map>

#include "channel/channel.h"

namespace forklift::py {

struct QueueObject;

class Claims {
 public:
  void add(const channel::Receipt& receipt);
  // This thread's oldest claim, which is then in the caller's hands.
  std::optional<channel::Receipt> take(const channel::Channel& channel);

  // One get.
  class Getting {
   public:
    // Of a channel that delivers at most once: nothing.
    Getting(QueueObject& queue, const channel::ChannelPtr& channel);
    channel::Receipt* receipt() noexcept { return claims_ != nullptr ? &receipt_ : nullptr; }
    // After the get. An object that could not be decoded (an exception is set) goes back, and may be decoded elsewhere
    // or become a dead letter; a message that is damaged (`status`) is done.
    void settle(const PyObject* object, const Status& status);

   private:
    const channel::ChannelPtr& channel_;
    Claims* claims_ = nullptr;
    channel::Receipt receipt_;
  };

 private:
  std::unordered_map<unsigned long, std::deque<channel::Receipt>> by_thread_;
};

// The methods of JoinableQueue that end claims; each answers whether there was one.
PyObject* queue_task_done(PyObject* self, PyObject*);
PyObject* queue_give_back(PyObject* self, PyObject*);
PyObject* queue_unacknowledged(PyObject* self, PyObject*);
PyObject* queue_dropped(PyObject* self, PyObject*);

}  // namespace forklift::py
