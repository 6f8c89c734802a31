// Once: something that one thread of one process does, once, while the others wait for it. If the process that does
// it ends before it is done, however it ends, the next one begins anew.
#pragma once

#include "locks/mutex.h"

namespace forklift::inline abi_0_1::locks {

class Once : public Mutex {
 public:
  static Result<std::shared_ptr<Once>> create(Table& table);
  static Result<std::shared_ptr<Once>> open(Table& table, LockId id);

  bool done() const noexcept { return row_.inside.load(std::memory_order_acquire) == 1; }
  // `mine`: the caller has to do it, and then calls end(). Otherwise it is done. kTimeout, kNotAttached, or the hooks'
  // status; kInvalid: this thread does it already.
  Status begin(os::Deadline deadline, WaitHooks* hooks, bool& mine);
  // Not done: the next one that asks has to do it.
  void end(bool done) noexcept;

 private:
  Once(Table& table, Right right) : Mutex(table, std::move(right), false) {}
};
using OncePtr = std::shared_ptr<Once>;

}  // namespace forklift::inline abi_0_1::locks
