// Daemons end with their parent, however it ends: also by SIGKILL, also in a busy loop.
//
// The parent holds the write end of a pipe, and nobody else does. A daemon holds a read end of its own and
// has asked the kernel for SIGKILL when something happens to it (F_SETSIG), which is that the last writer is
// gone. No thread, no polling; unlike PR_SET_PDEATHSIG it does not mistake the end of a thread for that of
// the parent.
//
// Thread safety: yes. Fork: a child drops its copy of the write end, and makes a pipe of its own for its
// daemons.
#pragma once

#include "os/fd.h"

namespace forklift::process {

inline constexpr const char* kLifelineVariable = "FORKLIFT_LIFELINE";

// The read end of this process's pipe, close-on-exec, for the children to inherit; made by the first call.
Result<int> lifeline();

// In a child: SIGKILL for this process when its parent is gone, at once if it is gone already. `read_end` is
// what it inherited; it stays open.
Status end_with_parent(int read_end);

}  // namespace forklift::process
