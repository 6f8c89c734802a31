// Condition: threads that wait to be notified, in the order in which they began.
//
//   Result<std::uint32_t> place = condition->enrol();       // while the caller holds its lock
//   lock->release();
//   Status status = condition->wait(*place, deadline, hooks); // ok: notified; kTimeout, ...
//   lock->acquire(...);
//   condition->leave(*place);                               // not before: see below
//
// A notification is a ticket for one waiter that was enrolled when it was given; who comes later cannot take
// it. Until `leave` the ticket belongs to the waiter's record: if it is killed before, the reaper gives the
// ticket to the next one. (A reaper that is killed in that very act may give out one too many: a waiter then
// wakes without cause, as conditions may.)
//
// Thread and process safety: `notify` and `enrol` are ordered by the lock that the caller holds; nothing else
// is asked of it.
#pragma once

#include "locks/table.h"

namespace forklift::locks {

class Condition : public Object {
 public:
  static Result<std::shared_ptr<Condition>> create(Table& table);
  static Result<std::shared_ptr<Condition>> open(Table& table, LockId id);

  // This thread's place among the waiters. kNoSpace, kStalled, kNotAttached.
  Result<std::uint32_t> enrol();
  // Ok: notified. kTimeout, or what the hooks say: not, and a notification that came too late to be noticed
  // was passed on.
  Status wait(std::uint32_t place, os::Deadline deadline, WaitHooks* hooks);
  void leave(std::uint32_t place);
  // Makes the waiter look at its hooks.
  void ring(std::uint32_t place) noexcept;

  // Notifies those who have waited longest, `most` of them or all if there are fewer. How many it were.
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

}  // namespace forklift::locks
