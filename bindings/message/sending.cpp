#include "bindings/message/sending.h"

#include <time.h>

#include <algorithm>

#include "api/memory_wait.h"

namespace forklift::py {

bool MemoryWait::pause(Status& status, PyHooks& hooks) {
  if (!block_ || bytes_ > arena_.budget()) return false;
  const std::int64_t now = os::now_ns();
  if (until_ns_ == 0) until_ns_ = std::min(deadline_.when_ns(), now + tensor::kBudgetWaitNs);
  if (now >= until_ns_) return false;
  const timespec length{0, tensor::kBudgetPauseNs};
  ::nanosleep(&length, nullptr);
  arena_.domain().check_deaths();
  if (Status polled = hooks.poll(); !polled) {
    status = std::move(polled);
    return false;
  }
  return true;
}

Sending::Sending(arena::Arena& arena, MessageWriter& writer, os::Deadline deadline, bool block, int orphan_fd)
    : arena_(arena),
      writer_(writer),
      hooks_(released_),
      memory_(arena, writer.block_bytes + writer.bytes.size(), deadline, block) {
  hooks_.orphan_fd = orphan_fd;
}

Sending::~Sending() {
  writer_.leases.clear();
  writer_.shares.clear();
}

Status Sending::prepare() {
  if (Status allocated = writer_.allocate(arena_); !allocated) return allocated;
  writer_.copy();
  return writer_.moves.empty() ? Status() : settle();
}

// Before anybody can receive the message: what the program writes from now on is written to the shared memory.
Status Sending::settle() {
  released_.acquire();
  writer_.settle();
  released_.release();
  return writer_.allocate(arena_);
}

channel::Outgoing Sending::message() const noexcept {
  return {{writer_.bytes.data(), writer_.bytes.size()},
          writer_.leases,
          writer_.codec,
          0,
          false,
          writer_.block_bytes};
}

}  // namespace forklift::py
