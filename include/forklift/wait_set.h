// WaitSet: waiting for the same many things again and again. A wait costs what is ready, not what is in the set.
//
//   forklift::WaitSet set;
//   for (Camera& camera : cameras) camera.key = set.add(camera.frames);     // queues, subscriptions, events, ...
//   const auto stopped = set.add(stop_event);
//   for (;;) {
//     for (const auto key : set.wait()) ...                                 // the keys of what is ready
//   }
//
// What can be a member, and when it is ready: as in wait_any.h. What stays ready is reported by each wait; an Event that
// was set and cleared again between two waits is reported once. Nothing is taken.
//
// A set can be waited for by an event loop, or be in another set: fileno() is readable while something is ready.
//
// Ownership: the set keeps queues, subscriptions, events and locks alive; a Connection, Future, Process or descriptor must
// outlive its membership. An object that another thread resets or closes meanwhile stays a member (a closed one is ready).
// Thread safety: any thread may add, remove and wake while another one waits; one thread waits at a time.
// Process safety and fork: each process has sets of its own. In a forked child every call but destruction is Error
// (kNotAttached).
// Errors: as wait_any(); kNoSpace (beyond 4,096 members in shared memory: use several sets, in each other), kInvalid (an
// object of another domain).
// Invariants: a key counts from 0, is never used again, and what became ready and stays so is reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "forklift/wait.h"
#include "forklift/wait_any.h"

namespace forklift::inline abi_0_1 {

class WaitSet {
 public:
  // What names a member.
  using Key = std::uint64_t;

  WaitSet();
  WaitSet(WaitSet&&) noexcept;
  WaitSet& operator=(WaitSet&&) noexcept;
  ~WaitSet();

  // A member, which is looked at by the wait that is under way, too. And no longer one; false: it was none.
  Key add(const Waitable& object);
  bool remove(Key key);
  std::size_t size() const;
  bool empty() const { return size() == 0; }

  // The keys of what is ready, in rising order; waits until something is, or wake() is called: then none. Valid until the
  // next wait.
  std::span<const Key> wait() { return wait_within(detail::kForever); }
  // Empty: nothing was before the wait was over.
  [[nodiscard]] std::span<const Key> try_wait(const Wait& wait = Wait::now()) { return wait_within(wait); }
  // Ends the wait that is under way in another thread, or else the next one.
  void wake();

  // A descriptor for poll(), epoll, an event loop, or another set: readable while something is ready, until a try_wait()
  // has found that nothing is. Made by the first call; it belongs to the set, so do not read from it.
  int fileno();

 private:
  class Members;
  std::span<const Key> wait_within(detail::Limit limit);
  std::unique_ptr<Members> members_;
};

}  // namespace forklift::inline abi_0_1
