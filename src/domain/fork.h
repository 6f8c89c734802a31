// What fork does to a domain: the child gets a slot of its own before it exists, and its parent's leases
// twice.
//
// Prepare (in the parent): a slot is claimed for the child on a fresh open file description, and the hooks
// enter the child as a second holder of what this process holds. Only process-private tables are frozen
// meanwhile, no shared lock is held across the fork itself. Parent: its copy of the description is closed. A
// fork that failed, or a child that is gone already, shows as an unlocked slot and is reaped at once; the
// at-fork handler can see neither the failure nor the pid. Child: it adopts the slot. Where none was free it
// is detached: alive, but unable to act in the domain until Domain::try_attach.
//
// Installed through pthread_atfork, so bare os.fork() and C++'s fork(2) are covered; vfork and posix_spawn,
// which exec at once, are not affected; a raw clone(2) leaves an unattached child.
#pragma once

#include <functional>

#include "domain/domain.h"

namespace forklift::domain {

struct ForkHooks {
  std::function<void(const SlotRef* child)> prepare;  // nullptr: no slot could be had
  std::function<void()> parent;
  std::function<void(bool attached)> child;
};

// Keeps the domain's fork handling alive. The domain must outlive it.
class ForkRegistration {
 public:
  ForkRegistration(Domain& domain, ForkHooks hooks);
  ~ForkRegistration();
  ForkRegistration(const ForkRegistration&) = delete;
  ForkRegistration& operator=(const ForkRegistration&) = delete;

 private:
  Domain* domain_;
};

}  // namespace forklift::domain
