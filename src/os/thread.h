// Threads: the kernel's thread id, names, and starting the library's own threads, which take none of the
// program's signals.
//
//   os::SignalMask blocked; // blocks all signals as long as it lives
//   if (Status status = os::start_thread(thread, [&] { ... }, "a pool's collector"); !status) return status;
//
// Thread safety: a SignalMask belongs to the thread that made it.
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#include "forklift/status.h"

namespace forklift::inline abi_0_1::os {

namespace detail {
extern constinit thread_local std::uint32_t thread_id;
std::uint32_t find_thread_id() noexcept;
}  // namespace detail

// gettid(), cached: one load. Correct in a forked child, too; in a raw clone(2) it is still the parent's.
inline std::uint32_t thread_id() noexcept {
  const std::uint32_t known = detail::thread_id;
  return known != 0 ? known : detail::find_thread_id();
}

// The calling thread's name. The kernel keeps so many bytes of it.
inline constexpr std::size_t kThreadNameBytes = 15;
Status set_thread_name(const std::string& name);
Result<std::string> thread_name();

// Sets this thread's signal mask for as long as the object lives. Threads and processes that are started
// meanwhile inherit it.
class SignalMask {
 public:
  SignalMask() noexcept;  // every signal blocked
  explicit SignalMask(const sigset_t& mask) noexcept;
  ~SignalMask();
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;

  // This thread's mask now.
  static sigset_t current() noexcept;

 private:
  sigset_t before_;
};

// The names of the library's own threads begin with these nine letters.
inline constexpr const char* kOwnThreadName = "forklift-thread";

// Starts `run` as a thread (std::thread or std::jthread) with every signal blocked: signals are for the
// program's own threads. kSystem: no more threads can be made; `what` names the thread in the message.
template <class Thread, class Run>
Status start_thread(Thread& thread, Run&& run, const char* what) {
  const SignalMask blocked;
  try {
    if constexpr (std::is_invocable_v<Run, std::stop_token>) {
      thread = Thread([run = std::forward<Run>(run)](const std::stop_token& stop) mutable {
        (void)set_thread_name(kOwnThreadName);
        run(stop);
      });
    } else {
      thread = Thread([run = std::forward<Run>(run)]() mutable {
        (void)set_thread_name(kOwnThreadName);
        run();
      });
    }
  } catch (const std::system_error& error) {
    return Status::system("pthread_create", error.code().value(), what);
  }
  return {};
}

}  // namespace forklift::inline abi_0_1::os
