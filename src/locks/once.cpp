#include "locks/once.h"

namespace forklift::inline abi_0_1::locks {

Result<OncePtr> Once::create(Table& table) {
  Result<Right> right = table.make(Kind::kOnce, 1, 0, 0);
  if (!right) return right.status();
  return OncePtr(new Once(table, *std::move(right)));
}

Result<OncePtr> Once::open(Table& table, LockId id) {
  Result<Right> right = table.take_up(Kind::kOnce, id);
  if (!right) return right.status();
  return OncePtr(new Once(table, *std::move(right)));
}

Status Once::begin(os::Deadline deadline, WaitHooks* hooks, bool& mine) {
  mine = false;
  if (done()) return {};
  if (Mutex::mine())
    return {Code::kInvalid, "this thread does already what is done once: it would wait for itself"};
  Took how = Took::kNo;
  if (Status status = acquire(deadline, hooks, how); !status) return done() ? Status() : status;
  if (done()) {
    (void)release();
    return {};
  }
  mine = true;
  return {};
}

void Once::end(bool done) noexcept {
  // Done before the lock is free: whoever gets the lock then sees it. A death in between leaves it done.
  if (done) row_.inside.store(1, std::memory_order_release);
  (void)release();
}

}  // namespace forklift::inline abi_0_1::locks
