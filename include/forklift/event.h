// Event between processes: a flag that threads wait for.
//
//   forklift::Event started;
//   auto child = forklift::Process::fork([=]() mutable { prepare(); started.set(); serve(); }).start();
//   if (!started.try_wait(std::chrono::seconds(5))) child.kill();
//
// set() wakes all who wait, even if the flag is cleared at once.
//
// Copies, thread and process safety: as Lock (lock.h, lock_ref.h).
// Errors: Error with kNotAttached; kNoSpace from the constructor.
// Invariant: a wait that began before a set() ends by it.
#pragma once

#include <memory>

#include "forklift/detail/lock_ref.h"
#include "forklift/wait.h"

namespace forklift {

class Event {
 public:
  Event();
  static Event open(detail::LockName name);

  // Sets the flag, which wakes all who wait; takes it back; looks at it.
  void set();
  void clear();
  bool is_set() const;
  // Until the flag is set. False: it was not before the wait was over.
  void wait() const { (void)wait_within(detail::kForever); }
  [[nodiscard]] bool try_wait(const Wait& wait = Wait::now()) const { return wait_within(wait); }

  // To send it, publish it, open it again.
  LockRef ref() const;

 private:
  explicit Event(std::shared_ptr<locks::Event> event) noexcept : event_(std::move(event)) {}
  bool wait_within(detail::Limit limit) const;
  std::shared_ptr<locks::Event> event_;
};

}  // namespace forklift
