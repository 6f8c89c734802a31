// What a put writes, worked out before any lock is taken.
#pragma once

#include "channel/channel.h"

namespace forklift::inline abi_0_1::channel {

// Gives each lease a row of its own, so that it can be passed on. kInvalid: one that was passed on already,
// is of another domain, occurs twice, or is a right to no block. kStalled, kNoSpace: of the ledger.
Status check_leases(std::span<const arena::LeasePtr> leases, arena::Arena& arena);
// A block with the message's handles and bytes: {SpillHeader, handles, bytes}. `channel`: the queue that it is for, so that
// fresh pages can be placed at its reader; null for a topic, which has several.
Result<arena::LeasePtr> spill(const Outgoing& message, arena::Arena& arena, const Channel* channel = nullptr);

struct Channel::Plan {
  Plan(const Outgoing& outgoing, int bell_fd) : message(outgoing), bell(bell_fd) {}

  const Outgoing& message;
  int bell;  // the descriptor that is rung; -1: none
  // What the record's header will say. In whole words, which are put together in registers (write_header): a
  // narrow store with a wider load right behind it stalls the processor.
  std::uint64_t units = 0;
  std::uint64_t bytes = 0;
  std::uint64_t handles = 0;
  std::uint64_t spilled = 0;
  std::uint64_t weight = 0;
  std::uint32_t sequence = 0;
  bool rang = false;      // the bell was rung
  arena::LeasePtr spill;  // holds handles and bytes when they do not fit inline
};

}  // namespace forklift::inline abi_0_1::channel
