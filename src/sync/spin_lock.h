// A lock between the threads of one process, for sections of a few instructions.
//
//   const std::lock_guard<SpinLock> lock(lock_);
//
// Half the price of a std::mutex where nobody contends: one locked instruction instead of two, no call; none
// while the process has only one thread, as glibc knows (one started inside a section finds it taken).
// Whoever waits gives way after a few looks, so a holder that lost its processor gets it back, and sleeps in
// small bits where that lasts (across a fork the fork's hooks hold it for milliseconds). No fairness.
//
// Process-private: nobody takes it over from the dead. A forked child may unlock what its parent's thread
// held.
#pragma once

#include <atomic>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

#include "sync/word.h"

namespace forklift::sync {

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
  static bool single_threaded() noexcept {
#if __has_include(<sys/single_threaded.h>) && !defined(__SANITIZE_THREAD__)
    return __libc_single_threaded != 0;
#else
    return false;
#endif
  }
  void wait() noexcept;
  std::atomic<bool> taken_{false};
};

}  // namespace forklift::sync
