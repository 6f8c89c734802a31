#include "os/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "os/clock.h"

namespace forklift::inline abi_0_1::os {

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

namespace {

// struct futex_waitv of linux/futex.h, which headers before 5.16 do not have.
struct WaitvWord {
  std::uint64_t expected;
  std::uint64_t address;
  std::uint32_t flags;
  std::uint32_t reserved;
};
constexpr std::uint32_t kSize32 = 2;
constexpr long kFutexWaitv = 449;  // the same on every architecture

}  // namespace

FutexWait futex_wait_any(std::span<const FutexWord> words, std::int64_t timeout_ns) noexcept {
  const Deadline deadline = timeout_ns < 0 ? Deadline::never() : Deadline::at_ns(now_ns() + timeout_ns);
  std::array<WaitvWord, kMostFutexWords> list;
  for (std::size_t i = 0; i < words.size(); ++i)
    list[i] = {words[i].expected, reinterpret_cast<std::uint64_t>(words[i].word), kSize32, 0};
  timespec until{};
  until.tv_sec = static_cast<time_t>(deadline.when_ns() / 1'000'000'000);
  until.tv_nsec = static_cast<long>(deadline.when_ns() % 1'000'000'000);
  const long rc = ::syscall(kFutexWaitv, list.data(), words.size(), 0, deadline.is_never() ? nullptr : &until,
                            CLOCK_MONOTONIC);
  if (rc >= 0) return FutexWait::kWoken;
  switch (errno) {
    case ETIMEDOUT: return FutexWait::kTimedOut;
    case EINTR: return FutexWait::kInterrupted;
    case EAGAIN: return FutexWait::kChanged;
    default:  // ENOSYS, or the error of a system call filter that does not know the call
      return FutexWait::kNoSuchCall;
  }
}

int futex_wake(const std::atomic<std::uint32_t>& word, int count) noexcept {
  const long rc = ::syscall(SYS_futex, &word, FUTEX_WAKE, count, nullptr, nullptr, 0);
  return rc < 0 ? 0 : static_cast<int>(rc);
}

}  // namespace forklift::inline abi_0_1::os
