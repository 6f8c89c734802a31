// Condition between processes: std::condition_variable_any's interface, over a Lock or an RLock.
//
//   forklift::Lock lock;
//   forklift::Condition changed;
//   std::unique_lock guard(lock);
//   changed.wait(guard, [&] { return state->ready; });
//   if (!changed.try_wait(guard, {1s, stop}, [&] { return state->done; })) ...
//   changed.notify_one();                                   // by whoever holds the lock
//
// notify_one() is for the thread that has waited longest among those that wait now. If its process is killed
// before it has the lock again, the next one is notified in its place.
//
// Waits may end without cause, rarely: use a predicate. An RLock must be locked once, not more, by who waits.
// Copies, thread and process safety: as Lock (lock.h, lock_ref.h).
//
// Errors: Error with kInvalid when the guard does not own its lock, kNoSpace when 65,536 threads wait
// already, kStalled, kNotAttached. The guard owns its lock again whenever a wait ends, also by an exception.
//
// Invariant: a notification goes to one that waited when it was given.
#pragma once

#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <stop_token>
#include <utility>

#include "forklift/detail/caught.h"
#include "forklift/lock.h"

namespace forklift::inline abi_0_1 {

namespace detail {

// One thread's place among the waiters, from before it gives up the lock until it has it again.
class ConditionPlace {
 public:
  explicit ConditionPlace(const std::shared_ptr<locks::Condition>& condition);
  ~ConditionPlace();
  ConditionPlace(const ConditionPlace&) = delete;
  ConditionPlace& operator=(const ConditionPlace&) = delete;
  // False: the wait is over.
  bool wait(Limit limit);

 private:
  const std::shared_ptr<locks::Condition>& condition_;
  std::uint32_t place_;
};

[[noreturn]] void throw_not_owned();

}  // namespace detail

class Condition {
 public:
  Condition();
  static Condition open(detail::LockName name);
  // No condition: a handle that costs nothing, to be assigned later. Its members throw Error (kClosed).
  template <std::same_as<std::nullptr_t> None>
  explicit Condition(None) noexcept {}
  explicit operator bool() const noexcept { return condition_ != nullptr; }

  // Gives the lock up, waits for a notification, takes the lock again. With a predicate: until that holds.
  template <class L>
  void wait(std::unique_lock<L>& guard) {
    (void)wait_once(guard, detail::kForever);
  }
  template <class L, class Predicate>
  void wait(std::unique_lock<L>& guard, Predicate ready) {
    while (!ready()) wait(guard);
  }
  // The predicate's last answer: false if it did not hold before the wait was over. Without a predicate: false if
  // there was no notification.
  template <class L>
  [[nodiscard]] bool try_wait(std::unique_lock<L>& guard, const Wait& wait) {
    return wait_once(guard, wait);
  }
  template <class L, class Predicate>
  [[nodiscard]] bool try_wait(std::unique_lock<L>& guard, const Wait& wait, Predicate ready) {
    return wait_within(guard, wait, std::move(ready));
  }

  // The same in the words of std::condition_variable_any.
  template <class L, class Rep, class Period>
  std::cv_status wait_for(std::unique_lock<L>& guard, std::chrono::duration<Rep, Period> time) {
    return status_of(wait_once(guard, detail::nanoseconds(time)));
  }
  template <class L, class Clock, class Duration>
  std::cv_status wait_until(std::unique_lock<L>& guard, std::chrono::time_point<Clock, Duration> when) {
    return status_of(wait_once(guard, detail::nanoseconds_until(when)));
  }
  template <class L, class Rep, class Period, class Predicate>
  bool wait_for(std::unique_lock<L>& guard, std::chrono::duration<Rep, Period> time, Predicate ready) {
    return wait_within(guard, time, std::move(ready));
  }
  template <class L, class Clock, class Duration, class Predicate>
  bool wait_until(std::unique_lock<L>& guard, std::chrono::time_point<Clock, Duration> when,
                  Predicate ready) {
    return wait_within(guard, when, std::move(ready));
  }
  template <class L, class Predicate>
  bool wait(std::unique_lock<L>& guard, std::stop_token stop, Predicate ready) {
    return wait_within(guard, std::move(stop), std::move(ready));
  }
  template <class L, class Rep, class Period, class Predicate>
  bool wait_for(std::unique_lock<L>& guard, std::stop_token stop, std::chrono::duration<Rep, Period> time,
                Predicate ready) {
    return wait_within(guard, {time, std::move(stop)}, std::move(ready));
  }
  template <class L, class Clock, class Duration, class Predicate>
  bool wait_until(std::unique_lock<L>& guard, std::stop_token stop,
                  std::chrono::time_point<Clock, Duration> when, Predicate ready) {
    return wait_within(guard, {when, std::move(stop)}, std::move(ready));
  }

  // By the holder of the lock.
  void notify_one() { (void)notify(1); }
  void notify_all() { (void)notify(~std::size_t{0}); }
  // How many were notified.
  std::size_t notify(std::size_t most);
  std::size_t waiting() const;

  // To send it, publish it, open it again.
  LockRef ref() const;

 private:
  explicit Condition(std::shared_ptr<locks::Condition> condition) noexcept
      : condition_(std::move(condition)) {}

  static std::cv_status status_of(bool notified) noexcept {
    return notified ? std::cv_status::no_timeout : std::cv_status::timeout;
  }

  template <class L>
  bool wait_once(std::unique_lock<L>& guard, detail::Limit limit) {
    if (!guard.owns_lock()) detail::throw_not_owned();
    detail::ConditionPlace place(condition_);
    guard.unlock();
    bool notified = false;
    std::exception_ptr failure = detail::caught([&] { notified = place.wait(limit); });
    guard.lock();
    if (failure) detail::rethrow(failure);
    return notified;
  }

  template <class L, class Predicate>
  bool wait_within(std::unique_lock<L>& guard, const Wait& wait, Predicate ready) {
    detail::Limit limit(wait);
    const std::int64_t until =
        limit.ns == detail::kForever ? detail::kForever : detail::steady_after(limit.ns);
    while (!ready()) {
      if (until != detail::kForever) limit.ns = detail::steady_left(until);
      if (!wait_once(guard, limit)) return ready();
    }
    return true;
  }

  std::shared_ptr<locks::Condition> condition_;
};

}  // namespace forklift::inline abi_0_1

template <>
struct std::hash<forklift::Condition> : forklift::detail::HandleHash {};
