#include "forklift/event.h"

#include "api/lock_support.h"
#include "locks/event.h"

namespace forklift {

Event::Event() : event_(need(locks::Event::create(detail::lock_table()))) {}
Event Event::found(detail::LockName name) {
  return Event(need(locks::Event::open(detail::lock_table(), detail::id_of(name))));
}
void Event::set() { check(detail::object_of(event_).set()); }
void Event::clear() { check(detail::object_of(event_).clear()); }
bool Event::is_set() const { return detail::object_of(event_).is_set(); }
bool Event::wait_within(std::int64_t ns, const std::stop_token* stop) const {
  locks::Event& event = detail::object_of(event_);
  return detail::wait_for_lock(
      stop, [&](locks::WaitHooks* hooks) { return event.wait(detail::deadline_after(ns), hooks); },
      [&event] { event.wake_all(); });
}
LockRef Event::ref() const { return detail::ref_of(event_); }

}  // namespace forklift
