// Objects through a channel: what put and get of every Python queue come down to.
#pragma once

#include <Python.h>

#include "channel/channel.h"
#include "foreign.h"
#include "os/clock.h"

namespace forklift::py {

enum class Sent : std::uint8_t {
  kDone,
  kUnpicklable,  // an exception of the pickling is set; nothing was sent
  kFailed        // kTimeout and the like: see `status`; kInterrupted and kInvalid have an exception set
};

struct SendResult {
  Sent sent = Sent::kDone;
  Status status;
};

// What travels in the channel.
enum class Dialect : std::uint8_t {
  kPython,          // any object
  kPortable,        // values that a C++ end understands; a received tensor becomes a NumPy array
  kPortableTensors  // the same; a received tensor becomes a forklift.Tensor
};

// Needs the interpreter lock and releases it while it waits or copies. `block`: whether memory over the
// budget is waited for.
SendResult send_object(channel::Channel& channel, PyObject* object, Dialect dialect, os::Deadline deadline,
                       bool block, int orphan_fd);
// New reference; or nullptr, with `status` failed, or with an exception set and `status` ok. `orphan_fd`: see
// PyHooks. `delivery`: what its arrays are to be.
PyObject* receive_object(channel::Channel& channel, Dialect dialect, os::Deadline deadline, int orphan_fd,
                         Status& status, const Delivery* delivery = nullptr);

}  // namespace forklift::py
