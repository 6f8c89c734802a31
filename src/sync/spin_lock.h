// A lock between the threads of one process, for critical sections of a few instructions.
//
//   const std::lock_guard<SpinLock> lock(lock_);
//
// Without contention it costs half as much as a std::mutex: one locked instruction instead of two, and no
// call. It uses no locked instruction while the process has only one thread (which glibc knows); a thread
// that is started inside a section still finds the lock taken. A waiter polls, then yields its processor
// after a number of checks, so that a preempted holder can run, and then sleeps for short periods if the wait
// lasts (the fork hooks hold the lock across a fork, for milliseconds). It is not fair.
//
// Process-private: nothing takes it over from a dead holder. A forked child may unlock what a thread of its
// parent held.
#pragma once

#include <atomic>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

#include "sync/word.h"

namespace forklift::inline abi_0_1::sync {

// Has this process only one thread, as glibc knows? What is true stays true until this thread starts another one.
inline bool single_threaded() noexcept {
#if __has_include(<sys/single_threaded.h>) && !defined(__SANITIZE_THREAD__)
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

class SpinLock {
 public:
  SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() noexcept {
    if (single_threaded()) {
      taken_.store(true, std::memory_order_relaxed);
      return;
    }
    if (taken_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      wait();
  }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  void wait() noexcept;
  std::atomic<bool> taken_{false};
};

}  // namespace forklift::inline abi_0_1::sync
