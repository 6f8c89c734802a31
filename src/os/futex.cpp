#include "os/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

namespace forklift::os {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);

FutexWait futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                     std::int64_t timeout_ns) noexcept {
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(timeout_ns / 1'000'000'000);
  timeout.tv_nsec = static_cast<long>(timeout_ns % 1'000'000'000);
  const long rc =
      ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, timeout_ns < 0 ? nullptr : &timeout, nullptr, 0);
  if (rc == 0) return FutexWait::kWoken;
  switch (errno) {
    case ETIMEDOUT: return FutexWait::kTimedOut;
    case EINTR: return FutexWait::kInterrupted;
    default: return FutexWait::kChanged;  // EAGAIN; anything else cannot happen for a mapped word
  }
}

int futex_wake(const std::atomic<std::uint32_t>& word, int count) noexcept {
  const long rc = ::syscall(SYS_futex, &word, FUTEX_WAKE, count, nullptr, nullptr, 0);
  return rc < 0 ? 0 : static_cast<int>(rc);
}

}  // namespace forklift::os
