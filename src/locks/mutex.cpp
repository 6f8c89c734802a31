#include "locks/mutex.h"

#include <string>

#include "base/event_log.h"

namespace forklift::inline abi_0_1::locks {

Result<MutexPtr> Mutex::create(Table& table, bool recursive) {
  Result<Right> right = table.make(recursive ? Kind::kRLock : Kind::kLock, 1, 0, 0);
  if (!right) return right.status();
  return MutexPtr(new Mutex(table, *std::move(right), recursive));
}

Result<MutexPtr> Mutex::open(Table& table, LockId id) {
  const Kind kind = table.kind_of(id) == Kind::kRLock ? Kind::kRLock : Kind::kLock;
  Result<Right> right = table.take_up(kind, id);
  if (!right) return right.status();
  return MutexPtr(new Mutex(table, *std::move(right), kind == Kind::kRLock));
}

void Mutex::log_taken_over() const noexcept {
  if (!event_log_on()) return;
  try {
    EventLine("taken-over")("domain", std::to_string(domain().header().domain_id))(
        "lock", static_cast<std::int64_t>(id_.index))("label", row_.label.text())
        .write();
  } catch (...) {
    // No memory: the line is lost.
  }
}

Took Mutex::try_again(std::uint64_t seen, std::uint64_t me) noexcept {
  if (recursive_ && (seen & ~Owner::kAbandoned) == me) {
    row_.depth.store(row_.depth.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return Took::kYes;
  }
  while (Owner::is_free(seen)) {
    const bool left = (seen & Owner::kAbandoned) != 0;
    if (row_.state.compare_exchange_weak(seen, left ? me | Owner::kAbandoned : me)) {
      row_.depth.store(1, std::memory_order_relaxed);
      trace(trace::EventKind::kLocked, left ? 1 : 0);
      if (left) log_taken_over();
      return left ? Took::kAbandoned : Took::kYes;
    }
  }
  return Took::kNo;
}

Status Mutex::acquire(os::Deadline deadline, WaitHooks* hooks, Took& how) {
  const domain::WaitPoint place = domain::lock_place(row_.event, row_.spinner, spin_policy_);
  const auto ready = [this] { return Owner::is_free(row_.state.load(std::memory_order_acquire)); };
  if (fairness_.owes() && !deadline.passed()) fairness_.yield_turn(row_, [&] { return !ready(); });
  LongWait wait(row_);
  for (;;) {
    how = try_acquire();
    if (how != Took::kNo) {
      wait.taken();
      return {};
    }
    if (!attached()) return domain().not_attached();
    if (deadline.passed()) {
      domain().check_deaths();
      how = try_acquire();
      return how != Took::kNo ? Status() : Status(Code::kTimeout, "the lock is held");
    }
    wait.overtaken();
    if (domain::spin_at(place, ready, domain())) continue;
    wait.before_sleep();
    table_.look_after(row_.state.load(std::memory_order_acquire));
    Status status = domain::sleep_at(place, ready, domain(), deadline, hooks);
    if (!status && status.code() != Code::kTimeout) return status;
  }
}

// A thread that did not acquire the lock releases it. That is legal for a Lock; if the holder is another
// process, the lock counts as a signal from then on. The mark is stored first: if this process is killed in
// between, the lock is merely never taken over.
Released Mutex::release_for_another() noexcept {
  if (!attached()) return Released::kNotAttached;
  std::uint64_t seen = owner();
  if (recursive_) return Released::kNotOwner;
  const std::uint64_t here = table_.process();
  while (seen != 0) {
    if (Owner::process_of(seen) != here || Owner::is_free(seen)) row_.strayed.store(1);
    if (row_.state.compare_exchange_weak(seen, 0)) {
      row_.event.notify_after_unlock(1);
      trace(trace::EventKind::kUnlocked, 0);
      return Released::kYes;
    }
  }
  return Released::kNotHeld;
}

std::uint64_t Mutex::depth() const noexcept {
  const std::uint64_t seen = owner();
  if (Owner::is_free(seen) || Owner::process_of(seen) != table_.process()) return 0;
  return recursive_ ? row_.depth.load(std::memory_order_relaxed) : 1;
}

}  // namespace forklift::inline abi_0_1::locks
