#include "forklift/event.h"

#include "api/attached.h"
#include "api/lock_support.h"
#include "locks/event.h"

namespace forklift::inline abi_0_1 {

Event::Event() : event_(value_or_throw(locks::Event::create(detail::lock_table()))) {}
Event Event::open(detail::LockName name) {
  return Event(value_or_throw(locks::Event::open(detail::lock_table(name), detail::id_of(name))));
}
void Event::set() { throw_if_failed(detail::object_of(event_).set()); }
void Event::clear() { throw_if_failed(detail::object_of(event_).clear()); }
bool Event::is_set() const { return detail::object_of(event_).is_set(); }
bool Event::wait_within(detail::Limit limit) const {
  locks::Event& event = detail::object_of(event_);
  return detail::wait_for_lock(
      limit, [&](os::Deadline until, locks::WaitHooks* hooks) { return event.wait(until, hooks); },
      [&event] { event.wake_all(); });
}
int Event::fileno() const {
  locks::Event& event = detail::object_of(event_);
  return value_or_throw(event.descriptor(detail::watches_of(event.table().arena())));
}
LockRef Event::ref() const { return detail::ref_of(event_); }

}  // namespace forklift::inline abi_0_1
