// Daemons end with their parent, however the parent ends (also by SIGKILL) and whatever the daemon does (also
// in a busy loop).
//
// Only the parent holds the write end of a pipe. A daemon holds a read end of its own, and has asked the
// kernel to send SIGKILL at an event on it (F_SETSIG); the only event is that the last writer is gone. This
// needs no thread and no polling, and unlike PR_SET_PDEATHSIG it does not mistake the end of a thread for
// that of the parent.
//
// A child that may clean up first gets SIGINT, and SIGKILL only after a grace: a handler of a signal of its own
// passes SIGINT on and starts a timer of the kernel's. That needs no thread, either.
//
// Thread safety: yes. Fork: a child closes its copy of the write end, and makes a pipe of its own for its
// daemons.
#pragma once

#include <cstdint>

#include "os/fd.h"

namespace forklift::inline abi_0_1::process {

inline constexpr const char* kLifelineVariable = "FORKLIFT_LIFELINE";

// The read end of this process's pipe, close-on-exec, for the children to inherit; made by the first call.
Result<int> lifeline();

// In a child: has the kernel send SIGKILL to this process when its parent is gone; at once, if the parent is
// gone already. `read_end` is the inherited descriptor; it stays open. The result is a descriptor of the same
// pipe, on which the kernel's signal was asked for; it stays open, too.
Result<int> end_with_parent(int read_end);

// In a child that ends with its parent: SIGINT first, then SIGKILL after `grace_ns`. `own` is what
// end_with_parent() has answered. On failure SIGKILL comes at once, as before.
Status soften_end(int own, std::int64_t grace_ns);

}  // namespace forklift::inline abi_0_1::process
