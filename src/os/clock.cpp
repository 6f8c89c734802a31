#include "os/clock.h"

#include <time.h>

namespace forklift::inline abi_0_1::os {

std::int64_t now_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace forklift::inline abi_0_1::os
