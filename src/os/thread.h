// Threads: the number by which the kernel knows one, and threads of our own, which take none of the program's
// signals.
//
//   os::SignalMask blocked;                                          // all signals, as long as it lives
//   if (Status status = os::start_thread(thread, [&] { ... }, "a pool's collector"); !status) return status;
//
// Thread safety: a mask is its thread's own.
#pragma once

#include <signal.h>

#include <cstdint>
#include <system_error>
#include <utility>

#include "forklift/status.h"

namespace forklift::os {

namespace detail {
extern constinit thread_local std::uint32_t thread_id;
std::uint32_t find_thread_id() noexcept;
}  // namespace detail

// gettid(), remembered: one load. Right in a forked child, too; in a raw clone it is still the parent's.
inline std::uint32_t thread_id() noexcept {
  const std::uint32_t known = detail::thread_id;
  return known != 0 ? known : detail::find_thread_id();
}

// What this thread's signal mask is, as long as this lives: what a thread or process inherits that is made
// meanwhile.
class SignalMask {
 public:
  SignalMask() noexcept;  // every signal blocked
  explicit SignalMask(const sigset_t& mask) noexcept;
  ~SignalMask();
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;

  // Of this thread, now.
  static sigset_t current() noexcept;

 private:
  sigset_t before_;
};

// Starts `run` as a thread (std::thread or std::jthread) with every signal blocked: they are for the
// program's own threads. kSystem: there can be no more threads; `what` says whose it would have been.
template <class Thread, class Run>
Status start_thread(Thread& thread, Run&& run, const char* what) {
  const SignalMask blocked;
  try {
    thread = Thread(std::forward<Run>(run));
  } catch (const std::system_error& error) {
    return Status::system("pthread_create", error.code().value(), what);
  }
  return {};
}

}  // namespace forklift::os
