#include "locks/event.h"

#include <climits>

namespace forklift::inline abi_0_1::locks {

Result<EventPtr> Event::create(Table& table) {
  Result<Right> right = table.make(Kind::kEvent, 0, 0, 0);
  if (!right) return right.status();
  return EventPtr(new Event(table, *std::move(right)));
}

Result<EventPtr> Event::open(Table& table, LockId id) {
  Result<Right> right = table.take_up(Kind::kEvent, id);
  if (!right) return right.status();
  return EventPtr(new Event(table, *std::move(right)));
}

Status Event::set() {
  if (!attached()) return domain().not_attached();
  std::uint64_t seen = row_.state.load(std::memory_order_acquire);
  while ((seen & 1) == 0) {
    if (row_.state.compare_exchange_weak(seen, (seen + 2) | 1)) {
      row_.event.notify_after_unlock(INT_MAX);
      break;
    }
  }
  return {};
}

Status Event::clear() {
  if (!attached()) return domain().not_attached();
  row_.state.fetch_and(~std::uint64_t{1});
  descriptor_.settle();
  return {};
}

Result<int> Event::descriptor(watch::Watches& watches) {
  if (!attached()) return domain().not_attached();
  return descriptor_.get(watches, row_.event, [this] { return flag(); });
}

Status Event::wait(os::Deadline deadline, WaitHooks* hooks) {
  if (!attached()) return domain().not_attached();
  const std::uint64_t before = row_.state.load(std::memory_order_acquire);
  const auto happened = [&] {
    const std::uint64_t now = row_.state.load(std::memory_order_acquire);
    return (now & 1) != 0 || (now >> 1) != (before >> 1);
  };
  if (!happened()) descriptor_.settle();
  while (!happened()) {
    Status status = domain::wait_for(domain::lock_place(row_.event, row_.spinner, spin_policy_), happened,
                                     domain(), deadline, hooks);
    if (!status && !happened()) return status;
  }
  return {};
}

}  // namespace forklift::inline abi_0_1::locks
