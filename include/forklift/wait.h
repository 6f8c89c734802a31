// Wait: how long a call may wait. Every call that waits comes twice: one that waits as long as it takes, and one
// named try_ that takes a Wait and says whether it succeeded.
//
//   Frame frame = frames.get();                             // as long as it takes
//   if (auto next = frames.try_get()) ...                   // not at all
//   if (auto next = frames.try_get(5ms)) ...                // for a duration
//   if (auto next = frames.try_get(deadline)) ...           // until a time point, of any clock
//   if (auto next = frames.try_get(stop)) ...               // until a std::stop_token asks to stop
//   if (auto next = frames.try_get({5ms, stop})) ...        // until either
//
// A time that is over and a stop that was requested are answers, not errors: false, or an empty optional, and
// nothing was changed. A stop that was requested before the call makes it not wait: what is there is taken.
//
// Thread and process safety: a value. A Wait made of a time point means that time whenever it is used; one made of
// a duration counts from the call that it is given to.
//
// Invariants: nothing overflows. A time beyond 292 years, and an infinite one, mean as long as it takes; a negative
// one, a time point that has passed and one that is no number mean not at all.
#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <utility>

#include "forklift/detail/timeout.h"

namespace forklift::inline abi_0_1 {

class Wait {
 public:
  // Not at all.
  Wait() noexcept = default;
  template <class Rep, class Period>
  Wait(std::chrono::duration<Rep, Period> time) noexcept : ns_(detail::nanoseconds(time)) {}
  template <class Clock, class Duration>
  Wait(std::chrono::time_point<Clock, Duration> when) noexcept : Wait(when, std::stop_token()) {}
  Wait(std::stop_token stop) noexcept : ns_(detail::kForever), stop_(std::move(stop)) {}
  template <class Rep, class Period>
  Wait(std::chrono::duration<Rep, Period> time, std::stop_token stop) noexcept
      : ns_(detail::nanoseconds(time)), stop_(std::move(stop)) {}
  template <class Clock, class Duration>
  Wait(std::chrono::time_point<Clock, Duration> when, std::stop_token stop) noexcept
      : ns_(detail::nanoseconds_until(when)), stop_(std::move(stop)) {
    if (ns_ == detail::kForever || ns_ == 0) return;
    is_deadline_ = true;
    ns_ = detail::steady_after(ns_);
  }

  // Not at all; as long as it takes.
  static Wait now() noexcept { return {}; }
  static Wait forever() noexcept { return Wait(std::stop_token()); }
  // Does neither a time nor a stop end it?
  bool is_forever() const noexcept { return ns_ == detail::kForever && !stop_.stop_possible(); }
  // The time is over, or a stop was requested.
  bool over() const noexcept {
    if (stop_.stop_requested()) return true;
    return is_deadline_ ? detail::steady_left(ns_) == 0 : ns_ == 0;
  }
  // The same wait begun now: for several calls that share one duration.
  Wait begun() const noexcept {
    Wait wait(*this);
    if (is_deadline_ || ns_ == detail::kForever || ns_ == 0) return wait;
    wait.is_deadline_ = true;
    wait.ns_ = detail::steady_after(ns_);
    return wait;
  }
  // What ends it beside the time; one that cannot be stopped where there is none.
  const std::stop_token& stop() const noexcept { return stop_; }

  // For the library's own parts: it refers to this object's token.
  operator detail::Limit() const noexcept {
    const std::int64_t ns = is_deadline_ ? detail::steady_left(ns_) : ns_;
    return {ns, stop_.stop_possible() ? &stop_ : nullptr};
  }

 private:
  std::int64_t ns_ = 0;  // of the steady clock where is_deadline_; detail::kForever: no time ends it
  bool is_deadline_ = false;
  std::stop_token stop_;
};

}  // namespace forklift::inline abi_0_1
