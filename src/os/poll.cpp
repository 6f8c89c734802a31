#include "os/poll.h"

#include <poll.h>

#include "os/clock.h"
#include "os/proc.h"

namespace forklift::os {

bool spin_readable(int fd, std::int64_t ns) noexcept {
  static const bool several_cpus = allowed_cpus() > 1;
  const std::int64_t limit = now_ns() + ns;
  for (;;) {
    pollfd item{fd, POLLIN, 0};
    if (::poll(&item, 1, 0) != 0) return true;
    if (!several_cpus || now_ns() >= limit) return false;
  }
}

}  // namespace forklift::os
