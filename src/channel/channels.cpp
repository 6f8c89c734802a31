// Making and repairing: what happens to channels outside of put and get.
#include "channel/channels.h"

#include <string>

#include "channel/channel.h"

namespace forklift::channel {

Channels::Channels(arena::Arena& arena, ChunkPool& chunks) : arena_(arena), chunks_(chunks) {
  const std::span<std::byte> region = domain().region(domain::Region::kChannels);
  table_ = reinterpret_cast<ChannelTable*>(region.data());
  rows_ = reinterpret_cast<ChannelRow*>(region.data() + sizeof(ChannelTable));
  capacity_ = (region.size() - sizeof(ChannelTable)) / sizeof(ChannelRow);
  arena_.ledger().set_object_hooks(
      arena::ObjectKind::kChannel,
      {[this](std::uint32_t index) -> Word& { return rows_[index].count; },
       [this](std::uint32_t index) { return empty(index); },
       [this](sync::Transaction& change, std::uint32_t index) {
         change.set(rows_[index].meta, rows_[index].meta.load(std::memory_order_relaxed) & ~std::uint64_t{1});
         change.set(rows_[index].next, table_->rows_free.load(std::memory_order_relaxed));
         change.set(table_->rows_free, std::uint64_t{index} + 1);
       },
       [this](std::uint64_t bytes) { return chunks_.trim(bytes); }});
  domain().on_reap([this](domain::SlotRef slot, bool) { return reap(slot); });
}

ChannelRow* Channels::row(std::uint32_t index) const noexcept {
  return index < capacity_ && index < table_->rows_used.load(std::memory_order_acquire) ? &rows_[index]
                                                                                        : nullptr;
}

// Part of the arena transaction that creates a channel: the row is free until it commits.
Result<std::uint32_t> Channels::claim_row(sync::Transaction& change) {
  if (const std::uint64_t free = table_->rows_free.load(std::memory_order_relaxed)) {
    change.set(table_->rows_free, rows_[free - 1].next.load(std::memory_order_relaxed));
    return static_cast<std::uint32_t>(free - 1);
  }
  const std::uint64_t used = table_->rows_used.load(std::memory_order_relaxed);
  if (used >= capacity_)
    return Status(Code::kNoSpace, "all " + std::to_string(capacity_) + " channels are in use");
  // Only here, when the row has never been used: its locks then stay what they are for ever.
  if (Status status = rows_[used].tail_mutex.init(); !status) return status;
  if (Status status = rows_[used].head_mutex.init(); !status) return status;
  change.set(table_->rows_used, used + 1);
  return static_cast<std::uint32_t>(used);
}

// The last putter died inside. A put has committed iff its chunk became tail.chunk(); what it had given to
// the message that never was goes back (C2).
bool Channels::repair_tail(std::uint32_t index) {
  ChannelRow& channel = rows_[index];
  channel.tail_broken.store(1, std::memory_order_relaxed);
  if (!chunks_.settle()) return false;
  const Position tail = Position::unpack(channel.tail.load(std::memory_order_acquire));
  if (channel.spare.load(std::memory_order_relaxed) == tail.chunk())
    channel.spare.store(0, std::memory_order_relaxed);
  if (!arena_.ledger().release_held_by(arena::Holder::message(index, tail.sequence()))) return false;
  channel.tail_broken.store(0, std::memory_order_relaxed);
  return true;
}

// The last getter died inside. If it had committed, the message was its own and dies with it.
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
  if (!arena_.ledger().release_held_by(arena::Holder::message(index, head.sequence() - 1))) return false;
  channel.head_broken.store(0, std::memory_order_relaxed);
  return true;
}

// Gives back what a channel holds, when its last holder leaves. Idempotent: a death anywhere leaves a state
// from which the next call goes on.
bool Channels::empty(std::uint32_t index) {
  ChannelRow& channel = rows_[index];
  if (!Channel::drain(*this, index)) return false;
  sync::LockGuard tail_guard(channel.tail_mutex, [&] { repair_tail(index); });
  if (!tail_guard.ok() || (channel.tail_broken.load() != 0 && !repair_tail(index))) return false;
  sync::LockGuard head_guard(channel.head_mutex, [&] { repair_head(index); });
  if (!head_guard.ok() || (channel.head_broken.load() != 0 && !repair_head(index))) return false;
  const Position head = Position::unpack(channel.head.load(std::memory_order_relaxed));
  const Position none{0, 0, head.sequence()};
  chunks_.give_from(channel.dying);
  if (channel.dying.load(std::memory_order_relaxed) != 0) return false;
  // A first put that died before its commit has made its spare chunk the head: it is in its cell already.
  const bool never_used = channel.spare.load(std::memory_order_relaxed) == head.chunk();
  channel.dying.store(never_used ? 0 : head.chunk(), std::memory_order_relaxed);
  // Getters of a channel without a byte bound do not count; its row may have one in its next life.
  channel.head_bytes[head.sequence() & 1].store(
      channel.tail_bytes[head.sequence() & 1].load(std::memory_order_relaxed), std::memory_order_relaxed);
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

// A process is gone: ends that it died in are repaired now, since nobody may come to lock them again, and its
// rights to channels are given up (the last one empties the channel).
bool Channels::reap(domain::SlotRef slot) {
  const std::uint64_t used = table_->rows_used.load(std::memory_order_acquire);
  bool repaired = true;
  for (std::uint32_t index = 0; index < used && index < capacity_; ++index) {
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
    // Whoever it was that was woken for the last message may have died before taking it.
    channel.items.notify(1);
    channel.space.notify(1);
  }
  const arena::Holder dead = arena::Holder::process(slot);
  for (const auto& [row, object] : arena_.ledger().rows_of(dead, arena::ObjectKind::kChannel))
    repaired &= arena_.ledger().release_row(row, dead);
  return repaired;
}

std::uint64_t Channels::live() const noexcept {
  std::uint64_t live = 0;
  const std::uint64_t used = table_->rows_used.load(std::memory_order_acquire);
  for (std::uint64_t index = 0; index < used; ++index)
    live += rows_[index].count.load(std::memory_order_relaxed) != 0 ? 1 : 0;
  return live;
}

}  // namespace forklift::channel
