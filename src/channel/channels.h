// The table of channels as one process sees it, and what is done to a channel outside of put and get.
//
// Rights to a channel are leases in the arena's ledger, so forked children inherit them, spawned ones are
// offered them, and the row is free when the last one has gone.
//
// Thread and process safety: all functions may be called from any thread of any process.
#pragma once

#include <string>
#include <vector>

#include "arena/arena.h"
#include "channel/chunk_pool.h"
#include "channel/tables.h"
#include "domain/domain.h"

namespace forklift::channel {

class Channels {
 public:
  // Registers what the arena and the reaper call; the object must live as long as they do.
  Channels(arena::Arena& arena, ChunkPool& chunks);
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  arena::Arena& arena() const noexcept { return arena_; }
  domain::Domain& domain() const noexcept { return arena_.domain(); }
  ChunkPool& chunks() const noexcept { return chunks_; }

  ChannelRow* row(std::uint32_t index) const noexcept;  // nullptr: no such row
  ChannelRow& unchecked_row(std::uint32_t index) const noexcept { return rows_[index]; }
  // Part of the arena transaction that makes a channel: the row is free until it commits.
  Result<std::uint32_t> claim_row(sync::Transaction& change);
  // Repairs an end whose last owner died inside; its lock is held. False: a lock that this needs is stuck.
  // The end then stays marked as broken, and whoever locks it next must repair it before anything else.
  bool repair_tail(std::uint32_t index);
  bool repair_head(std::uint32_t index);

  // Every violated invariant of channels and chunks, in words; exact only while nobody else is active.
  std::vector<std::string> audit();
  // Channels in use.
  std::uint64_t live() const noexcept;

 private:
  bool empty(std::uint32_t index);
  bool reap(domain::SlotRef slot);
  void audit_channel(std::uint32_t index, std::vector<std::uint8_t>& seen, std::vector<std::string>& wrong);

  arena::Arena& arena_;
  ChunkPool& chunks_;
  ChannelTable* table_;
  ChannelRow* rows_;
  std::uint64_t capacity_;
};

}  // namespace forklift::channel
