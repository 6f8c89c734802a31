// Event: a flag that processes wait for. One word counts how often it was set, so that who waits notices even
// if it is cleared again at once. Deaths leave nothing to repair.
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
  // Ok: it is set, or was set since the call. kTimeout, or what the hooks say.
  Status wait(os::Deadline deadline, WaitHooks* hooks);

 private:
  using Object::Object;
};
using EventPtr = std::shared_ptr<Event>;

}  // namespace forklift::locks
