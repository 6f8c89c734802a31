// Lock and RLock between processes: std::scoped_lock, std::unique_lock and std::lock work on them.
//
//   forklift::Lock lock;
//   auto worker = forklift::Process::fork([=]() mutable {
//     const std::scoped_lock guard(lock);
//     if (lock.abandoned()) repair();              // the last holder was killed
//     counter += 1;
//   });
//   if (lock.try_lock({5ms, stop})) ...                  // wait.h; try_lock_for and try_lock_until, too
//
// When a process is killed while it holds the lock, the next one gets it, and abandoned() is true until it
// unlocks. Two cases that look alike are no deaths, as in Python's multiprocessing: a process that exits in
// good order while holding (any other may then unlock), and a Lock that was ever unlocked by a process that
// did not hold it: that is a signal, and nobody owns it. An RLock belongs to one thread, which may lock it
// again and unlocks it as often.
//
// Thread and process safety: any number of threads of any number of processes. Copies: see lock_ref.h.
//
// Errors: Error with kNotAttached in a process that belongs to no domain, kInvalid from unlock() of what is
// not locked (of an RLock: not by this thread), kNoSpace from the constructor when all locks are in use.
//
// Invariants: one thread of one process holds it at a time. Holding is one word, so that no death finds a
// lock that is held by nobody.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>

#include "forklift/detail/lock_ref.h"
#include "forklift/thread_safety.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

namespace detail {

class FORKLIFT_CAPABILITY("mutex") MutexHandle {
 public:
  // As std::timed_mutex; try_lock() also takes a Wait, which a stop ends, too. False: not before the wait was over.
  void lock() FORKLIFT_ACQUIRE() { (void)lock_within(kForever); }
  [[nodiscard]] bool try_lock(const Wait& wait = Wait::now()) FORKLIFT_TRY_ACQUIRE(true) {
    return lock_within(wait);
  }
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(std::chrono::duration<Rep, Period> time) FORKLIFT_TRY_ACQUIRE(true) {
    return lock_within(nanoseconds(time));
  }
  template <class Clock, class Duration>
  [[nodiscard]] bool try_lock_until(std::chrono::time_point<Clock, Duration> when)
      FORKLIFT_TRY_ACQUIRE(true) {
    return lock_within(nanoseconds_until(when));
  }
  void unlock() FORKLIFT_RELEASE();

  // Is it held by anybody? By this thread? A moment's truth, but the second.
  bool locked() const;
  bool mine() const;
  // Did its present holder take it over from one that died?
  bool abandoned() const;
  // False: a process that did not hold it has unlocked it once. Since then it is a signal that nobody owns,
  // and when its holder is killed it stays locked.
  bool recovers() const;

  LockRef ref() const;
  explicit operator bool() const noexcept { return mutex_ != nullptr; }

 protected:
  MutexHandle() noexcept = default;
  explicit MutexHandle(bool recursive);
  MutexHandle(LockName name, bool recursive);

 private:
  bool lock_within(Limit limit);
  std::shared_ptr<locks::Mutex> mutex_;
};

}  // namespace detail

class Lock : public detail::MutexHandle {
 public:
  Lock() : MutexHandle(false) {}
  // No lock: a handle that costs nothing, to be assigned later. Its members throw Error (kClosed).
  template <std::same_as<std::nullptr_t> None>
  explicit Lock(None) noexcept {}
  static Lock open(detail::LockName name) { return Lock(name); }

 private:
  explicit Lock(detail::LockName name) : MutexHandle(name, false) {}
};

class RLock : public detail::MutexHandle {
 public:
  RLock() : MutexHandle(true) {}
  template <std::same_as<std::nullptr_t> None>
  explicit RLock(None) noexcept {}  // as Lock(nullptr)
  static RLock open(detail::LockName name) { return RLock(name); }

 private:
  explicit RLock(detail::LockName name) : MutexHandle(name, true) {}
};

}  // namespace forklift::inline abi_0_1

template <>
struct std::hash<forklift::Lock> : forklift::detail::HandleHash {};
template <>
struct std::hash<forklift::RLock> : forklift::detail::HandleHash {};
