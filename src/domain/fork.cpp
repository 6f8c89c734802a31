#include "domain/fork.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "os/proc.h"
#include "os/thread.h"

namespace forklift::inline abi_0_1::domain {

namespace {

struct Member {
  Domain* domain;
  ForkHooks hooks;
  std::optional<ChildSlot> child;
  bool was_attached = false;
};

// Process-private. The mutex is locked in prepare and unlocked on both sides, so the forks of one process are
// serialised and no registration changes in between.
struct Registry {
  std::mutex mutex;
  std::vector<Member> members;
  pid_t parent = 0;  // the process that forks
};

Registry& registry() {
  static Registry* const instance = new Registry;  // never destroyed: at-fork handlers outlive main
  return *instance;
}

void before_fork() {
  Registry& all = registry();
  all.mutex.lock();
  all.parent = ::getpid();
  for (Member& member : all.members) {
    member.was_attached = member.domain->attached();
    if (member.was_attached) {
      Result<ChildSlot> child = member.domain->reserve_child();
      if (child) member.child = *std::move(child);
      member.domain->tracer().moment(trace::Category::kLife, trace::EventKind::kForked, 0, 0);
    }
    member.hooks.prepare(member.child ? &member.child->slot : nullptr);
  }
}

void after_fork_in_parent() {
  Registry& all = registry();
  for (Member& member : all.members) {
    member.hooks.parent();
    if (!member.child) continue;
    const SlotRef slot = member.child->slot;
    member.child.reset();
    if (member.domain->is_dead(slot)) member.domain->try_reap();
  }
  all.mutex.unlock();
}

// In another namespace than its parent's a child sees 0 as its parent, or 1 once that is gone. The exact answer takes
// five page faults of a forked child.
bool in_namespace(std::uint64_t pid_namespace, pid_t parent) noexcept {
  return (parent > 1 && ::getppid() == parent) || pid_namespace == os::pid_namespace();
}

void after_fork_in_child() {
  Registry& all = registry();
  for (Member& member : all.members) {
    // If the child is in another pid namespace, no member could tell whether it lives.
    const bool attached =
        member.child.has_value() && in_namespace(member.domain->header().pid_namespace, all.parent);
    if (attached) {
      member.domain->adopt(*std::move(member.child));
      member.child.reset();
    } else {
      member.child.reset();
      member.domain->detach();
    }
    member.hooks.child(attached);
  }
  all.mutex.unlock();
}

}  // namespace

ForkRegistration::ForkRegistration(Domain& domain, ForkHooks hooks) : domain_(&domain) {
  static std::once_flag installed;
  std::call_once(installed, [] {
    // Its handler is installed first, so that in a child it has run: hooks ask for the thread's number.
    (void)os::thread_id();
    ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  });
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.members.push_back({domain_, std::move(hooks), std::nullopt});
}

ForkRegistration::~ForkRegistration() {
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::erase_if(all.members, [this](const Member& member) { return member.domain == domain_; });
}

}  // namespace forklift::inline abi_0_1::domain
