// Python objects through an endpoint: put and get of all queues, pipes and topics.
#pragma once

#include <Python.h>

#include <span>

#include "bindings/message/foreign.h"
#include "bindings/message/reader.h"
#include "bindings/message/writer.h"
#include "node/endpoint.h"
#include "os/clock.h"

namespace forklift::py {

enum class Sent : std::uint8_t {
  kDone,
  kUnpicklable,  // the object cannot be encoded: an exception is set, and nothing was sent
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

// Encodes the object and puts it. Needs the interpreter lock and releases it while it waits or copies.
// `block`: whether to wait while memory is over the budget. `orphan_fd`: see PyHooks.
SendResult send_object(Endpoint endpoint, PyObject* object, Format format, os::Deadline deadline, bool block,
                       int orphan_fd);
// The same for an object that is encoded already (object.h).
SendResult send_encoded(Endpoint endpoint, MessageWriter& writer, os::Deadline deadline, bool block,
                        int orphan_fd);
// Puts a message that the caller has built. Its leases become empty if it is sent, and stay otherwise.
Status send_made(Endpoint endpoint, const channel::Outgoing& message, os::Deadline deadline, int orphan_fd);
// Allocates a block; with `block`, waits while memory is over the budget. Releases the interpreter lock.
Result<arena::LeasePtr> allocate_patiently(Endpoint endpoint, arena::Kind kind, std::size_t bytes,
                                           os::Deadline deadline, bool block);
// Takes a message and decodes it. New reference; or nullptr, with `status` failed, or with an exception set
// and `status` ok. `delivery`: whose arrays the object is to have. `version`: receives the version of a
// message that was peeked at. `receipt`: the endpoint is a channel that delivers at least once, and the message is
// claimed; it names a place if it was, also where decoding failed.
PyObject* receive_object(Endpoint endpoint, Format format, os::Deadline deadline, int orphan_fd,
                         Status& status, const Delivery* delivery = nullptr, std::uint64_t* version = nullptr,
                         channel::Receipt* receipt = nullptr);

// Decodes a message that was taken: as receive_object().
PyObject* decode_message(Endpoint endpoint, MessageReader& reader, Format format, Status& status);

// Puts bytes without encoding them (codec kRawCodec, tag 0). Through pipes only.
Status send_raw(Endpoint endpoint, std::span<const std::byte> bytes, os::Deadline deadline);
// As receive_object(), but a message that send_raw() put becomes a bytes object, and `*raw` is true then.
PyObject* receive_raw_or_object(Endpoint endpoint, os::Deadline deadline, Status& status, bool* raw);

}  // namespace forklift::py
