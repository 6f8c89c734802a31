// Event: a flag that processes wait for. One word also counts how often it was set, so that a waiter notices
// a set even if the flag is cleared again at once. A death leaves nothing to repair.
#pragma once

#include "locks/table.h"

namespace forklift::locks {

class Event : public Object {
 public:
  static Result<std::shared_ptr<Event>> create(Table& table);
  static Result<std::shared_ptr<Event>> open(Table& table, LockId id);

  bool is_set() const noexcept { return (row_.state.load(std::memory_order_acquire) & 1) != 0; }
  // kNotAttached.
  Status set();
  Status clear();
  // Ok: the flag is set, or was set since the call began. Otherwise kTimeout, kNotAttached, or the hooks'
  // status.
  Status wait(os::Deadline deadline, WaitHooks* hooks);

 private:
  using Object::Object;
};
using EventPtr = std::shared_ptr<Event>;

}  // namespace forklift::locks
