// Barrier: that of Python's standard library, in separate steps, so that a program can run its own action in
// between.
//
//   Result<Arrival> here = barrier->arrive(hooks); // waits until the last round has left
//   if (here->broken) ... // nothing to leave
//   bool passed = here->last ? (action(), barrier->open_up(*here)) : barrier->wait(*here, deadline, hooks);
//   barrier->leave(*here);
//
// Each party inside has a record; when its process dies, the barrier is broken for all at once. Between two
// rounds the record remains and says that the process was in the last round. If such a process ends other
// than by a clean exit, a party is missing: the barrier breaks when another party of that round waits, or
// already does. A process that is new to the barrier takes the place of a missing party. Every step is one
// ledger transaction.
#pragma once

#include <functional>

#include "locks/table.h"

namespace forklift::inline abi_0_1::locks {

struct Arrival {
  bool broken = false;  // the barrier was broken already
  bool last = false;    // the others wait for this party to act
  bool party = false;   // this process was in the last round
  std::uint32_t index = 0;
  std::uint32_t cell = 0;
  std::uint64_t phase = 0;
};

class Barrier : public Object {
 public:
  // kInvalid: `parties` is 0.
  static Result<std::shared_ptr<Barrier>> create(Table& table, std::uint32_t parties);
  static Result<std::shared_ptr<Barrier>> open(Table& table, LockId id);

  Result<Arrival> arrive(WaitHooks* hooks);
  // For the last party: lets all pass. False: the barrier was broken meanwhile.
  Result<bool> open_up(const Arrival& arrival);
  // For the other parties: waits until the barrier is open (true) or broken (false). A deadline that passes
  // breaks it; `expired`, if there is one, is called right before, while the parties that are there still wait.
  // A wait that the hooks end returns their status, and breaks the barrier unless that is kInterrupted.
  Result<bool> wait(const Arrival& arrival, os::Deadline deadline, WaitHooks* hooks,
                    const std::function<void()>& expired = {});
  Status leave(const Arrival& arrival);

  Status abort();
  Status reset();
  std::uint32_t parties() const noexcept;
  std::uint32_t waiting() const noexcept;
  bool broken() const noexcept;
  // Wakes all waiters, which then poll their hooks.
  void wake_all() noexcept;

  ~Barrier();
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  // Part of the reaper's transaction. `units`: the word of the dead party's record.
  static void party_died(sync::Transaction& change, LockRow& row, std::uint64_t units, bool clean);

 private:
  static constexpr std::uint32_t kNoCell = ~std::uint32_t{0};

  using Object::Object;
  BarrierState state() const noexcept;
  // Has a party of the last round died since, and no process taken its place?
  bool missing() const noexcept;
  // Call with the ledger's lock held. Does party_ name a record that says that this process was in a round?
  bool has_record() const noexcept;
  template <class Step>
  Status step(Step&& change);

  // This process's record between rounds. In a forked child it names the parent's record, which has_record()
  // detects.
  std::uint32_t party_ = kNoCell;
};
using BarrierPtr = std::shared_ptr<Barrier>;

}  // namespace forklift::inline abi_0_1::locks
