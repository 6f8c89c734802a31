// Condition: threads that wait to be notified, in the order in which they began.
//
//   Result<std::uint32_t> place = condition->enrol();       // while the caller holds its lock
//   lock->release();
//   Status status = condition->wait(*place, deadline, hooks); // ok: notified; kTimeout, ...
//   lock->acquire(...);
//   condition->leave(*place);                               // not before: see below
//
// A notification goes to the ticket of one waiter that was enrolled when it was given; a later waiter cannot
// take it. Until `leave` it belongs to that waiter's record: if the waiter is killed before, the reaper
// passes the notification on to the next one. (A reaper that is killed in that very act may pass on one too
// many: a waiter then has a spurious wake-up, as conditions may.)
//
// Thread and process safety: `notify` and `enrol` are ordered by the lock that the caller holds; nothing else
// is required of that lock.
#pragma once

#include "locks/table.h"

namespace forklift::inline abi_0_1::locks {

class Condition : public Object {
 public:
  static Result<std::shared_ptr<Condition>> create(Table& table);
  static Result<std::shared_ptr<Condition>> open(Table& table, LockId id);

  // Enters this thread and returns its place among the waiters. Errors: kNoSpace, kStalled, kNotAttached.
  Result<std::uint32_t> enrol();
  // Ok: notified. kTimeout, or the hooks' status: not notified; a notification that came just as the hooks
  // ended the wait was passed on.
  Status wait(std::uint32_t place, os::Deadline deadline, WaitHooks* hooks);
  void leave(std::uint32_t place);
  // Wakes the waiter, which then polls its hooks.
  void ring(std::uint32_t place) noexcept;

  // Notifies the threads that have waited longest, `most` of them or all if there are fewer. Returns how
  // many.
  std::size_t notify(std::size_t most);
  // Threads between enrol and their notification.
  std::size_t waiting() const noexcept;

  // For the reaper: a dead waiter's notification goes to the next one. Idempotent.
  static void pass_on(Table& table, std::uint32_t place);

 private:
  using Object::Object;
  static std::size_t notify(Table& table, std::uint64_t object, std::size_t most);
  void look_after_notified();
};
using ConditionPtr = std::shared_ptr<Condition>;

}  // namespace forklift::inline abi_0_1::locks
