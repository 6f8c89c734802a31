// Semaphore and BoundedSemaphore between processes: a number that acquire() takes from and release() adds to.
//
//   forklift::Semaphore slots({.value = 4, .recover = true});   // four workers on the device at a time
//   slots.acquire();
//   use_device();
//   slots.release();
//
// Units have no owners: one process may acquire and another release, and what a killed process had taken is
// gone. With `recover` it comes back: for units that are released where they were acquired. (A clean exit
// while holding some is no death.) That costs a record and some 200 ns an operation.
//
// Copies, thread and process safety: as Lock (lock.h, lock_ref.h).
//
// Errors: Error with kInvalid for a release beyond `most` (nothing is released then) and for a value above
// it, kNotAttached, kNoSpace, with `recover` kStalled.
//
// Invariant: the value is never negative, never above `most`.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>

#include "forklift/detail/lock_ref.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

// What a semaphore begins with.
struct SemaphoreOptions {
  std::uint32_t value = 1;          // units that there are at first
  std::uint32_t most = 0x7fffffff;  // that there can be; more is an error
  bool recover = false;             // units of a process that dies are given back
};

// Units that are taken and given back, by any process.
class Semaphore {
 public:
  // Error: kInvalid, kNoSpace, kNotAttached.
  explicit Semaphore(const SemaphoreOptions& options = {});
  static Semaphore open(detail::LockName name);
  // No semaphore: a handle that costs nothing, to be assigned later. Its members throw Error (kClosed).
  template <std::same_as<std::nullptr_t> None>
  explicit Semaphore(None) noexcept {}
  explicit operator bool() const noexcept { return semaphore_ != nullptr; }

  // Takes a unit; waits for one. As std::counting_semaphore; try_acquire() also takes a Wait, which a stop ends, too.
  // False: there was none before the wait was over.
  void acquire() { (void)acquire_within(detail::kForever); }
  [[nodiscard]] bool try_acquire(const Wait& wait = Wait::now()) { return acquire_within(wait); }
  template <class Rep, class Period>
  [[nodiscard]] bool try_acquire_for(std::chrono::duration<Rep, Period> time) {
    return acquire_within(detail::nanoseconds(time));
  }
  template <class Clock, class Duration>
  [[nodiscard]] bool try_acquire_until(std::chrono::time_point<Clock, Duration> when) {
    return acquire_within(detail::nanoseconds_until(when));
  }
  void release(std::uint32_t units = 1);
  std::uint32_t value() const;

  // To send it, publish it, open it again.
  LockRef ref() const;

 private:
  explicit Semaphore(std::shared_ptr<locks::Semaphore> semaphore) noexcept
      : semaphore_(std::move(semaphore)) {}
  bool acquire_within(detail::Limit limit);
  std::shared_ptr<locks::Semaphore> semaphore_;
};

// A semaphore that never has more than it began with: a release too many is an error.
class BoundedSemaphore : public Semaphore {
 public:
  // With `value` units, and never more.
  explicit BoundedSemaphore(std::uint32_t value = 1, bool recover = false)
      : Semaphore({value, value, recover}) {}
  template <std::same_as<std::nullptr_t> None>
  explicit BoundedSemaphore(None none) noexcept : Semaphore(none) {}
  static BoundedSemaphore open(detail::LockName name) { return BoundedSemaphore(Semaphore::open(name)); }

 private:
  explicit BoundedSemaphore(Semaphore semaphore) noexcept : Semaphore(std::move(semaphore)) {}
};

}  // namespace forklift::inline abi_0_1

template <>
struct std::hash<forklift::Semaphore> : forklift::detail::HandleHash {};
template <>
struct std::hash<forklift::BoundedSemaphore> : forklift::detail::HandleHash {};
