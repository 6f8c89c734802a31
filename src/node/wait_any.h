// Waiting on several channels, readers of topics, locks, pipe ends and descriptors at once.
//
//   std::vector<std::size_t> ready;
//   Status status = wait_any(sources, Deadline::after_seconds(1), stop, ready);   // indices of sources
//
// Channels, topics and locks alone are waited for with one system call on all their events; descriptors (pipe ends,
// sentinels) with poll. Where both are there, a thread that lives as long as the call waits for the events
// and rings the poll. An idle wait uses no processor beyond a rare look for deaths.
//
// Thread safety: any number of threads may wait on the same sources. A message that was seen here is not
// taken yet, and another getter may be faster.
#pragma once

#include <span>
#include <stop_token>
#include <vector>

#include "channel/pipe.h"
#include "locks/table.h"
#include "topic/topic.h"

namespace forklift::node {

// One of the five.
struct Source {
  channel::Channel* channel = nullptr;  // has a message
  channel::PipeEnd* pipe = nullptr;     // has a message or is at its end
  int descriptor = -1;                  // is readable
  topic::Reader* reader = nullptr;      // has a message or is at its end
  locks::Object* lock = nullptr;        // can be acquired; an event: is set, or was since the call began
};

// Ok: `ready` holds at least one index, in rising order. kTimeout; kInterrupted when a stop was requested;
// kSystem; kInvalid for a condition, a barrier or a writing end; what the hooks said. `in_one_call`: see os::futex_wait_any.
Status wait_any(std::span<const Source> sources, os::Deadline deadline, const std::stop_token& stop,
                std::vector<std::size_t>& ready, bool in_one_call = true, domain::WaitHooks* hooks = nullptr);

}  // namespace forklift::node
