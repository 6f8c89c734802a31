#include "forklift/rw_lock.h"

#include "api/lock_support.h"
#include "locks/read_write.h"

namespace forklift::inline abi_0_1 {

namespace {

void throw_unless(locks::Released released, const locks::Object& lock, const char* otherwise) {
  if (released == locks::Released::kYes) return;
  if (released == locks::Released::kNotAttached) throw Error(lock.table().domain().not_attached());
  throw Error({Code::kInvalid, otherwise});
}

}  // namespace

RWLock::RWLock() : lock_(value_or_throw(locks::ReadWriteLock::create(detail::lock_table()))) {}
RWLock RWLock::open(detail::LockName name) {
  return RWLock(value_or_throw(locks::ReadWriteLock::open(detail::lock_table(name), detail::id_of(name))));
}

bool RWLock::lock_within(detail::Limit limit) {
  locks::ReadWriteLock& lock = detail::object_of(lock_);
  locks::Took how = locks::Took::kNo;
  return detail::wait_for_lock(
      limit, [&](os::Deadline until, locks::WaitHooks* hooks) { return lock.acquire(until, hooks, how); },
      [&lock] { lock.wake_all(); });
}

bool RWLock::lock_shared_within(detail::Limit limit) {
  locks::ReadWriteLock& lock = detail::object_of(lock_);
  return detail::wait_for_lock(
      limit, [&](os::Deadline until, locks::WaitHooks* hooks) { return lock.acquire_shared(until, hooks); },
      [&lock] { lock.wake_all(); });
}

void RWLock::unlock() {
  throw_unless(detail::object_of(lock_).release(), *lock_,
               "unlock() of an RWLock that this thread does not write under");
}
void RWLock::unlock_shared() {
  throw_unless(detail::object_of(lock_).release_shared(), *lock_,
               "unlock_shared() of an RWLock that this process does not read under");
}

bool RWLock::locked() const { return detail::object_of(lock_).locked(); }
bool RWLock::mine() const { return detail::object_of(lock_).mine(); }
std::uint64_t RWLock::readers() const { return detail::object_of(lock_).readers(); }
bool RWLock::abandoned() const { return detail::object_of(lock_).abandoned(); }
LockRef RWLock::ref() const { return detail::ref_of(lock_); }

}  // namespace forklift::inline abi_0_1
