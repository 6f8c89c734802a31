// What the public locks, semaphores, conditions, events and barriers have in common: the table that this
// process has attached, time-outs and stops as answers, and a handle's object.
#pragma once

#include <memory>
#include <stop_token>
#include <utility>

#include "api/attached.h"
#include "api/stop.h"
#include "forklift/detail/lock_ref.h"
#include "forklift/detail/timeout.h"
#include "forklift/error.h"
#include "locks/table.h"

namespace forklift::detail {

inline locks::Table& lock_table() { return attached_node().locks(); }

// Without asking the clock where it does not matter.
inline os::Deadline deadline_after(std::int64_t ns) noexcept {
  return ns == kForever ? os::Deadline::never() : os::Deadline::after_ns(ns);
}

// False: the time is over, or stop was requested.
template <class Wait, class Wake>
bool wait_for_lock(const std::stop_token* stop, Wait&& wait, Wake&& wake) {
  const Status status = wait_stoppable(stop, std::forward<Wait>(wait), std::forward<Wake>(wake));
  if (status.ok()) return true;
  if (status.code() == Code::kTimeout || status.code() == Code::kInterrupted) return false;
  throw Error(status);
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

}  // namespace forklift::detail
