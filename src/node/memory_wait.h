// Waiting for memory: a put that the budget refuses is tried again while others may give some back.
//
//   MemoryWait memory(arena, bytes, deadline);
//   Status sent;
//   do {
//     sent = channel.put(message, deadline, hooks);
//   } while (memory.again(sent, hooks));
//
// A deadline that has passed, memory beyond the whole budget and hooks that end a wait end this one, too; and so do
// two seconds, since a queue that nobody reads is a mistake that the program has to be told of.
//
// Thread safety: one thread's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arena/arena.h"
#include "domain/waiting.h"
#include "os/clock.h"

namespace forklift::inline abi_0_1::node {

class MemoryWait {
 public:
  // `bytes`: how much the attempt needs. `block`: false if it is not to be repeated at all.
  MemoryWait(arena::Arena& arena, std::size_t bytes, os::Deadline deadline, bool block = true) noexcept
      : arena_(arena), bytes_(bytes), deadline_(deadline), block_(block) {}

  // Whether the attempt that ended with `status` is to be repeated, after a pause. Where `hooks` (may be null) end
  // the wait, `status` is what they say.
  bool again(Status& status, domain::WaitHooks* hooks) {
    return status.code() == Code::kOverBudget && pause(status, hooks);
  }

 private:
  bool pause(Status& status, domain::WaitHooks* hooks);

  arena::Arena& arena_;
  std::size_t bytes_;
  os::Deadline deadline_;
  bool block_;
  std::int64_t until_ns_ = 0;  // 0: nothing was refused yet
};

}  // namespace forklift::inline abi_0_1::node
