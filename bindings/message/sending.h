// The part of a put that runs without the interpreter lock: from the encoded message to its being sent.
//
//   const WriterLoan writer;
//   if (!encode_object(object, *writer)) return nullptr;
//   Status status;
//   {
//     Sending sending(arena, *writer, deadline, block, orphan_fd);  // releases the interpreter lock
//     do {
//       status = sending.prepare();
//       if (status) status = node::put(endpoint, sending.message(), deadline, &sending.hooks());
//     } while (sending.again(status));
//   }                                                               // takes it back
//
// Thread safety: each object is used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bindings/core/gil.h"
#include "bindings/message/writer.h"
#include "node/memory_wait.h"
#include "os/clock.h"

namespace forklift::py {

class Sending {
 public:
  // `orphan_fd`: see PyHooks. The others are those of node::MemoryWait.
  Sending(arena::Arena& arena, MessageWriter& writer, os::Deadline deadline, bool block,
          int orphan_fd) noexcept
      : arena_(arena),
        writer_(writer),
        hooks_(released_),
        memory_(arena, writer.message.noted_bytes() + writer.message.bytes().size(), deadline, block) {
    hooks_.orphan_fd = orphan_fd;
  }
  // Empties the message, without the interpreter lock: leases that were not sent are given up.
  ~Sending() {
    if (writer_.message.noted()) count();
    writer_.message.clear();
  }
  Sending(const Sending&) = delete;
  Sending& operator=(const Sending&) = delete;

  // Allocates the blocks that the message needs and copies into them. May be called again after a failure.
  Status prepare() { return writer_.message.noted() ? make_leases() : Status(); }
  // Refers to the writer.
  channel::Outgoing message() const noexcept { return writer_.message.message(writer_.codec); }
  bool again(Status& status) { return memory_.again(status, &hooks_); }
  PyHooks& hooks() noexcept { return hooks_; }

 private:
  Status make_leases();
  Status settle();
  void count() const noexcept;

  arena::Arena& arena_;
  MessageWriter& writer_;
  GilRelease released_;
  PyHooks hooks_;
  node::MemoryWait memory_;
};

}  // namespace forklift::py
