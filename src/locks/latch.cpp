#include "locks/latch.h"

#include <climits>
#include <string>

namespace forklift::inline abi_0_1::locks {

Result<LatchPtr> Latch::create(Table& table, std::uint64_t count) {
  Result<Right> right = table.make(Kind::kLatch, count, count, 0);
  if (!right) return right.status();
  return LatchPtr(new Latch(table, *std::move(right)));
}

Result<LatchPtr> Latch::open(Table& table, LockId id) {
  Result<Right> right = table.take_up(Kind::kLatch, id);
  if (!right) return right.status();
  return LatchPtr(new Latch(table, *std::move(right)));
}

Status Latch::count_down(std::uint64_t by) {
  if (!attached()) return domain().not_attached();
  std::uint64_t left = row_.state.load(std::memory_order_relaxed);
  do {
    if (by > left)
      return {Code::kInvalid, "a latch that waits for " + std::to_string(left) +
                                  " more cannot be counted down by " + std::to_string(by)};
  } while (!row_.state.compare_exchange_weak(left, left - by));
  if (left == by && by != 0) row_.event.notify_after_unlock(INT_MAX);
  return {};
}

Status Latch::wait(os::Deadline deadline, WaitHooks* hooks) {
  if (!attached()) return domain().not_attached();
  const auto open = [this] { return left() == 0; };
  while (!open()) {
    Status status = domain::wait_for(domain::lock_place(row_.event, row_.spinner, spin_policy_), open,
                                     domain(), deadline, hooks);
    if (!status && !open()) return status;
  }
  return {};
}

}  // namespace forklift::inline abi_0_1::locks
