#include "forklift/latch.h"

#include "api/lock_support.h"
#include "locks/latch.h"

namespace forklift::inline abi_0_1 {

Latch::Latch(std::uint64_t count)
    : latch_(value_or_throw(locks::Latch::create(detail::lock_table(), count))) {}
Latch Latch::open(detail::LockName name) {
  return Latch(value_or_throw(locks::Latch::open(detail::lock_table(name), detail::id_of(name))));
}
void Latch::count_down(std::uint64_t by) { throw_if_failed(detail::object_of(latch_).count_down(by)); }
std::uint64_t Latch::left() const { return detail::object_of(latch_).left(); }
bool Latch::wait_within(detail::Limit limit) const {
  locks::Latch& latch = detail::object_of(latch_);
  return detail::wait_for_lock(
      limit, [&](os::Deadline until, locks::WaitHooks* hooks) { return latch.wait(until, hooks); },
      [&latch] { latch.wake_all(); });
}
LockRef Latch::ref() const { return detail::ref_of(latch_); }

}  // namespace forklift::inline abi_0_1
