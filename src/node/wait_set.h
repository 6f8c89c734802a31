// A wait set: many sources that one thread waits for again and again, at a price that does not grow with those that are
// silent.
//
//   WaitSet set(node);
//   Result<WaitSet::Key> key = set.add({.channel = &channel});
//   std::vector<WaitSet::Key> ready;
//   Status status = set.wait(ready, deadline, stop, hooks);
//
// Sources in shared memory are members of a watch::Set of their domain, and looked at when they were marked; pipe ends
// and descriptors are in an epoll set. A wait for the former alone spins, then sleeps on a futex; where there are both,
// or sources of several domains, it sleeps in epoll, in which the sets' own descriptors are, too.
//
// What is ready is reported by each wait until it is not ready any more. An event that was set and cleared between two
// waits is reported once.
//
// Ownership: sources must outlive their membership. Thread safety: any thread may add, remove and wake while one waits;
// one waits at a time. Fork: a set belongs to the process that made it; every call is kNotAttached in a child.
#pragma once

#include <cstdint>
#include <mutex>
#include <stop_token>
#include <unordered_map>
#include <vector>

#include "domain/waiting.h"
#include "node/source.h"
#include "node/watched.h"
#include "os/fd.h"
#include "watch/set.h"

namespace forklift::inline abi_0_1::node {

class Node;

class WaitSet {
 public:
  // Counts from 0 and is never used again.
  using Key = std::uint64_t;

  explicit WaitSet(Node& node);
  ~WaitSet();
  WaitSet(const WaitSet&) = delete;
  WaitSet& operator=(const WaitSet&) = delete;

  // kInvalid: a condition, a barrier, a writing end, an object of a domain that this process is not in. kNoSpace, kStalled, kSystem,
  // kNotAttached.
  Result<Key> add(const Source& source);
  // False: there is no such member (any more).
  bool remove(Key key);
  std::size_t size() const;

  // Ok: `ready` holds at least one key, in rising order. kTimeout; kInterrupted when a stop was requested or wake() was
  // called; kSystem; what the hooks said.
  Status wait(std::vector<Key>& ready, os::Deadline deadline, const std::stop_token& stop,
              domain::WaitHooks* hooks = nullptr);
  // Ends the wait that is under way in another thread, or else the next one.
  void wake() noexcept;

  // For event loops: readable while something is ready, as far as the last wait() found. kSystem, kNoSpace, kNotAttached.
  Result<int> descriptor();

 private:
  // The members of one domain. Once made it stays where it is until the wait set ends.
  struct Part {
    Node& node;
    std::unique_ptr<watch::Set> set;
    std::vector<Key> key_of;          // by member number
    std::vector<std::uint32_t> held;  // members that the last wait found ready: they are looked at again
  };
  // A member in shared memory, with its number in its part's set.
  struct Shared {
    Watched watched;
    Part* part;
    std::uint32_t member;
  };
  // A member that epoll knows. `always`: one that epoll cannot know, such as a file, which is always readable.
  struct Polled {
    int fd;
    channel::PipeEnd* pipe;
    os::Fd duplicate;  // where the same descriptor is in the set twice
    bool always = false;
  };

  bool mine() const noexcept;
  Result<Part*> part_of(Node& node);
  Status need_set();
  Status need_epoll();
  Status poll_part(Part& part);
  Result<Key> add_shared(const Source& source);
  Result<Key> add_polled(const Source& source);
  // With the lock.
  Status collect(std::vector<Key>& ready, bool all);
  void collect_shared(Part& part, std::vector<Key>& ready, bool all);
  Status collect_polled(std::vector<Key>& ready);

  void stir() noexcept;
  bool any_marked() const;
  // False: a member is marked already.
  bool arm();
  Status sleep_in_epoll(os::Deadline deadline, domain::WaitHooks* hooks);

  Node& node_;
  mutable std::mutex mutex_;                  // of what follows; not held while a wait sleeps
  std::vector<std::unique_ptr<Part>> parts_;  // that of node_ first
  watch::Set* set_ = nullptr;                 // of node_
  domain::SlotRef owner_;
  Key next_key_ = 0;
  std::unordered_map<Key, Shared> shared_;
  std::vector<Key> locks_;  // members that a death may make ready
  std::unordered_map<Key, Polled> polled_;
  std::vector<Key> always_;
  os::Fd epoll_;
  os::Fd alarm_;  // an eventfd in epoll_
  bool as_descriptor_ = false;
  std::atomic<bool> woken_{false};
};

}  // namespace forklift::inline abi_0_1::node
