#include "os/thread.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>

namespace forklift::os {

SignalMask::SignalMask() noexcept {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalMask::SignalMask(const sigset_t& mask) noexcept { ::pthread_sigmask(SIG_SETMASK, &mask, &before_); }

SignalMask::~SignalMask() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

sigset_t SignalMask::current() noexcept {
  sigset_t now;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
  return now;
}

namespace detail {

constinit thread_local std::uint32_t thread_id = 0;

std::uint32_t find_thread_id() noexcept {
  static std::once_flag installed;
  // The only thread of a forked child has a new id; the cached one is the parent's.
  std::call_once(installed, [] { ::pthread_atfork(nullptr, nullptr, [] { thread_id = 0; }); });
  thread_id = static_cast<std::uint32_t>(::syscall(SYS_gettid));
  return thread_id;
}

}  // namespace detail
}  // namespace forklift::os
