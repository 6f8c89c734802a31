// WriterLock: a lock in any memory that processes share; one word says who holds it.
//
//   Status status = lock.acquire(domain, took_over);   // took_over: the last holder died: repair first
//   lock.release();
//
// Unlike a RobustMutex it may lie in a block that is recycled, since the kernel keeps no list of it; unlike a user's
// lock it has no row in a table and travels with its memory. The reaper does not know it: a waiter looks itself
// whether the holder's process is gone.
//
// Thread and process safety: all functions. Held for microseconds, never across a fork or a call that may wait.
#pragma once

#include "domain/waiting.h"
#include "locks/tables.h"

namespace forklift::inline abi_0_1::container {

using sync::Word;

// Lives in shared memory; all-zero is a free lock.
class WriterLock {
 public:
  // kStalled: a live process held it for sync::kStallSeconds: it is stopped. kNotAttached.
  Status acquire(domain::Domain& domain, bool& took_over);
  void release() noexcept;

 private:
  bool try_take(std::uint64_t me) noexcept;
  Status stalled(const domain::Domain& domain) const;

  Word owner_;  // locks::Owner; 0: free
  sync::EventCount event_;
  Word spinner_;
};
static_assert(sizeof(WriterLock) == 32);

}  // namespace forklift::inline abi_0_1::container
