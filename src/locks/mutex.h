// Lock and RLock: one word says who holds the lock, so acquiring it and recording the holder are one step.
//
//   switch (lock->try_acquire()) { case Took::kNo: status = lock->acquire(deadline, hooks, &how); ... }
//   lock->release();
//
// When a holder was killed, the next process that asks takes the lock over (Took::kAbandoned), unless the
// lock was ever released by a process that did not hold it: such a lock is used as a signal and has no
// holder. A holder that exits in good order keeps the lock; any process may then release it.
#pragma once

#include "locks/fairness.h"
#include "locks/table.h"

namespace forklift::inline abi_0_1::locks {

enum class Took : std::uint8_t {
  kNo,
  kYes,
  kAbandoned  // taken over from a holder that died
};

enum class Released : std::uint8_t {
  kYes,
  kNotHeld,
  kNotOwner,  // RLock only
  kNotAttached
};

class Mutex : public Object {
 public:
  static Result<std::shared_ptr<Mutex>> create(Table& table, bool recursive);
  static Result<std::shared_ptr<Mutex>> open(Table& table, LockId id);

  Took try_acquire() noexcept {
    if (!attached()) [[unlikely]]
      return Took::kNo;
    const std::uint64_t me = table_.thread();
    std::uint64_t seen = 0;
    if (row_.state.compare_exchange_strong(seen, me, std::memory_order_acquire, std::memory_order_relaxed))
        [[likely]] {
      if (recursive_) row_.depth.store(1, std::memory_order_relaxed);
      trace(trace::EventKind::kLocked, 0);
      return Took::kYes;
    }
    return try_again(seen, me);
  }
  // For callers that would wait: kNo also while this process has to let others take the lock first. Call
  // acquire() then.
  Took try_before_waiting() noexcept {
    if (fairness_.owes()) [[unlikely]]
      return Took::kNo;
    return try_acquire();
  }
  // kTimeout, kNotAttached, or the hooks' status.
  Status acquire(os::Deadline deadline, WaitHooks* hooks, Took& how);

  Released release() noexcept {
    const std::uint64_t me = table_.thread();
    std::uint64_t seen = row_.state.load(std::memory_order_relaxed);
    if ((seen & ~Owner::kAbandoned) == me && attached()) [[likely]] {
      if (recursive_) {
        const std::uint64_t depth = row_.depth.load(std::memory_order_relaxed);
        if (depth > 1) {
          row_.depth.store(depth - 1, std::memory_order_relaxed);
          return Released::kYes;
        }
      }
      if (row_.state.compare_exchange_strong(seen, 0)) [[likely]] {
        const std::uint64_t debt = Fairness::debt(row_);
        row_.event.notify_after_unlock(1);
        if (debt != 0) [[unlikely]]
          fairness_.owe(debt);
        trace(trace::EventKind::kUnlocked, 0);
        return Released::kYes;
      }
    }
    return release_for_another();
  }

  bool recursive() const noexcept { return recursive_; }
  bool locked() const noexcept { return !Owner::is_free(owner()); }
  // Does this thread hold it?
  bool mine() const noexcept { return (owner() & ~Owner::kAbandoned) == table_.thread(); }
  // How often this process has acquired it; 0 if it does not hold it.
  std::uint64_t depth() const noexcept;
  // Did its present holder take it over from one that died?
  bool abandoned() const noexcept { return locked() && (owner() & Owner::kAbandoned) != 0; }
  // Is it taken over when its holder dies? Not after a process that did not hold it has released it.
  bool recovers() const noexcept { return row_.strayed.load(std::memory_order_acquire) == 0; }

 protected:
  Mutex(Table& table, Right right, bool recursive) : Object(table, std::move(right)), recursive_(recursive) {}
  std::uint64_t owner() const noexcept { return row_.state.load(std::memory_order_acquire); }

 private:
  Took try_again(std::uint64_t seen, std::uint64_t me) noexcept;
  void log_taken_over() const noexcept;
  Released release_for_another() noexcept;

  const bool recursive_;
  Fairness fairness_;
};
using MutexPtr = std::shared_ptr<Mutex>;

}  // namespace forklift::inline abi_0_1::locks
