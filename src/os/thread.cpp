#include "os/thread.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>

namespace forklift::inline abi_0_1::os {

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

Status set_thread_name(const std::string& name) {
  const std::string kept = name.substr(0, kThreadNameBytes);
  const int error = ::pthread_setname_np(::pthread_self(), kept.c_str());
  return error == 0 ? Status() : Status::system("pthread_setname_np", error, kept);
}

Result<std::string> thread_name() {
  char name[kThreadNameBytes + 1] = {};
  const int error = ::pthread_getname_np(::pthread_self(), name, sizeof name);
  if (error != 0) return Status::system("pthread_getname_np", error, "this thread");
  return std::string(name);
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
}  // namespace forklift::inline abi_0_1::os
