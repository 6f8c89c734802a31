// Waiting for memory: a put that the budget refuses is tried again while others may give some back.
//
//   Status sent = tensor::with_memory(arena, bytes, deadline, poll,
//                                     [&] { return channel.put(message, deadline); });
//
// Thread safety: as of what is called.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "arena/arena.h"
#include "os/clock.h"

namespace forklift::tensor {

// How long an unbounded wait for memory may last: a queue that nobody reads is a mistake to be told of.
inline constexpr std::int64_t kBudgetWaitNs = 2'000'000'000;
inline constexpr std::int64_t kBudgetPauseNs = 2'000'000;

// Calls `attempt` until it is not refused for memory, or until waiting for memory has no sense any more: the
// deadline has passed, so much is never to be had, or `poll` says so.
template <class Poll, class Attempt>
Status with_memory(arena::Arena& arena, std::size_t bytes, os::Deadline deadline, Poll&& poll,
                   Attempt&& attempt) {
  Status status = attempt();
  if (status.code() != Code::kOverBudget || bytes > arena.budget()) return status;
  const std::int64_t until = std::min(deadline.when_ns(), os::now_ns() + kBudgetWaitNs);
  while (status.code() == Code::kOverBudget && os::now_ns() < until) {
    const timespec pause{0, kBudgetPauseNs};
    ::nanosleep(&pause, nullptr);
    arena.domain().check_deaths();
    if (Status polled = poll(); !polled) return polled;
    status = attempt();
  }
  return status;
}

}  // namespace forklift::tensor
