// Making and repairing: what happens to channels outside of put and get.
#include "channel/channels.h"

#include <algorithm>
#include <climits>
#include <string>

#include "channel/channel.h"

namespace forklift::inline abi_0_1::channel {

namespace {

// The dead process may be the one that was woken for the last message, or it had put, or taken, several and did not live
// to say so: as many are woken as there are messages, or places for them.
void tell_of_death(ChannelRow& channel) noexcept {
  const Position head = Position::unpack(channel.head.load(std::memory_order_acquire));
  const Position tail = Position::unpack(channel.tail.load(std::memory_order_acquire));
  const auto messages = static_cast<int>((tail.sequence() - head.sequence()) & kSequenceMask);
  channel.items.notify(std::max(messages, 1));
  const bool several_kinds = channel.byte_capacity.load(std::memory_order_relaxed) != 0;
  const std::uint64_t capacity = channel.capacity.load(std::memory_order_relaxed);
  const auto room = static_cast<int>(std::min<std::uint64_t>(capacity, INT_MAX)) - messages;
  channel.space.notify(several_kinds ? INT_MAX : std::max(room, 1));
}

}  // namespace

Channels::Channels(arena::Arena& arena, ChunkPool& chunks)
    : arena_(arena), chunks_(chunks), rows_(arena, arena::ObjectKind::kChannel, domain::Region::kChannels) {
  rows_.connect([this](std::uint32_t index) { return empty(index); },
                [this](std::uint64_t bytes) { return chunks_.trim(bytes); });
  domain().on_reap([this](domain::SlotRef slot, bool) { return reap(slot); });
}

Result<std::uint32_t> Channels::claim_row(sync::Transaction& change) {
  return rows_.claim(change, "channels", [](ChannelRow& row) -> Status {
    if (Status status = row.tail_mutex.init(); !status) return status;
    return row.head_mutex.init();
  });
}

Receipts Channels::receipts(std::uint32_t index) const noexcept {
  const ChannelRow& channel = rows_[index];
  const std::uint64_t capacity = channel.receipts.load(std::memory_order_relaxed);
  if (capacity == 0 || capacity > kMostReceipts) [[likely]]
    return {};
  const arena::Handle block = receipts_of(channel);
  if (!arena_.ledger().check(block, arena::Holder::receipts(index))) return {};
  return {arena_.shared_data(block), index, static_cast<std::uint32_t>(capacity)};
}

// The last putter died inside the lock. Its put has committed iff its chunk became tail.chunk(). Leases that
// it gave to a message which was not committed are released (C2).
bool Channels::repair_tail(std::uint32_t index) {
  ChannelRow& channel = rows_[index];
  channel.put_tail.store(0, std::memory_order_relaxed);
  channel.tail_state.fetch_or(kTailBroken, std::memory_order_relaxed);
  if (!chunks_.settle()) return false;
  const Position tail = Position::unpack(channel.tail.load(std::memory_order_acquire));
  if (channel.spare.load(std::memory_order_relaxed) == tail.chunk())
    channel.spare.store(0, std::memory_order_relaxed);
  if (!arena_.ledger().release_held_by(arena::Holder::message(index, tail.sequence()))) return false;
  channel.tail_state.fetch_and(~std::uint64_t{kTailBroken}, std::memory_order_relaxed);
  return true;
}

// The last getter died inside the lock. If it had committed, the message belonged to it and dies with it, but where
// there are receipts, in which it goes on.
bool Channels::repair_head(std::uint32_t index) {
  ChannelRow& channel = rows_[index];
  channel.head_broken.store(1, std::memory_order_relaxed);
  if (!chunks_.settle()) return false;
  const Position head = Position::unpack(channel.head.load(std::memory_order_acquire));
  if (channel.dying.load(std::memory_order_relaxed) == head.chunk()) {
    channel.dying.store(0, std::memory_order_relaxed);
  } else {
    chunks_.give_from(channel.dying);
  }
  if (const Receipts there = receipts(index); there && !there.repair(head.sequence(), arena_)) return false;
  if (!arena_.ledger().release_held_by(arena::Holder::message(index, head.sequence() - 1))) return false;
  channel.head_broken.store(0, std::memory_order_relaxed);
  return true;
}

// Gives back what a channel holds, when its last holder leaves. Idempotent: a death anywhere leaves a state
// from which the next call goes on.
bool Channels::empty(std::uint32_t index) {
  ChannelRow& channel = rows_[index];
  if (!Channel::drain(*this, index)) return false;
  // With the receipts goes what they hold, and the right to the dead-letter queue. No process looks at them any more.
  if (channel.receipts.load(std::memory_order_relaxed) != 0 && !arena_.ledger().release_receipts(index))
    return false;
  sync::LockGuard tail_guard(channel.tail_mutex, [&] { repair_tail(index); });
  if (!tail_guard.ok() || ((channel.tail_state.load() & kTailBroken) != 0 && !repair_tail(index)))
    return false;
  sync::LockGuard head_guard(channel.head_mutex, [&] { repair_head(index); });
  if (!head_guard.ok() || (channel.head_broken.load() != 0 && !repair_head(index))) return false;
  const Position head = Position::unpack(channel.head.load(std::memory_order_relaxed));
  const Position none{0, 0, head.sequence()};
  chunks_.give_from(channel.dying);
  if (channel.dying.load(std::memory_order_relaxed) != 0) return false;
  // A first put that died before its commit has made its spare chunk the head. `spare` names that chunk
  // already, so `dying` must not.
  const bool never_used = channel.spare.load(std::memory_order_relaxed) == head.chunk();
  channel.dying.store(never_used ? 0 : head.chunk(), std::memory_order_relaxed);
  // Getters of a channel without a byte bound do not count bytes, and the next channel in this row may have
  // one.
  channel.head_bytes[head.sequence() & 1].store(
      channel.tail_bytes[head.sequence() & 1].load(std::memory_order_relaxed), std::memory_order_relaxed);
  channel.put_tail.store(0, std::memory_order_relaxed);
  sync::crash_fence();
  channel.tail.store(none.pack(), std::memory_order_relaxed);
  sync::crash_fence();
  channel.head.store(none.pack(), std::memory_order_release);
  sync::crash_fence();
  chunks_.give_from(channel.dying);
  chunks_.give_from(channel.spare);
  return channel.dying.load(std::memory_order_relaxed) == 0 &&
         channel.spare.load(std::memory_order_relaxed) == 0;
}

// A process is gone. Ends in which it died are repaired now, since perhaps nobody locks them again. Its
// rights to channels are given up; the last one empties the channel.
bool Channels::reap(domain::SlotRef slot) {
  const std::uint64_t used = rows_.used();
  bool repaired = true;
  for (std::uint32_t index = 0; index < used; ++index) {
    ChannelRow& channel = rows_[index];
    if (channel.count.load(std::memory_order_relaxed) == 0) continue;
    for (const bool tail : {true, false}) {
      sync::RobustMutex& mutex = tail ? channel.tail_mutex : channel.head_mutex;
      const auto got = mutex.try_lock();
      if (got == sync::RobustMutex::Acquired::kFailed) continue;
      if (got == sync::RobustMutex::Acquired::kOwnerDied) {
        repaired &= tail ? repair_tail(index) : repair_head(index);
        mutex.consistent();
      }
      mutex.unlock();
    }
    if (const Receipts there = receipts(index)) {
      repaired &= there.reap(slot, arena_);
      // Several messages may have come back, and the dead process may have ended the last claim without saying so.
      channel.items.notify(INT_MAX);
      channel.all_done.notify(INT_MAX);
    }
    tell_of_death(channel);
  }
  const arena::Holder dead = arena::Holder::process(slot);
  for (const auto& [row, object] : arena_.ledger().rows_of(dead, arena::ObjectKind::kChannel))
    repaired &= arena_.ledger().release_row(row, dead);
  return repaired;
}

}  // namespace forklift::inline abi_0_1::channel
