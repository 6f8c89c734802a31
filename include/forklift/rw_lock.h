// RWLock: any number of threads of any processes read, or one writes. As std::shared_mutex, so that std::shared_lock,
// std::unique_lock and std::scoped_lock work on it.
//
//   forklift::RWLock lock;
//   forklift::SharedArray<float> table(1'000);
//   auto worker = forklift::Process::fork([&] {
//     const std::shared_lock reading(lock);            // beside any number of other readers
//     if (!lock.abandoned()) show(table);
//   }).start();
//   {
//     const std::unique_lock writing(lock);            // alone
//     if (lock.abandoned()) repair(table);             // the last writer died while it wrote
//     table[3] = 1.5f;
//   }
//   if (lock.try_lock_shared({5ms, stop})) ...         // wait.h; the _for and _until forms, too
//
// Each process counts its readers in memory of its own, so that readers of different processes do not slow each
// other; a writer looks at all of these. A writer waits for the readers that are there, and new readers wait for it.
//
// Deaths: the reads of a process end with it. Where a writer ends while it writes (killed, or by an exit), the next
// writer gets the lock, and abandoned() is true for readers and for that writer until it unlocks.
//
// Do not lock it again, to read or to write, in a thread that reads already: with a writer in between that thread
// waits for itself, as with std::shared_mutex. There is no upgrade from reading to writing.
//
// Thread and process safety: any number of threads of any number of processes. Copies and forks: see lock_ref.h; a
// forked child holds nothing that its parent holds.
//
// Errors: Error with kNotAttached in a process that belongs to no domain; kInvalid from unlock() in a thread that
// does not write, and from unlock_shared() in a process that does not read; kNoSpace from the constructor when all
// locks are in use, and from the first lock_shared() of a process when all records are.
//
// Invariant: while one thread writes, no other writes or reads.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "forklift/detail/lock_ref.h"
#include "forklift/thread_safety.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

class FORKLIFT_CAPABILITY("shared_mutex") RWLock {
 public:
  RWLock();
  static RWLock open(detail::LockName name);
  // No lock: a handle that costs nothing, to be assigned later. Its members throw Error (kClosed).
  template <std::same_as<std::nullptr_t> None>
  explicit RWLock(None) noexcept {}
  explicit operator bool() const noexcept { return lock_ != nullptr; }

  // To write. False: not before the wait was over, and nothing is held.
  void lock() FORKLIFT_ACQUIRE() { (void)lock_within(detail::kForever); }
  [[nodiscard]] bool try_lock(const Wait& wait = Wait::now()) FORKLIFT_TRY_ACQUIRE(true) {
    return lock_within(wait);
  }
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(std::chrono::duration<Rep, Period> time) FORKLIFT_TRY_ACQUIRE(true) {
    return lock_within(detail::nanoseconds(time));
  }
  template <class Clock, class Duration>
  [[nodiscard]] bool try_lock_until(std::chrono::time_point<Clock, Duration> when)
      FORKLIFT_TRY_ACQUIRE(true) {
    return lock_within(detail::nanoseconds_until(when));
  }
  void unlock() FORKLIFT_RELEASE();

  // To read.
  void lock_shared() FORKLIFT_ACQUIRE_SHARED() { (void)lock_shared_within(detail::kForever); }
  [[nodiscard]] bool try_lock_shared(const Wait& wait = Wait::now()) FORKLIFT_TRY_ACQUIRE_SHARED(true) {
    return lock_shared_within(wait);
  }
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_shared_for(std::chrono::duration<Rep, Period> time)
      FORKLIFT_TRY_ACQUIRE_SHARED(true) {
    return lock_shared_within(detail::nanoseconds(time));
  }
  template <class Clock, class Duration>
  [[nodiscard]] bool try_lock_shared_until(std::chrono::time_point<Clock, Duration> when)
      FORKLIFT_TRY_ACQUIRE_SHARED(true) {
    return lock_shared_within(detail::nanoseconds_until(when));
  }
  void unlock_shared() FORKLIFT_RELEASE_SHARED();

  // Does anybody write? Does this thread? How many threads of all processes read? A moment's truth, but the second.
  bool locked() const;
  bool mine() const;
  std::uint64_t readers() const;
  // Did the last writer end while it wrote, and has none unlocked since?
  bool abandoned() const;

  // To send it, publish it, open it again.
  LockRef ref() const;

 private:
  explicit RWLock(std::shared_ptr<locks::ReadWriteLock> lock) noexcept : lock_(std::move(lock)) {}
  bool lock_within(detail::Limit limit);
  bool lock_shared_within(detail::Limit limit);
  std::shared_ptr<locks::ReadWriteLock> lock_;
};

}  // namespace forklift::inline abi_0_1

template <>
struct std::hash<forklift::RWLock> : forklift::detail::HandleHash {};
