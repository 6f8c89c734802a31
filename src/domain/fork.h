// What fork does to a domain: the child gets a slot of its own before it exists, and becomes a second holder
// of its parent's leases.
//
// Prepare (in the parent): a slot is claimed for the child on a fresh open file description, and the hooks
// enter the child as a second holder of what this process holds. Only process-private tables are frozen
// meanwhile; no shared lock is held across the fork itself.
// Parent: it closes its copy of the description. If the fork failed, or the child is gone already, the slot
// is then unlocked and is reaped at once; the at-fork handler can see neither the failure nor the pid.
// Child: it adopts the slot. If no slot was free, the child is detached: it lives, but cannot act in the
// domain until Domain::try_attach.
//
// The handlers are installed through pthread_atfork, so a bare os.fork() and a fork(2) from C++ are covered.
// vfork and posix_spawn, which exec at once, are not affected. A raw clone(2) leaves an unattached child.
#pragma once

#include <functional>

#include "domain/domain.h"

namespace forklift::inline abi_0_1::domain {

struct ForkHooks {
  std::function<void(const SlotRef* child)> prepare;  // nullptr: no slot was available
  std::function<void()> parent;
  std::function<void(bool attached)> child;
};

// Handles forks for the domain as long as the object lives. The domain must outlive it.
class ForkRegistration {
 public:
  ForkRegistration(Domain& domain, ForkHooks hooks);
  ~ForkRegistration();
  ForkRegistration(const ForkRegistration&) = delete;
  ForkRegistration& operator=(const ForkRegistration&) = delete;

 private:
  Domain* domain_;
};

}  // namespace forklift::inline abi_0_1::domain
