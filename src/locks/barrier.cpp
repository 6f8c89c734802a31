#include "locks/barrier.h"

#include <climits>

namespace forklift::inline abi_0_1::locks {

namespace {

BarrierState state_in(const LockRow& row) {
  return static_cast<BarrierState>(row.depth.load(std::memory_order_acquire));
}
void set_state(sync::Transaction& change, LockRow& row, BarrierState state) {
  change.set(row.depth, static_cast<std::uint64_t>(state));
}

}  // namespace

Result<BarrierPtr> Barrier::create(Table& table, std::uint32_t parties) {
  if (parties == 0) return Status(Code::kInvalid, "a barrier of no parties");
  Result<Right> right = table.make(Kind::kBarrier, parties, 0, 0);
  if (!right) return right.status();
  return BarrierPtr(new Barrier(table, *std::move(right)));
}

Result<BarrierPtr> Barrier::open(Table& table, LockId id) {
  Result<Right> right = table.take_up(Kind::kBarrier, id);
  if (!right) return right.status();
  return BarrierPtr(new Barrier(table, *std::move(right)));
}

template <class Step>
Status Barrier::step(Step&& change) {
  if (!attached()) return domain().not_attached();
  const BarrierState before = state();
  Status status = table_.arena().ledger().change_objects(std::forward<Step>(change));
  // Arriving and leaving wake nobody unless they change the state. If another process changes the state in
  // between, it wakes the waiters, too.
  if (state() != before) row_.event.notify_after_unlock(INT_MAX);
  return status;
}

BarrierState Barrier::state() const noexcept { return state_in(row_); }
bool Barrier::broken() const noexcept { return state() == BarrierState::kBroken; }
void Barrier::wake_all() noexcept { row_.event.notify(INT_MAX); }
std::uint32_t Barrier::parties() const noexcept {
  return static_cast<std::uint32_t>(row_.most.load(std::memory_order_relaxed));
}
std::uint32_t Barrier::waiting() const noexcept {
  const BarrierState now = state();
  return now == BarrierState::kFilling || now == BarrierState::kActing
             ? static_cast<std::uint32_t>(row_.inside.load(std::memory_order_acquire))
             : 0;
}

bool Barrier::missing() const noexcept {
  return state() == BarrierState::kFilling && row_.strayed.load(std::memory_order_acquire) != 0;
}

bool Barrier::has_record() const noexcept {
  if (party_ == kNoCell) return false;
  const Cell& cell = table_.cell(party_);
  return Owner::process_of(cell.owner.load(std::memory_order_relaxed)) == table_.process() &&
         cell.object.load(std::memory_order_relaxed) == id_.word() &&
         cell.units.load(std::memory_order_relaxed) != 0;
}

// A process that drops the barrier is no longer a party.
Barrier::~Barrier() {
  if (party_ == kNoCell || !attached()) return;
  (void)table_.arena().ledger().change_objects([&](sync::Transaction& change) -> Status {
    if (has_record()) table_.put_cell(change, party_);
    return {};
  });
}

Result<Arrival> Barrier::arrive(WaitHooks* hooks) {
  const auto closed = [](BarrierState now) {
    return now == BarrierState::kActing || now == BarrierState::kDraining || now == BarrierState::kResetting;
  };
  const auto ready = [&] { return !closed(state()); };
  for (;;) {
    Arrival arrival;
    bool wait = false;
    Status status = step([&](sync::Transaction& change) -> Status {
      const BarrierState now = state();
      wait = closed(now);
      arrival.broken = now == BarrierState::kBroken;
      if (wait || arrival.broken) return {};
      arrival.party = has_record() && table_.cell(party_).units.load(std::memory_order_relaxed) ==
                                          row_.state.load(std::memory_order_relaxed);
      if (const std::uint64_t missed = row_.strayed.load(std::memory_order_relaxed); missed != 0) {
        if (arrival.party) {
          arrival.broken = true;
          set_state(change, row_, BarrierState::kBroken);
          return {};
        }
        change.set(row_.strayed, missed - 1);
      }
      Result<std::uint32_t> cell = table_.take_cell(change, table_.thread(), id_);
      if (!cell) return cell.status();
      arrival.cell = *cell;
      arrival.phase = row_.state.load(std::memory_order_relaxed);
      arrival.index = static_cast<std::uint32_t>(row_.inside.load(std::memory_order_relaxed));
      arrival.last = arrival.index + 1 == parties();
      change.set(row_.inside, arrival.index + 1);
      if (arrival.last) set_state(change, row_, BarrierState::kActing);
      return {};
    });
    if (!status) return status;
    if (!wait) return arrival;
    table_.look_after_all(id_);
    status = domain::wait_for(domain::lock_place(row_.event, row_.spinner, spin_policy_), ready, domain(),
                              os::Deadline::never(), hooks);
    if (!status) return status;
  }
}

Result<bool> Barrier::open_up(const Arrival& arrival) {
  bool opened = false;
  Status status = step([&](sync::Transaction& change) -> Status {
    opened = state() == BarrierState::kActing && row_.state.load(std::memory_order_relaxed) == arrival.phase;
    if (!opened) return {};
    set_state(change, row_, BarrierState::kDraining);
    change.set(row_.state, arrival.phase + 1);
    change.set(row_.strayed, 0);
    return {};
  });
  if (!status) return status;
  return opened;
}

Result<bool> Barrier::wait(const Arrival& arrival, os::Deadline deadline, WaitHooks* hooks,
                           const std::function<void()>& expired) {
  const auto passed = [&] { return row_.state.load(std::memory_order_acquire) != arrival.phase; };
  const auto settled = [&] {
    const BarrierState now = state();
    return passed() || now == BarrierState::kBroken || now == BarrierState::kResetting;
  };
  const auto missed = [&] { return arrival.party && missing(); };
  while (!settled()) {
    if (missed()) {
      Status status = step([&](sync::Transaction& change) -> Status {
        if (missing() && !passed()) set_state(change, row_, BarrierState::kBroken);
        return {};
      });
      if (!status) return status;
      continue;
    }
    // All parties have arrived and the action runs: deadlines no longer count.
    const os::Deadline limit = state() == BarrierState::kActing ? os::Deadline::never() : deadline;
    table_.look_after_all(id_);
    Status status = domain::wait_for(
        domain::lock_place(row_.event, row_.spinner, spin_policy_), [&] { return settled() || missed(); },
        domain(), limit, hooks);
    if (status || settled() || missed()) continue;
    if (status.code() == Code::kTimeout) {
      if (expired) expired();
      status = step([&](sync::Transaction& change) -> Status {
        if (state() == BarrierState::kFilling && !passed()) set_state(change, row_, BarrierState::kBroken);
        return {};
      });
      if (!status) return status;
      continue;
    }
    // kInterrupted ends only this call: the party then leaves as if it had not arrived.
    if (status.code() != Code::kInterrupted) (void)abort();
    return status;
  }
  return passed();
}

Status Barrier::leave(const Arrival& arrival) {
  return step([&](sync::Transaction& change) -> Status {
    if (Owner::process_of(table_.cell(arrival.cell).owner.load(std::memory_order_relaxed)) !=
        table_.process())
      return {};
    const std::uint64_t phase = row_.state.load(std::memory_order_relaxed);
    if (phase == arrival.phase) {
      table_.put_cell(change, arrival.cell);  // this round did not open
    } else if (has_record()) {
      change.set(table_.cell(party_).units, phase);
      table_.put_cell(change, arrival.cell);
    } else {
      change.set(table_.cell(arrival.cell).units, phase);
      party_ = arrival.cell;
    }
    const std::uint64_t left = row_.inside.load(std::memory_order_relaxed) - 1;
    change.set(row_.inside, left);
    const BarrierState now = state();
    if (left == 0 && (now == BarrierState::kDraining || now == BarrierState::kResetting))
      set_state(change, row_, BarrierState::kFilling);
    return {};
  });
}

Status Barrier::abort() {
  return step([&](sync::Transaction& change) -> Status {
    set_state(change, row_, BarrierState::kBroken);
    return {};
  });
}

Status Barrier::reset() {
  return step([&](sync::Transaction& change) -> Status {
    const BarrierState now = state();
    change.set(row_.strayed, 0);
    if (row_.inside.load(std::memory_order_relaxed) == 0) {
      set_state(change, row_, BarrierState::kFilling);
    } else if (now != BarrierState::kDraining) {
      set_state(change, row_, BarrierState::kResetting);
    }
    return {};
  });
}

// Parties that had passed already go on; all others learn of the death, now or when they arrive.
void Barrier::party_died(sync::Transaction& change, LockRow& row, std::uint64_t units, bool clean) {
  if (units != 0) {  // between rounds
    if (!clean && units == row.state.load(std::memory_order_relaxed))
      change.set(row.strayed, row.strayed.load(std::memory_order_relaxed) + 1);
    return;
  }
  const std::uint64_t left = row.inside.load(std::memory_order_relaxed) - 1;
  change.set(row.inside, left);
  const bool reset = state_in(row) == BarrierState::kResetting;
  if (!reset) set_state(change, row, BarrierState::kBroken);
  if (reset && left == 0) set_state(change, row, BarrierState::kFilling);
}

}  // namespace forklift::inline abi_0_1::locks
