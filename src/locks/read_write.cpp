#include "locks/read_write.h"

#include <climits>

namespace forklift::inline abi_0_1::locks {

Result<ReadWriteLockPtr> ReadWriteLock::create(Table& table) {
  Result<Right> right = table.make(Kind::kReadWrite, 1, 0, 0);
  if (!right) return right.status();
  return ReadWriteLockPtr(new ReadWriteLock(table, *std::move(right)));
}

Result<ReadWriteLockPtr> ReadWriteLock::open(Table& table, LockId id) {
  Result<Right> right = table.take_up(Kind::kReadWrite, id);
  if (!right) return right.status();
  return ReadWriteLockPtr(new ReadWriteLock(table, *std::move(right)));
}

Status ReadWriteLock::acquire(os::Deadline deadline, WaitHooks* hooks, Took& how) {
  if (Status status = Mutex::acquire(deadline, hooks, how); !status) return status;
  Status status = wait_for_readers(deadline, hooks);
  if (status) return status;
  // What was abandoned stays so: nothing was repaired.
  row_.state.store(how == Took::kAbandoned ? Owner::kAbandoned : 0, std::memory_order_seq_cst);
  row_.event.notify(INT_MAX);
  how = Took::kNo;
  return status;
}

Released ReadWriteLock::release() noexcept {
  if (!attached()) return Released::kNotAttached;
  if (!mine()) return Released::kNotOwner;
  const Released released = Mutex::release();
  // All readers that wait may read now.
  row_.event.notify(INT_MAX);
  return released;
}

Status ReadWriteLock::wait_for_readers(os::Deadline deadline, WaitHooks* hooks) {
  const domain::WaitPoint place = domain::lock_place(row_.drained, row_.spinner, spin_policy_);
  const auto drained = [this] { return readers() == 0; };
  sync::full_fence();  // after this thread became the owner
  while (!drained()) {
    if (deadline.passed()) {
      domain().check_deaths();
      return drained() ? Status() : Status(Code::kTimeout, "the lock is held by readers");
    }
    if (domain::spin_at(place, drained, domain())) continue;
    table_.look_after_all(id_);
    Status status = domain::sleep_at(place, drained, domain(), deadline, hooks);
    if (!status && status.code() != Code::kTimeout) return status;
  }
  return {};
}

Cell* ReadWriteLock::known_cell() const noexcept {
  const std::uint64_t known = known_.load(std::memory_order_acquire);
  if (known == 0 || (known & ~Owner::kThreadMask) != table_.process()) return nullptr;
  return &table_.cell(static_cast<std::uint32_t>(known & Owner::kThreadMask) - 1);
}

Result<Cell*> ReadWriteLock::cell_here() {
  if (Cell* cell = known_cell()) return cell;
  const std::uint64_t me = table_.process();
  std::uint32_t index = 0;
  const Status found = table_.arena().ledger().change_objects([&](sync::Transaction& change) -> Status {
    const std::uint32_t used = table_.cells_used();
    for (index = 0; index < used; ++index) {
      const Cell& cell = table_.cell(index);
      if (cell.object.load(std::memory_order_relaxed) == id_.word() &&
          Owner::process_of(cell.owner.load(std::memory_order_relaxed)) == me)
        return {};
    }
    Result<std::uint32_t> made = table_.take_cell(change, table_.thread(), id_);
    if (!made) return made.status();
    index = *made;
    return {};
  });
  if (!found) return found;
  known_.store(me | (std::uint64_t{index} + 1), std::memory_order_release);
  return &table_.cell(index);
}

bool ReadWriteLock::enter(Cell& cell) noexcept {
  cell.units.fetch_add(1, std::memory_order_seq_cst);
  sync::full_fence();  // pairs with the one in wait_for_readers()
  if (free_to_read()) return true;
  leave(cell);
  return false;
}

void ReadWriteLock::leave(Cell& cell) noexcept {
  cell.units.fetch_sub(1, std::memory_order_seq_cst);
  row_.drained.notify_after_unlock(1);
}

Status ReadWriteLock::acquire_shared(os::Deadline deadline, WaitHooks* hooks) {
  if (!attached()) return domain().not_attached();
  Result<Cell*> cell = cell_here();
  if (!cell) return cell.status();
  const domain::WaitPoint place = domain::lock_place(row_.event, row_.spinner, spin_policy_);
  const auto ready = [this] { return free_to_read(); };
  LongWait wait(row_);
  for (;;) {
    if (enter(**cell)) {
      wait.taken();
      trace(trace::EventKind::kLocked, 2);
      return {};
    }
    if (deadline.passed()) {
      domain().check_deaths();
      return enter(**cell) ? Status() : Status(Code::kTimeout, "a writer holds the lock");
    }
    wait.overtaken();
    if (domain::spin_at(place, ready, domain())) continue;
    wait.before_sleep();
    table_.look_after(owner());
    Status status = domain::sleep_at(place, ready, domain(), deadline, hooks);
    if (!status && status.code() != Code::kTimeout) return status;
  }
}

Released ReadWriteLock::release_shared() noexcept {
  if (!attached()) return Released::kNotAttached;
  Cell* cell = known_cell();
  if (cell == nullptr) {
    // Another handle of this process may have entered.
    Result<Cell*> found = cell_here();
    if (!found) return Released::kNotHeld;
    cell = *found;
  }
  if (cell->units.load(std::memory_order_relaxed) == 0) return Released::kNotHeld;
  leave(*cell);
  trace(trace::EventKind::kUnlocked, 2);
  return Released::kYes;
}

std::uint64_t ReadWriteLock::readers() const noexcept {
  std::uint64_t readers = 0;
  const std::uint32_t used = table_.cells_used();
  for (std::uint32_t index = 0; index < used; ++index) {
    const Cell& cell = table_.cell(index);
    if (cell.object.load(std::memory_order_acquire) == id_.word())
      readers += cell.units.load(std::memory_order_acquire);
  }
  return readers;
}

void ReadWriteLock::wake_all() noexcept {
  row_.event.notify(INT_MAX);
  row_.drained.notify(INT_MAX);
}

}  // namespace forklift::inline abi_0_1::locks
