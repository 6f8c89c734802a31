// The table of channels as one process sees it, and what is done to a channel outside of put and get.
//
// Rights to a channel are leases in the arena's ledger (arena/object_table.h).
//
// Thread and process safety: all functions may be called from any thread of any process.
#pragma once

#include <string>
#include <vector>

#include "arena/object_table.h"
#include "channel/chunk_pool.h"
#include "channel/receipts.h"
#include "channel/tables.h"
#include "domain/domain.h"

namespace forklift::inline abi_0_1::channel {

class Channels {
 public:
  // Registers what the arena and the reaper call; the object must live as long as they do.
  Channels(arena::Arena& arena, ChunkPool& chunks);
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  arena::Arena& arena() const noexcept { return arena_; }
  domain::Domain& domain() const noexcept { return arena_.domain(); }
  ChunkPool& chunks() const noexcept { return chunks_; }

  using Rows = arena::ObjectTable<ChannelTable, ChannelRow>;
  Rows& rows() noexcept { return rows_; }
  // nullptr: no such row.
  ChannelRow* row(std::uint32_t index) const noexcept {
    return index < rows_.used() ? &rows_[index] : nullptr;
  }
  ChannelRow& unchecked_row(std::uint32_t index) const noexcept { return rows_[index]; }
  // Of a channel that delivers at least once; empty for any other, and where the row does not describe what is there.
  Receipts receipts(std::uint32_t index) const noexcept;
  // Part of the arena transaction that makes a channel: the row is free until it commits.
  Result<std::uint32_t> claim_row(sync::Transaction& change);
  // Repairs an end whose last owner died inside; its lock is held. False: a lock that this needs is stuck.
  // The end then stays marked as broken, and whoever locks it next must repair it before anything else.
  bool repair_tail(std::uint32_t index);
  bool repair_head(std::uint32_t index);

  // Every violated invariant of channels and chunks, in words; exact only while nobody else is active.
  std::vector<std::string> audit();
  // Channels in use.
  std::uint64_t live() const noexcept { return rows_.live(); }

 private:
  bool empty(std::uint32_t index);
  bool reap(domain::SlotRef slot);
  void audit_channel(std::uint32_t index, std::vector<std::uint8_t>& seen, std::vector<std::string>& wrong);
  void audit_receipts(std::uint32_t index, Position head, Position tail, std::vector<std::string>& wrong);

  arena::Arena& arena_;
  ChunkPool& chunks_;
  Rows rows_;
};

}  // namespace forklift::inline abi_0_1::channel
