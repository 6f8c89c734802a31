// The internal lock: a process-shared mutex that survives its owner's death at any instruction.
//
//   LockGuard guard(state.mutex, [&] { recover(state); });   // recover runs when the last owner died inside
//   if (!guard.ok()) return guard.status();                  // kStalled: the owner is stopped, not dead
//
// What it rests on: PTHREAD_MUTEX_ROBUST. The kernel walks a dying thread's list of held robust mutexes and
// hands them on with EOWNERDEAD (about 110 us after SIGKILL); uncontended it costs 13 ns.
//
// Rules
//  1. Lives in the control segment only, which is never unmapped or recycled (glibc bug 14485).
//  2. EOWNERDEAD means that a *thread* ended inside. Repair what the lock guards; conclude nothing else.
//  3. Never held across a fork, a call into Python, a wait for a peer, or memory copies of unbounded size.
//  4. Lock order: channel end, chunk pool, arena. Recovery nests in the same order.
// Not async-signal-safe.
#pragma once

#include <pthread.h>

#include <utility>

#include "forklift/status.h"

namespace forklift::sync {

class RobustMutex {
 public:
  enum class Acquired {
    kClean,
    kOwnerDied,
    kFailed
  };

  // Once, by whoever makes the segment, before anybody else can see it.
  Status init() noexcept;

  // After kOwnerDied the caller owns the lock, must repair, then call consistent(). On kFailed `why` tells.
  Acquired lock(Status* why) noexcept {
    const int rc = pthread_mutex_trylock(&mutex_);
    if (rc == 0) [[likely]]
      return Acquired::kClean;
    return lock_slow(rc, why);
  }
  // kFailed, with `why` untouched, when somebody alive holds it.
  Acquired try_lock() noexcept;
  void consistent() noexcept { pthread_mutex_consistent(&mutex_); }
  void unlock() noexcept { pthread_mutex_unlock(&mutex_); }

 private:
  Acquired lock_slow(int rc, Status* why) noexcept;
  pthread_mutex_t mutex_;
};

// How long an internal lock may be held by a live owner before waiters give up with kStalled. Critical
// sections last microseconds, recovery some milliseconds; whoever holds one for seconds is stopped.
inline constexpr long kStallSeconds = 5;

// Holds the mutex for a scope; runs `recover` first when the previous owner died inside.
class LockGuard {
 public:
  template <class Recover>
  LockGuard(RobustMutex& mutex, Recover&& recover) : mutex_(&mutex) {
    const RobustMutex::Acquired got = mutex.lock(&status_);
    if (got == RobustMutex::Acquired::kClean) [[likely]]
      return;
    if (got == RobustMutex::Acquired::kFailed) {
      mutex_ = nullptr;
      return;
    }
    std::forward<Recover>(recover)();
    mutex.consistent();
  }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;
  ~LockGuard() { unlock(); }

  bool ok() const noexcept { return mutex_ != nullptr; }
  const Status& status() const noexcept { return status_; }
  void unlock() noexcept {
    if (mutex_) std::exchange(mutex_, nullptr)->unlock();
  }

 private:
  RobustMutex* mutex_;
  Status status_;
};

}  // namespace forklift::sync
