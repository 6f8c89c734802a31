// Objects through a channel: what put and get of every Python queue come down to.
#pragma once

#include <Python.h>

#include <span>

#include "bindings/message/foreign.h"
#include "node/endpoint.h"
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
enum class Format : std::uint8_t {
  kPython,          // any object
  kPortable,        // values that a C++ end understands; a received tensor becomes a NumPy array
  kPortableTensors  // the same; a received tensor becomes a forklift.Tensor
};

using node::Endpoint;

// Needs the interpreter lock and releases it while it waits or copies. `block`: whether memory over the
// budget is waited for.
SendResult send_object(Endpoint endpoint, PyObject* object, Format format, os::Deadline deadline, bool block,
                       int orphan_fd);
// Puts a message that is made already; its leases are empty afterwards only if it was sent.
Status send_made(Endpoint endpoint, const channel::Outgoing& message, os::Deadline deadline, int orphan_fd);
// A block, waited for as put() waits for memory. Releases the interpreter lock.
Result<arena::LeasePtr> allocate_patiently(Endpoint endpoint, arena::Kind kind, std::size_t bytes,
                                           os::Deadline deadline, bool block);
// New reference; or nullptr, with `status` failed, or with an exception set and `status` ok. `orphan_fd`: see
// PyHooks. `delivery`: what its arrays are to be. `version`: of what was peeked at.
PyObject* receive_object(Endpoint endpoint, Format format, os::Deadline deadline, int orphan_fd,
                         Status& status, const Delivery* delivery = nullptr,
                         std::uint64_t* version = nullptr);

// Bytes as they are (codec kRawCodec, tag 0), through pipes only.
Status send_raw(Endpoint endpoint, std::span<const std::byte> bytes, os::Deadline deadline);
// As receive_object, but a message of bytes comes as a bytes object, and `*raw` says so.
PyObject* receive_raw_or_object(Endpoint endpoint, os::Deadline deadline, Status& status, bool* raw);

}  // namespace forklift::py
