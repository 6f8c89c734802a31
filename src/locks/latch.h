// Latch: a number that is counted down to zero once, and waited for. A death leaves the number as it is: a count has
// no owner, so nobody can know that the dead process would have counted down.
#pragma once

#include "locks/table.h"

namespace forklift::inline abi_0_1::locks {

class Latch : public Object {
 public:
  static Result<std::shared_ptr<Latch>> create(Table& table, std::uint64_t count);
  static Result<std::shared_ptr<Latch>> open(Table& table, LockId id);

  // kInvalid: there are not that many left; nothing was counted then. kNotAttached.
  Status count_down(std::uint64_t by);
  std::uint64_t left() const noexcept { return row_.state.load(std::memory_order_acquire); }
  // Until none is left. kTimeout, kNotAttached, or the hooks' status.
  Status wait(os::Deadline deadline, WaitHooks* hooks);

 private:
  using Object::Object;
};
using LatchPtr = std::shared_ptr<Latch>;

}  // namespace forklift::inline abi_0_1::locks
