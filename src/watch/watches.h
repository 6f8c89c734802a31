// Watches: what a notification of an event marks, so that one thread can wait for thousands of events, and a descriptor
// become readable, at a price that does not grow with what is silent.
//
//   Result<std::uint32_t> set = watches.claim_set();
//   Result<std::uint32_t> watch = watches.add(event, *set, 7);   // from here on each notify marks member 7
//   ...
//   watches.remove(*watch);
//   watches.release_set(*set);
//
// set.h is what a thread waits on. The notifier pays for what it finds: it marks each member that watches its event, and
// wakes the set's owner. It takes no lock. A process that was killed between making a condition true and marking leaves
// members unmarked; so its reaper marks every member of every set, and owners look at all members now and then.
//
// Thread and process safety: all functions but the constructor may be called from any thread of any process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arena/arena.h"
#include "arena/row_table.h"
#include "os/fd.h"
#include "watch/tables.h"

namespace forklift::inline abi_0_1::watch {

struct Place;

class Watches {
 public:
  // From here on notifications of the domain's events reach the watches.
  explicit Watches(arena::Arena& arena);
  ~Watches();
  Watches(const Watches&) = delete;
  Watches& operator=(const Watches&) = delete;

  domain::Domain& domain() const noexcept { return arena_.domain(); }

  // A set of this process, without members. kNoSpace, kStalled, kNotAttached.
  Result<std::uint32_t> claim_set();
  // Its watches must be gone. Nothing happens where the lock cannot be had: the row goes with this process.
  void release_set(std::uint32_t set) noexcept;
  SetRow& set(std::uint32_t index) const noexcept { return sets_[index]; }

  // A watch, by its row. The event must live in the domain's control segment, and for as long as the watch. Whoever
  // called this looks at the condition afterwards. kNoSpace, kStalled.
  Result<std::uint32_t> add(sync::EventCount& event, std::uint32_t set, std::uint32_t member);
  // As release_set().
  void remove(std::uint32_t watch) noexcept;

  // Marks a member and wakes the set's owner. `again`: also if it was marked already, since who marked it may not have
  // come to the rest.
  void mark(std::uint32_t set, std::uint32_t member, bool again = false) noexcept;
  // Marks what watches the event. For EventCount's hook.
  void tell(const sync::EventCount& event) noexcept;
  // Makes a set's descriptor readable.
  void deliver_to(std::uint32_t set) noexcept { send_to(sets_[set]); }
  // Sends to this process's sets what others could not send.
  void deliver() noexcept;

  // The socket that it sends from: opened by the first byte that is sent, kept as long as the domain; -1: none yet.
  int sender() const noexcept { return sender_.load(std::memory_order_acquire); }

  // Every violated invariant in words; exact only while nobody else is active.
  std::vector<std::string> audit();
  std::uint64_t live_sets() const noexcept { return sets_.live(); }
  std::uint64_t live_watches() const noexcept { return watches_.live(); }

 private:
  bool tell_once(std::uint64_t event, Word& bucket) noexcept;
  void unlink(sync::Transaction& change, std::uint32_t index);
  void send_to(SetRow& set) noexcept;
  bool reap(domain::SlotRef slot);
  void mark_all() noexcept;
  void look(std::vector<std::string>& wrong) const;
  std::uint64_t offset_of(const sync::EventCount& event) const noexcept;
  sync::EventCount& event_at(std::uint64_t offset) const noexcept;
  Word& bucket_of(std::uint64_t event) const noexcept;

  arena::Arena& arena_;
  arena::RowTable<SetTable, SetRow> sets_;
  arena::RowTable<WatchTable, WatchRow> watches_;
  std::atomic<int> sender_{-1};
  Place* place_;  // the domain's among those of this process
};

}  // namespace forklift::inline abi_0_1::watch
