// Waiting on several channels, readers of topics, locks, pipe ends and descriptors at once.
//
//   std::vector<std::size_t> ready;
//   Status status = wait_any(sources, Deadline::after_seconds(1), stop, ready);   // indices of sources
//
// Up to 127 channels, topics and locks alone are waited for with one system call on all their events, descriptors (pipe
// ends, sentinels) alone with poll, anything else with a wait set that lives as long as the call (wait_set.h). An idle wait
// uses no processor beyond a rare look for deaths.
//
// Thread safety: any number of threads may wait on the same sources. A message that was seen here is not
// taken yet, and another getter may be faster.
#pragma once

#include <span>
#include <stop_token>
#include <vector>

#include "domain/waiting.h"
#include "node/source.h"

namespace forklift::inline abi_0_1::node {

// Ok: `ready` holds at least one index, in rising order. kTimeout; kInterrupted when a stop was requested;
// kSystem; kInvalid for a condition, a barrier, a writing end, or objects of several domains; kNotAttached, kNoSpace; what
// the hooks said. `in_one_call` is false where a test wants what kernels before 5.16 do.
Status wait_any(std::span<const Source> sources, os::Deadline deadline, const std::stop_token& stop,
                std::vector<std::size_t>& ready, domain::WaitHooks* hooks = nullptr, bool in_one_call = true);

}  // namespace forklift::inline abi_0_1::node
