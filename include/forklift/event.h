// Event between processes: a flag that threads wait for.
//
//   forklift::Event started;
//   auto child = forklift::Process::fork([=]() mutable { prepare(); started.set(); serve(); }).start();
//   if (!started.wait_for(std::chrono::seconds(5))) child.kill();
//
// set() wakes all who wait, even if the flag is cleared at once.
//
// Time-outs, stop_token, copies, thread and process safety: as Lock (lock.h, lock_ref.h).
// Errors: Error with kNotAttached; kNoSpace from the constructor.
// Invariant: a wait that began before a set() ends by it.
#pragma once

#include <chrono>
#include <memory>
#include <stop_token>

#include "forklift/detail/lock_ref.h"
#include "forklift/detail/timeout.h"

namespace forklift {

class Event {
 public:
  Event();
  static Event open(detail::LockName name);

  // Sets the flag, which wakes all who wait; takes it back; looks at it.
  void set();
  void clear();
  bool is_set() const;
  // Until the flag is set.
  void wait() const { (void)wait_within(detail::kForever, nullptr); }
  // False: the time is over.
  template <class Rep, class Period>
  bool wait_for(std::chrono::duration<Rep, Period> time) const {
    return wait_within(detail::nanoseconds(time), nullptr);
  }
  template <class Clock, class Duration>
  bool wait_until(std::chrono::time_point<Clock, Duration> when, const std::stop_token& stop = {}) const {
    return wait_within(detail::nanoseconds_until(when), &stop);
  }
  // False: stop was requested first, or the time is over.
  bool wait(const std::stop_token& stop) const { return wait_within(detail::kForever, &stop); }
  template <class Rep, class Period>
  bool wait_for(std::chrono::duration<Rep, Period> time, const std::stop_token& stop) const {
    return wait_within(detail::nanoseconds(time), &stop);
  }

  // To send it, publish it, open it again.
  LockRef ref() const;

 private:
  explicit Event(std::shared_ptr<locks::Event> event) noexcept : event_(std::move(event)) {}
  bool wait_within(std::int64_t ns, const std::stop_token* stop) const;
  std::shared_ptr<locks::Event> event_;
};

}  // namespace forklift
