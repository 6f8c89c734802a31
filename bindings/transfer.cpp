#include "transfer.h"

#include <time.h>

#include <algorithm>
#include <string>

#include "arrival.h"
#include "draft.h"
#include "errors.h"
#include "gil.h"
#include "native.h"
#include "pickling.h"
#include "portable.h"
#include "stats.h"
#include "tensor/memory_wait.h"
#include "tensor/transport.h"

namespace forklift::py {

namespace {

// As tensor::with_memory, for a call that may wait.
template <class Attempt>
Status with_memory(arena::Arena& arena, std::size_t bytes, os::Deadline deadline, bool block, PyHooks& hooks,
                   Attempt&& attempt) {
  if (!block) return attempt();
  return tensor::with_memory(
      arena, bytes, deadline, [&] { return hooks.poll(); }, attempt);
}

}  // namespace

Status send_draft(arena::Arena& arena, Draft& draft, os::Deadline deadline, bool block, int orphan_fd,
                  const Put& put) {
  GilRelease released;
  PyHooks hooks(released);
  hooks.orphan_fd = orphan_fd;
  const std::span<const std::byte> bytes(draft.bytes.data(), draft.bytes.size());
  Status status = with_memory(arena, draft.block_bytes + bytes.size(), deadline, block, hooks, [&] {
    if (Status filled = draft.fill(arena); !filled) return filled;
    if (!draft.moves.empty()) {
      // Before anybody can receive it: what is written from now on is written to the shared memory.
      released.acquire();
      draft.settle();
      released.release();
      if (Status filled = draft.fill(arena); !filled) return filled;
    }
    return put({bytes, draft.leases, draft.codec, 0, false, draft.block_bytes}, hooks);
  });
  draft.leases.clear();
  draft.shares.clear();
  return status;
}

namespace {

Status send_parcel(Way way, const Value& value, os::Deadline deadline, bool block, int orphan_fd) {
  GilRelease released;
  PyHooks hooks(released);
  hooks.orphan_fd = orphan_fd;
  arena::Arena& arena = way.arena();
  tensor::Parcel parcel(arena);
  Status status = with_memory(arena, 0, deadline, block, hooks, [&] {
    if (parcel.bytes().empty()) {
      if (Status added = parcel.add(value); !added) {
        parcel.clear();
        return added;
      }
    }
    return way.put(parcel.message(), deadline, hooks);
  });
  if (status) {
    for (const arena::LeasePtr& lease : parcel.leases()) count_block_bytes(lease->size());
    bump(counters.inline_bytes, parcel.bytes().size());
  }
  return status;
}

SendResult outcome(Status status) {
  if (status) {
    bump(counters.messages_put, 1);
    return {};
  }
  return {Sent::kFailed, std::move(status)};
}

}  // namespace

SendResult send_object(Way way, PyObject* object, Dialect dialect, os::Deadline deadline, bool block,
                       int orphan_fd) {
  if (dialect != Dialect::kPython) {
    Value value;
    if (!to_value(object, value)) return {Sent::kUnpicklable, {}};
    SendResult result = outcome(send_parcel(way, value, deadline, block, orphan_fd));
    drop_value(std::move(value));
    return result;
  }
  const DraftLoan draft;
  switch (encode_native(object, *draft)) {
    case Encoded::kDone: break;
    case Encoded::kFailed: return {Sent::kUnpicklable, {}};
    case Encoded::kElsewhere:
      if (!encode_pickle(object, *draft)) return {Sent::kUnpicklable, {}};
  }
  const std::size_t inline_bytes = draft->bytes.size();
  auto put = [&](const channel::Outgoing& message, PyHooks& hooks) {
    return way.put(message, deadline, hooks);
  };
  SendResult result = outcome(send_draft(way.arena(), *draft, deadline, block, orphan_fd, Put(put)));
  if (result.sent == Sent::kDone) bump(counters.inline_bytes, inline_bytes);
  return result;
}

Status send_made(Way way, const channel::Outgoing& message, os::Deadline deadline, int orphan_fd) {
  GilRelease released;
  PyHooks hooks(released);
  hooks.orphan_fd = orphan_fd;
  Status status = way.put(message, deadline, hooks);
  if (status) bump(counters.messages_put, 1);
  return status;
}

Result<arena::LeasePtr> allocate_patiently(Way way, arena::Kind kind, std::size_t bytes,
                                           os::Deadline deadline, bool block) {
  GilRelease released;
  PyHooks hooks(released);
  arena::Arena& arena = way.arena();
  arena::LeasePtr lease;
  Status status = with_memory(arena, bytes, deadline, block, hooks, [&] {
    Result<arena::LeasePtr> made = arena.allocate(kind, bytes);
    if (made) lease = *std::move(made);
    return made ? Status() : made.status();
  });
  if (!status) return status;
  return lease;
}

namespace {

// Takes a message. False: `status` says why not.
bool take(Way way, Arrival& arrival, os::Deadline deadline, int orphan_fd, Status& status) {
  GilRelease released;
  PyHooks hooks(released);
  hooks.orphan_fd = orphan_fd;
  status = way.get(arrival.message, deadline, hooks);
  if (status) arrival.isolate(way.has_others());
  released.acquire();
  if (status) bump(counters.messages_got, 1);
  return status.ok();
}

// Bytes that a pipe's other end sent as bytes: a pickle, if the program asks for an object.
PyObject* unpickle(std::span<const std::byte> bytes) {
  static PyObject* const loads = import_attribute("pickle", "loads");
  if (!loads) return nullptr;
  PyObject* text = PyBytes_FromStringAndSize(reinterpret_cast<const char*>(bytes.data()),
                                             static_cast<Py_ssize_t>(bytes.size()));
  if (!text) return nullptr;
  PyObject* object = PyObject_CallOneArg(loads, text);
  Py_DECREF(text);
  return object;
}

PyObject* decode(Way way, Arrival& arrival, Dialect dialect, Status& status) {
  switch (arrival.message.codec()) {
    case tensor::kNativeCodec: return decode_native(arrival);
    case tensor::kPickleCodec: return decode_pickle(arrival);
    case tensor::kPortableCodec: return from_message(arrival, dialect != Dialect::kPortableTensors);
    case tensor::kRawCodec:
      if (way.is_pipe() && arrival.message.tag() == 0) return unpickle(arrival.message.bytes());
      PyErr_SetString(
          PyExc_TypeError,
          "the message is an object of a C++ type; a queue with a Python end must be one of portable "
          "values (Queue<Value>, Queue<Tensor>)");
      return nullptr;
    default:
      status = {Code::kCorrupt, "a message has the unknown codec " + std::to_string(arrival.message.codec())};
      return nullptr;
  }
}

}  // namespace

PyObject* receive_object(Way way, Dialect dialect, os::Deadline deadline, int orphan_fd, Status& status,
                         const Delivery* delivery) {
  const ArrivalLoan arrival;
  if (!take(way, *arrival, deadline, orphan_fd, status)) return nullptr;
  if (!delivery) return decode(way, *arrival, dialect, status);
  const Delivery::Scope scope(delivery);
  return delivery->finish(decode(way, *arrival, dialect, status));
}

PyObject* receive_raw_or_object(Way way, os::Deadline deadline, Status& status, bool* raw) {
  const ArrivalLoan arrival;
  if (!take(way, *arrival, deadline, -1, status)) return nullptr;
  *raw = arrival->message.codec() == tensor::kRawCodec && arrival->message.tag() == 0;
  if (!*raw) return decode(way, *arrival, Dialect::kPython, status);
  const std::span<const std::byte> bytes = arrival->message.bytes();
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(bytes.data()),
                                   static_cast<Py_ssize_t>(bytes.size()));
}

Status send_raw(Way way, std::span<const std::byte> bytes, os::Deadline deadline) {
  GilRelease released;
  PyHooks hooks(released);
  Status status = with_memory(way.arena(), bytes.size(), deadline, true, hooks, [&] {
    return way.put({bytes, {}, tensor::kRawCodec, 0}, deadline, hooks);
  });
  released.acquire();
  if (status) {
    bump(counters.messages_put, 1);
    bump(counters.inline_bytes, bytes.size());
  }
  return status;
}

}  // namespace forklift::py
