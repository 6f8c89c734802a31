// Looking at a descriptor for a moment before sleeping on it.
#pragma once

#include <cstdint>

namespace forklift::os {

// Polls until the descriptor is readable (or at its end, or in error), at most `ns` nanoseconds; whether it
// came to that. Where only one processor is allowed it looks once: the peer could not run meanwhile.
bool spin_readable(int fd, std::int64_t ns) noexcept;

}  // namespace forklift::os
