#include "locks/condition.h"

#include <algorithm>
#include <vector>

#include "domain/waiting.h"

namespace forklift::inline abi_0_1::locks {

namespace {

TicketState state_of(std::uint64_t ticket) { return static_cast<TicketState>(ticket & 3); }
std::uint64_t with_state(std::uint64_t ticket, TicketState state) {
  return (ticket & ~std::uint64_t{3}) | static_cast<std::uint64_t>(state);
}

void ring_bell(Cell& cell) noexcept {
  cell.bell.fetch_add(1);
  os::futex_wake(cell.bell, 1);
}

// Succeeds only while the cell belongs to this very wait; it may have been reused by another one.
bool change_ticket(Cell& cell, std::uint64_t seen, TicketState to) noexcept {
  return cell.ticket.compare_exchange_strong(seen, with_state(seen, to));
}

}  // namespace

Result<ConditionPtr> Condition::create(Table& table) {
  Result<Right> right = table.make(Kind::kCondition, 0, 0, 0);
  if (!right) return right.status();
  return ConditionPtr(new Condition(table, *std::move(right)));
}

Result<ConditionPtr> Condition::open(Table& table, LockId id) {
  Result<Right> right = table.take_up(Kind::kCondition, id);
  if (!right) return right.status();
  return ConditionPtr(new Condition(table, *std::move(right)));
}

Result<std::uint32_t> Condition::enrol() {
  if (!attached()) return domain().not_attached();
  std::uint32_t place = 0;
  Status status = table_.arena().ledger().change_objects([&](sync::Transaction& change) -> Status {
    Result<std::uint32_t> made = table_.take_cell(change, table_.thread(), id_);
    if (!made) return made.status();
    place = *made;
    return {};
  });
  if (!status) return status;
  table_.cell(place).ticket.store(with_state(table_.next_ticket() << 2, TicketState::kWaiting));
  return place;
}

Status Condition::wait(std::uint32_t place, os::Deadline deadline, WaitHooks* hooks) {
  Cell& cell = table_.cell(place);
  const auto notified = [&] { return state_of(cell.ticket.load()) == TicketState::kNotified; };
  Status status;
  const domain::WaitRecord record(domain(), &cell, domain::WaitKind::kEvent, deadline);
  while (status) {
    const std::uint32_t bell = cell.bell.load();
    if (notified()) return {};
    if (deadline.passed()) {
      status = {Code::kTimeout, "nobody notified"};
      break;
    }
    const std::int64_t until = sync::kLongSlices ? os::now_ns() + sync::kLongSliceNs : 0;
    for (bool sleeps_on = true; sleeps_on && status;) {
      look_after_notified();
      const std::int64_t slice = deadline.left_ns(domain::slice_ns(hooks));
      const os::FutexWait how = os::futex_wait(cell.bell, bell, slice);
      sync::note_sleep(slice, how == os::FutexWait::kTimedOut);
      sleeps_on = how == os::FutexWait::kTimedOut && !deadline.passed() && os::now_ns() < until;
      if (!sleeps_on && notified()) return {};
      if (hooks) status = hooks->poll();
      record.goes_on(hooks);
    }
  }
  const std::uint64_t ticket = cell.ticket.load();
  if (state_of(ticket) == TicketState::kWaiting && change_ticket(cell, ticket, TicketState::kIdle))
    return status;
  // Notified after all. A wait whose time is over uses the notification; a wait that the hooks ended passes
  // it on.
  if (status.code() == Code::kTimeout) return {};
  pass_on(table_, place);
  return status;
}

void Condition::leave(std::uint32_t place) {
  table_.cell(place).ticket.store(0);
  // If the ledger's lock is stuck, the record stays until this process ends; it has no effect.
  (void)table_.arena().ledger().change_objects([&](sync::Transaction& change) -> Status {
    if (Owner::process_of(table_.cell(place).owner.load(std::memory_order_relaxed)) == table_.process())
      table_.put_cell(change, place);
    return {};
  });
}

void Condition::ring(std::uint32_t place) noexcept { ring_bell(table_.cell(place)); }

std::size_t Condition::notify(std::size_t most) { return notify(table_, id_.word(), most); }

std::size_t Condition::notify(Table& table, std::uint64_t object, std::size_t most) {
  struct Waiter {
    std::uint64_t ticket;
    std::uint32_t place;
  };
  std::vector<Waiter> waiters;
  const std::uint32_t used = table.cells_used();
  for (std::uint32_t place = 0; place < used && most != 0; ++place) {
    const Cell& cell = table.cell(place);
    // The ticket is read first: if it is unchanged when it is swapped below, so is the object.
    const std::uint64_t ticket = cell.ticket.load();
    if (state_of(ticket) == TicketState::kWaiting && cell.object.load(std::memory_order_acquire) == object)
      waiters.push_back({ticket, place});
  }
  std::sort(waiters.begin(), waiters.end(),
            [](const Waiter& a, const Waiter& b) { return a.ticket < b.ticket; });
  std::size_t done = 0;
  for (const Waiter& waiter : waiters) {
    if (done == most) break;
    Cell& cell = table.cell(waiter.place);
    if (!change_ticket(cell, waiter.ticket, TicketState::kNotified)) continue;  // the waiter just gave up
    ring_bell(cell);
    ++done;
  }
  return done;
}

std::size_t Condition::waiting() const noexcept {
  std::size_t count = 0;
  const std::uint32_t used = table_.cells_used();
  for (std::uint32_t place = 0; place < used; ++place) {
    const Cell& cell = table_.cell(place);
    if (state_of(cell.ticket.load()) == TicketState::kWaiting && cell.object.load() == id_.word()) ++count;
  }
  return count;
}

void Condition::pass_on(Table& table, std::uint32_t place) {
  Cell& cell = table.cell(place);
  std::uint64_t ticket = cell.ticket.load();
  // A notification is passed on before its ticket is cleared, so that a death in between passes it on twice
  // rather than never. The ticket is cleared only if it is as it was seen, since a notifier may choose this
  // very ticket meanwhile (tests/model/condition.pml).
  do {
    if (state_of(ticket) == TicketState::kNotified)
      notify(table, cell.object.load(std::memory_order_acquire), 1);
    sync::crash_fence();
  } while (!cell.ticket.compare_exchange_strong(ticket, 0));
}

// Checks whether a waiter died with a notification, so that the notification is not unused until the regular
// check for deaths.
void Condition::look_after_notified() {
  domain().check_deaths();
  const std::uint32_t used = table_.cells_used();
  for (std::uint32_t place = 0; place < used; ++place) {
    const Cell& cell = table_.cell(place);
    if (state_of(cell.ticket.load()) == TicketState::kNotified &&
        cell.object.load(std::memory_order_acquire) == id_.word())
      table_.look_after(cell.owner.load(std::memory_order_acquire));
  }
}

}  // namespace forklift::inline abi_0_1::locks
