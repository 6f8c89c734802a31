// Who waits for what in a domain, at one moment, and who could end it.
//
//   Snapshot snapshot(view);
//   for (const Wait& wait : snapshot.waits()) ... snapshot.holders(wait.targets.front())
//
// Thread safety: one thread's.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arena/tables.h"
#include "domain/wait_records.h"
#include "inspect/machine.h"
#include "inspect/objects.h"
#include "inspect/view.h"

namespace forklift::inline abi_0_1::inspect {

// One thread of one process: index of the member, thread id.
struct Actor {
  std::size_t member = 0;
  pid_t thread = 0;
  bool operator==(const Actor&) const = default;
  bool operator<(const Actor& other) const noexcept {
    return member != other.member ? member < other.member : thread < other.thread;
  }
};

struct Wait {
  Actor who;
  std::vector<Target> targets;  // any of them
  bool all_known = true;        // false: there are more
  std::int64_t since_ns = 0;
  std::int64_t until_ns = INT64_MAX;
  std::string call_site;

  bool is_timed() const noexcept { return until_ns != INT64_MAX; }
};

// A process of the domain, or one whose end is waited for.
struct Member {
  ProcessState state;
  std::optional<domain::SlotRef> slot;
  bool service = false;  // serves the others: it puts and takes nothing of its own accord
  std::string label;     // what it calls itself; empty: it has not said

  // That, or else its main thread's.
  const std::string& name() const noexcept { return label.empty() ? state.name : label; }
};

class Snapshot {
 public:
  // With all threads, the holders of everything that is waited for are looked up, too.
  explicit Snapshot(View view, Detail detail = Detail::kThreads);
  // Looks up who holds the objects for which `wanted` is true. The ledger has a row for each object and process.
  void find_rights(const std::function<bool(const arena::Object&)>& wanted);

  const View& view() const noexcept { return view_; }
  std::int64_t now_ns() const noexcept { return now_ns_; }
  const std::vector<Member>& members() const noexcept { return members_; }
  const std::vector<Wait>& waits() const noexcept { return waits_; }
  // How long it has lasted.
  double seconds(const Wait& wait) const noexcept {
    return static_cast<double>(now_ns_ - wait.since_ns) / 1e9;
  }
  // nullptr: it does not wait, as far as it is recorded.
  const Wait* wait_of(const Actor& actor) const noexcept;
  const ThreadState* thread(const Actor& actor) const noexcept;
  std::optional<std::size_t> member_of(pid_t pid) const noexcept;

  std::optional<std::size_t> member_in(domain::SlotRef slot) const noexcept;
  // The ledger's rows that were ever used.
  std::span<const arena::LeaseRow> leases() const noexcept;

  // The members that have a right to an object, once they were looked up.
  std::vector<std::size_t> holders(const arena::Object& object) const;
  // May processes that have no right to it yet get one: does it have a name, or lie in a message?
  bool may_be_opened(const arena::Object& object) const;
  // Who holds a lock, or is at its initialisation; nullopt: nobody.
  std::optional<Actor> owner(const arena::Object& lock) const;
  // The members with a record of a lock: those that read under it, are inside a barrier, wait for a condition.
  std::vector<std::size_t> recorded(const arena::Object& lock) const;

  // nullptr: there is no such row.
  const locks::LockRow* lock(const arena::Object& object) const noexcept { return lock_at(view_, object); }
  const channel::ChannelRow* channel(const arena::Object& object) const noexcept {
    return channel_at(view_, object);
  }

 private:
  void find_members(Detail detail);
  void find_waits();
  std::size_t add_member(pid_t pid, Detail detail = Detail::kThreads);

  View view_;
  std::int64_t now_ns_;
  std::vector<Member> members_;
  std::map<std::uint32_t, std::size_t> by_slot_;  // index of the slot, of the member
  std::vector<Wait> waits_;
  std::map<std::uint64_t, std::vector<std::size_t>> rights_;  // by object, packed
  std::map<std::uint64_t, bool> openable_;
};

}  // namespace forklift::inline abi_0_1::inspect
