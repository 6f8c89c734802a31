#include "forklift/once.h"

#include "api/lock_support.h"
#include "locks/once.h"

namespace forklift::inline abi_0_1 {

Once::Once() : once_(value_or_throw(locks::Once::create(detail::lock_table()))) {}
Once Once::open(detail::LockName name) {
  return Once(value_or_throw(locks::Once::open(detail::lock_table(name), detail::id_of(name))));
}
bool Once::begin(detail::Limit limit, bool& mine) {
  locks::Once& once = detail::object_of(once_);
  return detail::wait_for_lock(
      limit, [&](os::Deadline until, locks::WaitHooks* hooks) { return once.begin(until, hooks, mine); },
      [&once] { once.wake_all(); });
}
void Once::Turn::end(bool done) noexcept {
  if (!ended_) once_.end(done);
  ended_ = true;
}
bool Once::done() const { return detail::object_of(once_).done(); }
LockRef Once::ref() const { return detail::ref_of(once_); }

}  // namespace forklift::inline abi_0_1
