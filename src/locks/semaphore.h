// Semaphore and BoundedSemaphore: a count without owners, as in Python's standard library.
//
// With `recover`, the units that a killed process had taken and not released come back. A record then says
// how many units each process holds, and count and record change in one ledger transaction (some 100 ns and a
// lock that all processes share, instead of one instruction). This is for units that are released by the
// process that took them: a unit that another process releases counts as a new one.
#pragma once

#include "locks/fairness.h"
#include "locks/table.h"

namespace forklift::inline abi_0_1::locks {

inline constexpr std::uint32_t kMostUnits = 0x7fffffffU;  // SEM_VALUE_MAX

struct SemaphoreOptions {
  std::uint32_t value = 1;
  std::uint32_t most = kMostUnits;  // release() beyond it is refused
  bool recover = false;
};

class Semaphore : public Object {
 public:
  // kInvalid: the value or its maximum is too large.
  static Result<std::shared_ptr<Semaphore>> create(Table& table, const SemaphoreOptions& options);
  static Result<std::shared_ptr<Semaphore>> open(Table& table, LockId id);

  // `taken` stays false when there is no unit, which is no error. Errors: kStalled, kNotAttached.
  Status try_acquire(bool& taken) {
    if (recover_ || !attached()) [[unlikely]]
      return try_recorded(taken);
    std::uint64_t value = row_.state.load(std::memory_order_relaxed);
    while (value != 0) {
      if (row_.state.compare_exchange_weak(value, value - 1, std::memory_order_acquire,
                                           std::memory_order_relaxed)) {
        taken = true;
        break;
      }
    }
    return {};
  }
  // For callers that would wait: takes none also while this process has to let others take a unit first. Call
  // acquire() then.
  Status try_before_waiting(bool& taken) {
    if (fairness_.owes()) [[unlikely]]
      return {};
    return try_acquire(taken);
  }
  // Errors: those of try_acquire(), kTimeout, or the hooks' status.
  Status acquire(os::Deadline deadline, WaitHooks* hooks);
  // Releases all units or none. kInvalid: the value would exceed its maximum.
  Status release(std::uint32_t units = 1);

  std::uint32_t value() const noexcept {
    return static_cast<std::uint32_t>(row_.state.load(std::memory_order_acquire));
  }
  std::uint32_t most() const noexcept { return most_; }
  bool recovers() const noexcept { return recover_; }

 private:
  Semaphore(Table& table, Right right, bool recover)
      : Object(table, std::move(right)),
        most_(static_cast<std::uint32_t>(row_.most.load(std::memory_order_relaxed))),
        recover_(recover) {}
  Status try_recorded(bool& taken);
  Status release_recorded(std::uint32_t units);
  std::uint32_t own_cell() const noexcept;

  const std::uint32_t most_;
  const bool recover_;
  Fairness fairness_;
};
using SemaphorePtr = std::shared_ptr<Semaphore>;

}  // namespace forklift::inline abi_0_1::locks
