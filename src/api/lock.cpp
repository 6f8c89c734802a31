#include "forklift/lock.h"

#include "api/lock_support.h"
#include "locks/mutex.h"

namespace forklift::inline abi_0_1 {
namespace detail {

LockName name_of(const LockRef& lock) {
  const locks::LockId id = lock.get()->id();
  return {id.index, id.generation, 0};
}

MutexHandle::MutexHandle(bool recursive)
    : mutex_(value_or_throw(locks::Mutex::create(lock_table(), recursive))) {}

MutexHandle::MutexHandle(LockName name, bool recursive)
    : mutex_(value_or_throw(locks::Mutex::open(lock_table(name), id_of(name)))) {
  if (mutex_->recursive() != recursive)
    throw TypeMismatch({Code::kInvalid, "a Lock where an RLock was expected, or the reverse"});
}

bool MutexHandle::lock_within(Limit limit) {
  locks::Mutex& mutex = object_of(mutex_);
  if (mutex.try_before_waiting() != locks::Took::kNo) [[likely]]
    return true;
  locks::Took how = locks::Took::kNo;
  return wait_for_lock(
      limit, [&](os::Deadline until, locks::WaitHooks* hooks) { return mutex.acquire(until, hooks, how); },
      [&mutex] { mutex.wake_all(); });
}

void MutexHandle::unlock() {
  switch (object_of(mutex_).release()) {
    case locks::Released::kYes: return;
    case locks::Released::kNotHeld:
      throw Error({Code::kInvalid,
                   "unlock() of " + sync::labelled("a Lock", mutex_->label()) + ", which nobody holds"});
    case locks::Released::kNotOwner:
      throw Error({Code::kInvalid, "unlock() of " + sync::labelled("an RLock", mutex_->label()) +
                                       ", which this thread does not hold"});
    case locks::Released::kNotAttached: throw Error(mutex_->table().domain().not_attached());
  }
}

bool MutexHandle::locked() const { return object_of(mutex_).locked(); }
bool MutexHandle::mine() const { return object_of(mutex_).mine(); }
bool MutexHandle::abandoned() const { return object_of(mutex_).abandoned(); }
bool MutexHandle::recovers() const { return object_of(mutex_).recovers(); }
LockRef MutexHandle::ref() const { return ref_of(mutex_); }

}  // namespace detail

}  // namespace forklift::inline abi_0_1
