#include "bindings/message/sending.h"

#include <time.h>

#include <algorithm>

#include "api/memory_wait.h"
#include "bindings/core/stats.h"

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

Status Sending::make_leases() {
  if (Status allocated = writer_.allocate(arena_); !allocated) return allocated;
  writer_.message.copy();
  return writer_.moves.empty() ? Status() : settle();
}

void Sending::count() const noexcept {
  count_block_bytes(writer_.message.copied_bytes());
  count_shared_bytes(writer_.message.shared_bytes());
}

// Before anybody can receive the message: what the program writes from now on is written to the shared
// memory.
Status Sending::settle() {
  released_.acquire();
  writer_.settle();
  released_.release();
  return writer_.allocate(arena_);
}

}  // namespace forklift::py
