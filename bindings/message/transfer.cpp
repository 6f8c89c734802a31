#include "bindings/message/transfer.h"

#include <time.h>

#include <algorithm>
#include <string>

#include "api/memory_wait.h"
#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/core/stats.h"
#include "bindings/message/native.h"
#include "bindings/message/pickling.h"
#include "bindings/message/portable.h"
#include "bindings/message/reader.h"
#include "bindings/message/writer.h"
#include "message/transport.h"

namespace forklift::py {

namespace {

// As tensor::with_memory, for a call that may wait.
template <class Attempt>
Status with_memory(arena::Arena& arena, std::size_t bytes, os::Deadline deadline, bool block, PyHooks& hooks,
                   Attempt&& attempt) {
  if (!block) return attempt();
  return tensor::with_memory(arena, bytes, deadline, [&] { return hooks.poll(); }, attempt);
}

}  // namespace

Status send_message(arena::Arena& arena, MessageWriter& writer, os::Deadline deadline, bool block,
                    int orphan_fd, const Put& put) {
  GilRelease released;
  PyHooks hooks(released);
  hooks.orphan_fd = orphan_fd;
  const std::span<const std::byte> bytes(writer.bytes.data(), writer.bytes.size());
  Status status = with_memory(arena, writer.block_bytes + bytes.size(), deadline, block, hooks, [&] {
    if (Status filled = writer.fill(arena); !filled) return filled;
    if (!writer.moves.empty()) {
      // Before anybody can receive it: what is written from now on is written to the shared memory.
      released.acquire();
      writer.settle();
      released.release();
      if (Status filled = writer.fill(arena); !filled) return filled;
    }
    return put({bytes, writer.leases, writer.codec, 0, false, writer.block_bytes}, hooks);
  });
  writer.leases.clear();
  writer.shares.clear();
  return status;
}

namespace {

Status send_message(Endpoint endpoint, const Value& value, os::Deadline deadline, bool block, int orphan_fd) {
  GilRelease released;
  PyHooks hooks(released);
  hooks.orphan_fd = orphan_fd;
  arena::Arena& arena = node::arena_of(endpoint);
  message::MessageBuilder builder(arena);
  Status status = with_memory(arena, 0, deadline, block, hooks, [&] {
    if (builder.bytes().empty()) {
      if (Status added = builder.add(value); !added) {
        builder.clear();
        return added;
      }
    }
    return node::put(endpoint, builder.message(), deadline, &hooks);
  });
  if (status) {
    for (const arena::LeasePtr& lease : builder.leases()) count_block_bytes(lease->size());
    bump(counters.inline_bytes, builder.bytes().size());
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

SendResult send_object(Endpoint endpoint, PyObject* object, Format format, os::Deadline deadline, bool block,
                       int orphan_fd) {
  if (format != Format::kPython) {
    Value value;
    if (!to_value(object, value)) return {Sent::kUnpicklable, {}};
    SendResult result = outcome(send_message(endpoint, value, deadline, block, orphan_fd));
    drop_value(std::move(value));
    return result;
  }
  const WriterLoan writer;
  switch (encode_native(object, *writer)) {
    case Encoded::kDone: break;
    case Encoded::kFailed: return {Sent::kUnpicklable, {}};
    case Encoded::kUnsupported:
      if (!encode_pickle(object, *writer)) return {Sent::kUnpicklable, {}};
  }
  const std::size_t inline_bytes = writer->bytes.size();
  auto put = [&](const channel::Outgoing& message, PyHooks& hooks) {
    return node::put(endpoint, message, deadline, &hooks);
  };
  SendResult result =
      outcome(send_message(node::arena_of(endpoint), *writer, deadline, block, orphan_fd, Put(put)));
  if (result.sent == Sent::kDone) bump(counters.inline_bytes, inline_bytes);
  return result;
}

Status send_made(Endpoint endpoint, const channel::Outgoing& message, os::Deadline deadline, int orphan_fd) {
  GilRelease released;
  PyHooks hooks(released);
  hooks.orphan_fd = orphan_fd;
  Status status = node::put(endpoint, message, deadline, &hooks);
  if (status) bump(counters.messages_put, 1);
  return status;
}

Result<arena::LeasePtr> allocate_patiently(Endpoint endpoint, arena::Kind kind, std::size_t bytes,
                                           os::Deadline deadline, bool block) {
  GilRelease released;
  PyHooks hooks(released);
  arena::Arena& arena = node::arena_of(endpoint);
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
bool take(Endpoint endpoint, MessageReader& reader, os::Deadline deadline, int orphan_fd, Status& status,
          std::uint64_t* version = nullptr) {
  GilRelease released;
  PyHooks hooks(released);
  hooks.orphan_fd = orphan_fd;
  status = node::get(endpoint, reader.message, deadline, &hooks, version);
  // Others receive the same message of a topic: what is to be one's own must be copied.
  if (status) reader.isolate(endpoint.reader() != nullptr);
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

PyObject* decode(Endpoint endpoint, MessageReader& reader, Format format, Status& status) {
  switch (reader.message.codec()) {
    case message::kNativeCodec: return decode_native(reader);
    case message::kPickleCodec: return decode_pickle(reader);
    case message::kPortableCodec: return from_message(reader, format != Format::kPortableTensors);
    case message::kRawCodec:
      if (endpoint.pipe() != nullptr && reader.message.tag() == 0) return unpickle(reader.message.bytes());
      PyErr_SetString(
          PyExc_TypeError,
          "the message is an object of a C++ type; a queue with a Python end must be one of portable "
          "values (Queue<Value>, Queue<Tensor>)");
      return nullptr;
    default:
      status = {Code::kCorrupt, "a message has the unknown codec " + std::to_string(reader.message.codec())};
      return nullptr;
  }
}

}  // namespace

PyObject* receive_object(Endpoint endpoint, Format format, os::Deadline deadline, int orphan_fd,
                         Status& status, const Delivery* delivery, std::uint64_t* version) {
  const ReaderLoan reader;
  if (!take(endpoint, *reader, deadline, orphan_fd, status, version)) return nullptr;
  if (!delivery) return decode(endpoint, *reader, format, status);
  const Delivery::Scope scope(delivery);
  return delivery->finish(decode(endpoint, *reader, format, status));
}

PyObject* receive_raw_or_object(Endpoint endpoint, os::Deadline deadline, Status& status, bool* raw) {
  const ReaderLoan reader;
  if (!take(endpoint, *reader, deadline, -1, status)) return nullptr;
  *raw = reader->message.codec() == message::kRawCodec && reader->message.tag() == 0;
  if (!*raw) return decode(endpoint, *reader, Format::kPython, status);
  const std::span<const std::byte> bytes = reader->message.bytes();
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(bytes.data()),
                                   static_cast<Py_ssize_t>(bytes.size()));
}

Status send_raw(Endpoint endpoint, std::span<const std::byte> bytes, os::Deadline deadline) {
  GilRelease released;
  PyHooks hooks(released);
  Status status = with_memory(node::arena_of(endpoint), bytes.size(), deadline, true, hooks, [&] {
    return node::put(endpoint, {bytes, {}, message::kRawCodec, 0}, deadline, &hooks);
  });
  released.acquire();
  if (status) {
    bump(counters.messages_put, 1);
    bump(counters.inline_bytes, bytes.size());
  }
  return status;
}

}  // namespace forklift::py
