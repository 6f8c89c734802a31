// The table of topics as one process sees it, and what is done to a topic under its lock.
//
// Rights to a topic are leases in the arena's ledger (arena/object_table.h).
//
// Thread and process safety: all functions may be called from any thread of any process.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "arena/object_table.h"
#include "topic/tables.h"

namespace forklift::inline abi_0_1::topic {

// Copies into and out of the ring. A reader's may race with a writer that drops the message; the reader finds
// that out afterwards. `ring` points to a multiple of 8 in the ring. Bytes behind the last one, up to the
// next multiple of 8, are undefined.
void write_racing(std::byte* ring, const void* from, std::size_t bytes) noexcept;
void read_racing(void* to, const std::byte* ring, std::size_t bytes) noexcept;

class Topics {
 public:
  explicit Topics(arena::Arena& arena);
  Topics(const Topics&) = delete;
  Topics& operator=(const Topics&) = delete;

  arena::Arena& arena() const noexcept { return arena_; }
  domain::Domain& domain() const noexcept { return arena_.domain(); }

  using Rows = arena::ObjectTable<TopicTable, TopicRow>;
  Rows& rows() noexcept { return rows_; }
  // nullptr: no such row.
  TopicRow* row(std::uint32_t index) const noexcept { return index < rows_.used() ? &rows_[index] : nullptr; }
  TopicRow& unchecked_row(std::uint32_t index) const noexcept { return rows_[index]; }
  // Part of the arena transaction that makes a topic: the row is free until it commits.
  Result<std::uint32_t> claim_row(sync::Transaction& change);

  // The topic's lock, repaired. kStalled.
  sync::LockGuard lock(std::uint32_t index) {
    return sync::LockGuard(rows_[index].mutex, [this, index] { repair(index); });
  }
  // With the lock: is what a dead owner left repaired? False: a lock that the repair needs is stuck.
  bool whole(std::uint32_t index) {
    return rows_[index].broken.load(std::memory_order_relaxed) == 0 || repair(index);
  }

  // The first message that some reader has not seen; tail when there is none.
  std::uint64_t lowest(const TopicRow& topic) const noexcept;
  std::byte* slot(const TopicRow& topic, std::uint64_t sequence) const noexcept;

  // With the lock: drops all messages before `sequence`. False: their leases could not all be released; they
  // will be when the topic's lock is next repaired.
  bool drop(std::uint32_t index, std::uint64_t sequence);
  // With the lock: drops what all readers have seen, but for the messages that are kept.
  bool trim(std::uint32_t index);
  // With the lock: the place is free.
  void free_place(std::uint32_t index, std::uint32_t place) noexcept;

  std::vector<std::string> audit();
  std::uint64_t live_topics() const noexcept { return rows_.live(); }
  std::uint64_t capacity() const noexcept { return rows_.capacity(); }

 private:
  bool repair(std::uint32_t index);
  bool release_message(std::uint32_t index, std::uint64_t sequence);
  bool empty(std::uint32_t index);
  bool reap(domain::SlotRef slot);
  bool reap_topic(std::uint32_t index, std::uint64_t dead);
  void audit_topic(std::uint32_t index, std::vector<std::string>& wrong);

  arena::Arena& arena_;
  Rows rows_;
};

}  // namespace forklift::inline abi_0_1::topic
