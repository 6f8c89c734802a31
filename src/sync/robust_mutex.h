// The internal lock: a process-shared mutex that survives its owner's death at any instruction.
//
//   LockGuard guard(state.mutex, [&] { recover(state); });   // recover runs when the last owner died inside
//   if (!guard.ok()) return guard.status();                  // kStalled: the owner is stopped, not dead
//
// It is a PTHREAD_MUTEX_ROBUST mutex: the kernel walks a dying thread's list of held robust mutexes and hands
// them on with EOWNERDEAD (about 110 us after SIGKILL). Locking a free mutex, and unlocking, are done inline
// (sync/robust_list.h), with the steps of the pthread functions in their order. All other cases go to the
// pthread functions. Both ways may be used on one mutex, by different processes or alternately by one.
//
// Rules
//  1. It lives in the control segment only, which is never unmapped or recycled (glibc bug 14485).
//  2. EOWNERDEAD means that a *thread* ended while it held the lock. Repair what the lock guards; conclude
//     nothing else.
//  3. It is never held across a fork, a call into Python, a wait for a peer, or memory copies of unbounded
//     size.
//  4. Lock order: channel end, chunk pool, arena. Recovery nests in the same order.
// Not async-signal-safe.
#pragma once

#include <pthread.h>

#include <utility>

#include "forklift/status.h"
#include "sync/robust_list.h"

namespace forklift::inline abi_0_1::sync {

class RobustMutex {
 public:
  enum class Acquired {
    kClean,
    kOwnerDied,
    kFailed
  };

  // Called once, by the process that makes the segment, before any other process can see it.
  Status init() noexcept;

  // After kOwnerDied the caller owns the lock; it must repair the guarded state, then call consistent().
  // After kFailed `why` holds the reason.
  // This and unlock() are always inlined: some fifteen instructions each, and a put or a get takes several locks.
  [[gnu::always_inline]] Acquired lock(Status* why) noexcept {
    RobustList* const mine = robust_list();
    if (mine != nullptr && take_if_free(*mine)) [[likely]]
      return Acquired::kClean;
    return lock_slow(why);
  }
  // kFailed when a live thread holds it.
  Acquired try_lock() noexcept;
  void consistent() noexcept { pthread_mutex_consistent(&mutex_); }
  [[gnu::always_inline]] void unlock() noexcept {
    RobustList* const mine = robust_list();
    // Otherwise the last owner died and the mutex was not repaired; only the pthread function marks it as
    // such.
    if (mine != nullptr && mutex_.__data.__owner == mine->tid) [[likely]]
      return give(*mine);
    pthread_mutex_unlock(&mutex_);
  }

 private:
  RobustEntry& entry() noexcept { return reinterpret_cast<RobustEntry&>(mutex_.__data.__list); }

  // Does not update the mutex's count of users: only pthread_mutex_destroy reads it, and nothing destroys the
  // mutex.
  bool take_if_free(RobustList& mine) noexcept {
    mine.pending = &entry().next;
    crash_fence();
    int free = 0;
    bool taken = __atomic_compare_exchange_n(&mutex_.__data.__lock, &free, mine.tid, false, __ATOMIC_ACQUIRE,
                                             __ATOMIC_RELAXED);
    crash_fence();
    if (taken) [[likely]] {
      // A free mutex whose owner field is set was not repaired; lock_slow() reports that.
      if (mutex_.__data.__owner == 0) [[likely]] {
        enter(mine, entry());
        crash_fence();
        mutex_.__data.__owner = mine.tid;
      } else {
        release_word();
        taken = false;
      }
    }
    mine.pending = nullptr;
    crash_fence();
    return taken;
  }

  void give(RobustList& mine) noexcept {
    mutex_.__data.__owner = 0;
    mine.pending = &entry().next;
    crash_fence();
    leave(entry());
    crash_fence();
    release_word();
    // Cleared only after the wake-up: if the thread is killed before that, the kernel wakes a waiter instead.
    mine.pending = nullptr;
    crash_fence();
  }

  void release_word() noexcept {
    const int word = __atomic_exchange_n(&mutex_.__data.__lock, 0, __ATOMIC_RELEASE);
    if ((static_cast<unsigned>(word) & kHasWaiters) != 0) [[unlikely]]
      wake_next();
    crash_fence();
  }

  static constexpr unsigned kHasWaiters = 0x80000000U;  // FUTEX_WAITERS
  Acquired lock_slow(Status* why) noexcept;
  void wake_next() noexcept;
  pthread_mutex_t mutex_;
};

// How long a live owner may hold an internal lock before waiters give up with kStalled. Critical sections
// last microseconds, recovery some milliseconds; an owner that holds a lock for seconds is stopped.
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
  [[gnu::always_inline]] ~LockGuard() { unlock(); }

  bool ok() const noexcept { return mutex_ != nullptr; }
  const Status& status() const noexcept { return status_; }
  [[gnu::always_inline]] void unlock() noexcept {
    if (mutex_) std::exchange(mutex_, nullptr)->unlock();
  }

 private:
  RobustMutex* mutex_;
  Status status_;
};

}  // namespace forklift::inline abi_0_1::sync
