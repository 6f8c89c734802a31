#include "locks/observed.h"

namespace forklift::inline abi_0_1::locks {

Result<Observed> Observed::of(Object& object) {
  if (!object.table().domain().attached()) return object.table().domain().not_attached();
  const Kind kind = object.table().kind_of(object.id());
  switch (kind) {
    case Kind::kLock:
    case Kind::kRLock:
    case Kind::kSemaphore:
    case Kind::kRecovering:
    case Kind::kEvent:
    case Kind::kLatch: return Observed(object, kind);
    case Kind::kReadWrite:
    case Kind::kOnce:
    case Kind::kCondition:
    case Kind::kBarrier:
      return {
          Code::kInvalid,
          "a Condition, Barrier, RWLock or Once cannot be waited for together with other things: its wait "
          "takes part in it; wait for an Event that its notifier sets"};
    case Kind::kNone: break;
  }
  return {Code::kInvalid, "lock " + std::to_string(object.id().index) + " of generation " +
                              std::to_string(object.id().generation) + " does not exist any more"};
}

bool Observed::ready() const noexcept {
  const std::uint64_t now = state();
  switch (kind_) {
    case Kind::kEvent: return (now & 1) != 0 || (now >> 1) != (before_ >> 1);
    case Kind::kLatch: return now == 0;
    case Kind::kSemaphore:
    case Kind::kRecovering: return now != 0;
    case Kind::kRLock:
      if ((now & ~Owner::kAbandoned) == object_->table().thread()) return true;
      return Owner::is_free(now);
    default: return Owner::is_free(now);
  }
}

bool Observed::ready_after_deaths() const {
  if (ready()) return true;
  switch (kind_) {
    case Kind::kLock:
    case Kind::kRLock: object_->table().look_after(state()); break;
    case Kind::kRecovering: object_->table().look_after_all(object_->id()); break;
    default: return false;
  }
  return ready();
}

}  // namespace forklift::inline abi_0_1::locks
