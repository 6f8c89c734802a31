// The internal lock: a process-shared mutex that survives its owner's death at any instruction.
//
//   LockGuard guard(state.mutex, [&] { recover(state); });   // recover runs when the last owner died inside
//   if (!guard.ok()) return guard.status();                  // kStalled: the owner is stopped, not dead
//
// What it rests on: PTHREAD_MUTEX_ROBUST. The kernel walks a dying thread's list of held robust mutexes and
// hands them on with EOWNERDEAD (about 110 us after SIGKILL). A free one is locked, and one that nobody waits
// for unlocked, right here (sync/robust_list.h), with the steps of the pthread functions in their order;
// everything else is theirs, and both may be used on one mutex, by processes or by turns.
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
#include "sync/robust_list.h"

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
    RobustList* const mine = robust_list();
    if (mine != nullptr && take_if_free(*mine)) [[likely]]
      return Acquired::kClean;
    return lock_slow(why);
  }
  // kFailed, with `why` untouched, when somebody alive holds it.
  Acquired try_lock() noexcept;
  void consistent() noexcept { pthread_mutex_consistent(&mutex_); }
  void unlock() noexcept {
    RobustList* const mine = robust_list();
    // Otherwise its owner had died and it was not repaired, which only the pthread function knows to say.
    if (mine != nullptr && mutex_.__data.__owner == mine->tid) [[likely]]
      return give(*mine);
    pthread_mutex_unlock(&mutex_);
  }

 private:
  RobustEntry& entry() noexcept { return reinterpret_cast<RobustEntry&>(mutex_.__data.__list); }

  // Its count of users, which pthread_mutex_destroy looks at, is left alone: nobody destroys it.
  bool take_if_free(RobustList& mine) noexcept {
    mine.pending = &entry().next;
    crash_fence();
    int free = 0;
    bool taken = __atomic_compare_exchange_n(&mutex_.__data.__lock, &free, mine.tid, false, __ATOMIC_ACQUIRE,
                                             __ATOMIC_RELAXED);
    crash_fence();
    if (taken) [[likely]] {
      // A free mutex has an owner where it was not repaired: lock_slow() says so.
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
    // After the waking: a thread that is killed before it has the kernel do that.
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
