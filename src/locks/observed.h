// Looking at a lock without taking it: what a thread that waits for several things needs to know of one.
//
//   Result<Observed> observed = Observed::of(*lock);     // kInvalid: a condition or a barrier
//   if (!observed->ready()) sleep_on(observed->event());
//
// Ready: an event that is set, or was set since it is observed, even if it was cleared again; a lock or a semaphore
// that an acquire would get at once. Another thread may be faster: nothing is taken.
//
// Ownership: refers to the object, which must outlive it. Thread safety: any number of threads may look. A death
// leaves nothing to repair, since nothing is stored.
#pragma once

#include "locks/table.h"

namespace forklift::inline abi_0_1::locks {

class Observed {
 public:
  // kInvalid, kNotAttached.
  static Result<Observed> of(Object& object);

  bool ready() const noexcept;
  // As ready(), after a look at whether the processes that keep it from being ready have died.
  bool ready_after_deaths() const;
  // Is notified when it becomes ready.
  sync::EventCount& event() const noexcept { return row().event; }
  domain::Domain& domain() const noexcept { return object_->table().domain(); }

 private:
  Observed(Object& object, Kind kind) noexcept : object_(&object), kind_(kind), before_(state()) {}
  LockRow& row() const noexcept { return object_->table().row(object_->id().index); }
  std::uint64_t state() const noexcept { return row().state.load(std::memory_order_acquire); }

  Object* object_;
  Kind kind_;
  std::uint64_t before_;  // the row's state when the look began
};

}  // namespace forklift::inline abi_0_1::locks
