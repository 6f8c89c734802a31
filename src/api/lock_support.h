// What the public locks, semaphores, conditions, events and barriers have in common: the table that this
// process has attached, time-outs and stops as answers, and a handle's object.
#pragma once

#include <memory>
#include <utility>

#include "api/attached.h"
#include "api/stop.h"
#include "forklift/detail/lock_ref.h"
#include "forklift/detail/timeout.h"
#include "forklift/error.h"
#include "locks/table.h"

namespace forklift::inline abi_0_1::detail {

inline locks::Table& lock_table() { return attached_node().locks(); }
inline locks::Table& lock_table(LockName name) {
  return name.domain == 0 ? lock_table() : node_numbered(name.domain).locks();
}

// `wait(deadline, hooks)`; `wake()` makes it look at the hooks. False: the wait is over.
template <class Call, class Wake>
bool wait_for_lock(Limit limit, Call&& wait, Wake&& wake) {
  const os::Deadline deadline = deadline_of(limit);
  return settled(wait_stoppable(
      limit.stop, [&](locks::WaitHooks* hooks) { return wait(deadline, hooks); }, std::forward<Wake>(wake)));
}

// The object behind a handle.
template <class Object>
Object& object_of(const std::shared_ptr<Object>& handle) {
  if (!handle) [[unlikely]]
    throw Error({Code::kClosed, "this lock, or the like, was moved from"});
  return *handle;
}
template <class Object>
LockRef ref_of(const std::shared_ptr<Object>& handle) {
  (void)object_of(handle);
  return LockRef(handle);
}

inline locks::LockId id_of(LockName name) { return {name.index, name.generation}; }

}  // namespace forklift::inline abi_0_1::detail
