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

#include <concepts>
#include <cstddef>
#include <memory>

#include "forklift/detail/async_ref.h"
#include "forklift/detail/lock_ref.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

class Event {
 public:
  Event();
  static Event open(detail::LockName name);
  // No event: a handle that costs nothing, to be assigned later. Its members throw Error (kClosed).
  template <std::same_as<std::nullptr_t> None>
  explicit Event(None) noexcept {}
  explicit operator bool() const noexcept { return event_ != nullptr; }

  // Sets the flag, which wakes all who wait; takes it back; looks at it.
  void set();
  void clear();
  bool is_set() const;
  // Until the flag is set. False: it was not before the wait was over.
  void wait() const { (void)wait_within(detail::kForever); }
  [[nodiscard]] bool try_wait(const Wait& wait = Wait::now()) const { return wait_within(wait); }

  // A descriptor for an event loop: readable while the flag is set, as far as this process has looked (is_set(), clear(),
  // a wait). Made by the first call (Error, kSystem, kNoSpace); it belongs to the handle and its copies in this process.
  int fileno() const;

  // As coroutines, on an event loop: co_await event.async_wait(loop). Include forklift/async.h.
  template <class Self = const Event>
  auto async_wait(Reactor& loop) const {
    return detail::Async<Self>::template wait<false>(*this, loop, Wait::forever());
  }
  template <class Self = const Event>
  auto async_try_wait(Reactor& loop, const Wait& wait) const {
    return detail::Async<Self>::template wait<true>(*this, loop, wait);
  }

  // To send it, publish it, open it again.
  LockRef ref() const;

 private:
  explicit Event(std::shared_ptr<locks::Event> event) noexcept : event_(std::move(event)) {}
  bool wait_within(detail::Limit limit) const;
  std::shared_ptr<locks::Event> event_;
};

}  // namespace forklift::inline abi_0_1

template <>
struct std::hash<forklift::Event> : forklift::detail::HandleHash {};
