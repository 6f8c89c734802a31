#include "locks/semaphore.h"

#include <algorithm>
#include <string>

namespace forklift::inline abi_0_1::locks {

namespace {

Status too_many(std::uint64_t value, std::uint64_t units, std::uint64_t most) {
  return {Code::kInvalid, "a semaphore of " + std::to_string(value) + " units, at most " +
                              std::to_string(most) + ", cannot have " + std::to_string(units) + " more"};
}

}  // namespace

Result<SemaphorePtr> Semaphore::create(Table& table, const SemaphoreOptions& options) {
  if (options.most > kMostUnits || options.value > options.most)
    return Status(Code::kInvalid, "a semaphore of " + std::to_string(options.value) + " units, at most " +
                                      std::to_string(std::min(options.most, kMostUnits)));
  const Kind kind = options.recover ? Kind::kRecovering : Kind::kSemaphore;
  Result<Right> right = table.make(kind, options.most, options.value, options.value);
  if (!right) return right.status();
  return SemaphorePtr(new Semaphore(table, *std::move(right), options.recover));
}

Result<SemaphorePtr> Semaphore::open(Table& table, LockId id) {
  const Kind kind = table.kind_of(id) == Kind::kRecovering ? Kind::kRecovering : Kind::kSemaphore;
  Result<Right> right = table.take_up(kind, id);
  if (!right) return right.status();
  return SemaphorePtr(new Semaphore(table, *std::move(right), kind == Kind::kRecovering));
}

Status Semaphore::acquire(os::Deadline deadline, WaitHooks* hooks) {
  const domain::WaitPoint place = domain::lock_place(row_.event, row_.spinner, spin_policy_);
  const auto ready = [this] { return value() != 0; };
  if (fairness_.owes() && !deadline.passed()) fairness_.yield_turn(row_, [&] { return !ready(); });
  LongWait wait(row_);
  for (;;) {
    bool taken = false;
    if (Status status = try_acquire(taken); !status || taken) {
      wait.taken();
      return status;
    }
    if (deadline.passed()) {
      if (recover_) domain().check_deaths();
      if (Status status = try_acquire(taken); !status || taken) return status;
      return {Code::kTimeout, "the semaphore has no unit"};
    }
    wait.overtaken();
    if (domain::spin_at(place, ready, domain())) continue;
    wait.before_sleep();
    if (recover_) table_.look_after_all(id_);
    Status status = domain::sleep_at(place, ready, domain(), deadline, hooks);
    if (!status && status.code() != Code::kTimeout) return status;
  }
}

Status Semaphore::release(std::uint32_t units) {
  if (!attached()) return domain().not_attached();
  if (recover_) return release_recorded(units);
  std::uint64_t value = row_.state.load(std::memory_order_relaxed);
  do {
    if (units > most_ || value > most_ - units) return too_many(value, units, most_);
  } while (!row_.state.compare_exchange_weak(value, value + units));
  const std::uint64_t debt = Fairness::debt(row_);
  row_.event.notify_after_unlock(static_cast<int>(units));
  if (debt != 0) fairness_.owe(debt);
  return {};
}

// The index of this process's record, or the number of used cells if there is none. Call with the ledger's
// lock held.
std::uint32_t Semaphore::own_cell() const noexcept {
  const std::uint32_t used = table_.cells_used();
  const std::uint64_t me = table_.process();
  std::uint32_t index = 0;
  while (index < used) {
    const Cell& cell = table_.cell(index);
    if (cell.object.load(std::memory_order_relaxed) == id_.word() &&
        Owner::process_of(cell.owner.load(std::memory_order_relaxed)) == me)
      break;
    ++index;
  }
  return index;
}

Status Semaphore::try_recorded(bool& taken) {
  if (!attached()) return domain().not_attached();
  if (value() == 0) return {};
  return table_.arena().ledger().change_objects([&](sync::Transaction& change) -> Status {
    const std::uint64_t value = row_.state.load(std::memory_order_relaxed);
    if (value == 0) return {};
    change.set(row_.state, value - 1);
    const std::uint32_t own = own_cell();
    if (own < table_.cells_used()) {
      Cell& cell = table_.cell(own);
      change.set(cell.units, cell.units.load(std::memory_order_relaxed) + 1);
    } else if (Result<std::uint32_t> made = table_.take_cell(change, table_.thread(), id_, 1); !made) {
      return made.status();
    }
    taken = true;
    return {};
  });
}

Status Semaphore::release_recorded(std::uint32_t units) {
  Status status = table_.arena().ledger().change_objects([&](sync::Transaction& change) -> Status {
    const std::uint64_t value = row_.state.load(std::memory_order_relaxed);
    if (units > most_ || value > most_ - units) return too_many(value, units, most_);
    const std::uint32_t own = own_cell();
    std::uint64_t returned = 0;
    if (own < table_.cells_used()) {
      Cell& cell = table_.cell(own);
      const std::uint64_t held = cell.units.load(std::memory_order_relaxed);
      returned = std::min<std::uint64_t>(held, units);
      if (returned == held) {
        table_.put_cell(change, own);
      } else {
        change.set(cell.units, held - returned);
      }
    }
    change.set(row_.state, value + units);
    if (returned != units)
      change.set(row_.depth, row_.depth.load(std::memory_order_relaxed) + units - returned);
    return {};
  });
  if (!status) return status;
  const std::uint64_t debt = Fairness::debt(row_);
  row_.event.notify_after_unlock(static_cast<int>(units));
  if (debt != 0) fairness_.owe(debt);
  return {};
}

}  // namespace forklift::inline abi_0_1::locks
