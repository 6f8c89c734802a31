#include "forklift/async.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "forklift/error.h"

namespace forklift::inline abi_0_1::detail {

WaitTimer::WaitTimer(Limit limit) {
  if (limit.ns == kForever) return;
  fd_ = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (fd_ < 0) throw Error(Status::system("timerfd_create", errno, "for a wait of a coroutine"));
  itimerspec when{};
  const std::int64_t ns = std::max<std::int64_t>(limit.ns, 1);  // 0 would disarm it
  when.it_value.tv_sec = static_cast<time_t>(ns / 1'000'000'000);
  when.it_value.tv_nsec = static_cast<long>(ns % 1'000'000'000);
  (void)::timerfd_settime(fd_, 0, &when, nullptr);
}

WaitTimer::~WaitTimer() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace forklift::inline abi_0_1::detail
