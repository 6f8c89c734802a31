// Event: a flag that processes wait for. One word also counts how often it was set, so that a waiter notices
// a set even if the flag is cleared again at once. A death leaves nothing to repair.
#pragma once

#include "locks/table.h"
#include "watch/descriptor.h"

namespace forklift::inline abi_0_1::locks {

class Event : public Object {
 public:
  static Result<std::shared_ptr<Event>> create(Table& table);
  static Result<std::shared_ptr<Event>> open(Table& table, LockId id);

  bool is_set() const noexcept {
    const bool set = flag();
    if (!set) descriptor_.settle();
    return set;
  }
  // kNotAttached.
  Status set();
  Status clear();
  // Ok: the flag is set, or was set since the call began. Otherwise kTimeout, kNotAttached, or the hooks'
  // status.
  Status wait(os::Deadline deadline, WaitHooks* hooks);

  // Of this process; readable while the flag is set (watch/descriptor.h).
  Result<int> descriptor(watch::Watches& watches);

 private:
  using Object::Object;
  bool flag() const noexcept { return (row_.state.load(std::memory_order_acquire) & 1) != 0; }
  mutable watch::DescriptorCell descriptor_;
};
using EventPtr = std::shared_ptr<Event>;

}  // namespace forklift::inline abi_0_1::locks
