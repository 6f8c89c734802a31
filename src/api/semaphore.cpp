#include "forklift/semaphore.h"

#include "api/lock_support.h"
#include "locks/semaphore.h"

namespace forklift::inline abi_0_1 {

Semaphore::Semaphore(const SemaphoreOptions& options)
    : semaphore_(value_or_throw(
          locks::Semaphore::create(detail::lock_table(), {options.value, options.most, options.recover}))) {}
Semaphore Semaphore::open(detail::LockName name) {
  return Semaphore(value_or_throw(locks::Semaphore::open(detail::lock_table(name), detail::id_of(name))));
}
bool Semaphore::acquire_within(detail::Limit limit) {
  locks::Semaphore& semaphore = detail::object_of(semaphore_);
  bool taken = false;
  throw_if_failed(semaphore.try_before_waiting(taken));
  if (taken) return true;
  return detail::wait_for_lock(
      limit, [&](os::Deadline until, locks::WaitHooks* hooks) { return semaphore.acquire(until, hooks); },
      [&semaphore] { semaphore.wake_all(); });
}
void Semaphore::release(std::uint32_t units) {
  throw_if_failed(detail::object_of(semaphore_).release(units));
}
std::uint32_t Semaphore::value() const { return detail::object_of(semaphore_).value(); }
LockRef Semaphore::ref() const { return detail::ref_of(semaphore_); }

}  // namespace forklift::inline abi_0_1
