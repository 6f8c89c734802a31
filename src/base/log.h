// What the library says to people where no call can: on stderr, or to the program's sink (forklift/log.h).
//
//   log(Severity::kWarning, "the callback of a pool's task failed: " + what);
//
// Thread safety: any thread. Not between fork and exec in a child, and not in a signal handler.
#pragma once

#include <string>

#include "forklift/log.h"

namespace forklift::inline abi_0_1 {

void log(Severity severity, const std::string& message) noexcept;

}  // namespace forklift::inline abi_0_1
