#include "bindings/message/transfer.h"

#include <string>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/core/stats.h"
#include "bindings/message/native.h"
#include "bindings/message/object.h"
#include "bindings/message/pickling.h"
#include "bindings/message/portable.h"
#include "bindings/message/reader.h"
#include "bindings/message/sending.h"
#include "message/transport.h"

namespace forklift::py {

namespace {

// As portable values: tensors become leases, and so do large lists of numbers.
SendResult send_value(Endpoint endpoint, PyObject* object, os::Deadline deadline, bool block, int orphan_fd) {
  Value value;
  if (!to_value(object, value)) return {Sent::kUnpicklable, {}};
  std::size_t inline_bytes = 0;
  Status status;
  {
    GilRelease released;
    PyHooks hooks(released);
    hooks.orphan_fd = orphan_fd;
    arena::Arena& arena = node::arena_of(endpoint);
    message::MessageBuilder builder(arena);
    node::MemoryWait memory(arena, 0, deadline, block);
    do {
      builder.goes_to(node::outgoing_channel(endpoint));
      status = builder.bytes().empty() ? builder.add(value) : Status();
      if (!status) builder.clear();
      if (status) status = node::put(endpoint, builder.message(), deadline, &hooks);
    } while (memory.again(status, &hooks));
    inline_bytes = builder.bytes().size();
    if (status) {
      for (const arena::LeasePtr& lease : builder.leases()) count_block_bytes(lease->size());
    }
    value = Value();  // its tensors may be the last users of their memory
  }
  if (!status) return {Sent::kFailed, std::move(status)};
  count_put(inline_bytes);
  return {};
}

}  // namespace

SendResult send_object(Endpoint endpoint, PyObject* object, Format format, os::Deadline deadline, bool block,
                       int orphan_fd) {
  if (format != Format::kPython) return send_value(endpoint, object, deadline, block, orphan_fd);
  const WriterLoan writer;
  if (!encode_object(object, *writer)) return {Sent::kUnpicklable, {}};
  return send_encoded(endpoint, *writer, deadline, block, orphan_fd);
}

SendResult send_encoded(Endpoint endpoint, MessageWriter& writer, os::Deadline deadline, bool block,
                        int orphan_fd) {
  const std::size_t inline_bytes = writer.message.bytes().size();
  Status status;
  {
    writer.message.goes_to(node::outgoing_channel(endpoint));
    Sending sending(node::arena_of(endpoint), writer, deadline, block, orphan_fd);
    do {
      status = sending.prepare();
      if (status) status = node::put(endpoint, sending.message(), deadline, &sending.hooks());
    } while (sending.again(status));
  }
  if (!status) return {Sent::kFailed, std::move(status)};
  count_put(inline_bytes);
  return {};
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
  node::MemoryWait memory(arena, bytes, deadline, block);
  const channel::Channel* const channel = node::outgoing_channel(endpoint);
  Status status;
  do {
    const int near = channel != nullptr ? channel->reader_node(bytes) : arena::kAnyNode;
    Result<arena::LeasePtr> lease = arena.allocate(kind, bytes, false, near);
    if (lease) return lease;
    status = lease.status();
  } while (memory.again(status, &hooks));
  return status;
}

namespace {

// Takes a message and makes its large arrays this process's own, without the interpreter lock.
Status get_message(Endpoint endpoint, MessageReader& reader, os::Deadline deadline, int orphan_fd,
                   std::uint64_t* version = nullptr, channel::Receipt* receipt = nullptr) {
  Status status;
  {
    GilRelease released;
    PyHooks hooks(released);
    hooks.orphan_fd = orphan_fd;
    status = receipt != nullptr ? endpoint.channel()->claim(reader.message, *receipt, deadline, &hooks)
                                : node::get(endpoint, reader.message, deadline, &hooks, version);
    // Other processes receive the same message of a topic, and may receive one that is claimed, so each one copies what
    // it is to own.
    if (status) reader.isolate(endpoint.reader() != nullptr || receipt != nullptr);
  }
  if (status) count_got();
  return status;
}

// recv() of what the other end sent with send_bytes(): the standard library takes the bytes as a pickle.
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

}  // namespace

PyObject* decode_message(Endpoint endpoint, MessageReader& reader, Format format, Status& status) {
  if (!reader.unopened) {
    status = reader.unopened;
    return nullptr;
  }
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

PyObject* receive_object(Endpoint endpoint, Format format, os::Deadline deadline, int orphan_fd,
                         Status& status, const Delivery* delivery, std::uint64_t* version,
                         channel::Receipt* receipt) {
  const ReaderLoan reader;
  status = get_message(endpoint, *reader, deadline, orphan_fd, version, receipt);
  if (!status) return nullptr;
  reader->lend = delivery != nullptr && delivery->lends();
  if (!delivery) return decode_message(endpoint, *reader, format, status);
  const Delivery::Scope scope(delivery);
  return delivery->finish(decode_message(endpoint, *reader, format, status));
}

PyObject* receive_raw_or_object(Endpoint endpoint, os::Deadline deadline, Status& status, bool* raw) {
  const ReaderLoan reader;
  status = get_message(endpoint, *reader, deadline, -1);
  if (!status) return nullptr;
  *raw = reader->message.codec() == message::kRawCodec && reader->message.tag() == 0;
  if (!*raw) return decode_message(endpoint, *reader, Format::kPython, status);
  const std::span<const std::byte> bytes = reader->message.bytes();
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(bytes.data()),
                                   static_cast<Py_ssize_t>(bytes.size()));
}

Status send_raw(Endpoint endpoint, std::span<const std::byte> bytes, os::Deadline deadline) {
  Status status;
  {
    GilRelease released;
    PyHooks hooks(released);
    node::MemoryWait memory(node::arena_of(endpoint), bytes.size(), deadline, true);
    do {
      status = node::put(endpoint, {bytes, {}, message::kRawCodec, 0}, deadline, &hooks);
    } while (memory.again(status, &hooks));
  }
  if (status) count_put(bytes.size());
  return status;
}

}  // namespace forklift::py
