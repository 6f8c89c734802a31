// Making room, dropping, repairing, reaping: what is done to a topic outside of put and get.
#include "topic/topics.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <string>

#include "channel/tables.h"

namespace forklift::inline abi_0_1::topic {

namespace {

// More handles than a slot can hold are damage.
constexpr std::size_t kMostInSlot = (kLargestSlot - sizeof(SlotHeader)) / sizeof(arena::Handle);

}  // namespace

// Word by word, each with release order: a reader that gets a word of a later message then sees in `oldest`
// that the earlier one was dropped.
void write_racing(std::byte* ring, const void* from, std::size_t bytes) noexcept {
  const auto* in = static_cast<const std::byte*>(from);
  for (std::size_t at = 0; at < bytes; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, in + at, std::min<std::size_t>(8, bytes - at));
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(ring + at)).store(word, std::memory_order_release);
  }
}

void read_racing(void* to, const std::byte* ring, std::size_t bytes) noexcept {
  auto* out = static_cast<std::byte*>(to);
  for (std::size_t at = 0; at < bytes; at += 8) {
    auto* from = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(ring) + at);
    const std::uint64_t word = std::atomic_ref(*from).load(std::memory_order_acquire);
    std::memcpy(out + at, &word, std::min<std::size_t>(8, bytes - at));
  }
}

Topics::Topics(arena::Arena& arena)
    : arena_(arena), rows_(arena, arena::ObjectKind::kTopic, domain::Region::kTopics) {
  rows_.connect([this](std::uint32_t index) { return empty(index); });
  domain().on_reap([this](domain::SlotRef slot, bool) { return reap(slot); });
}

Result<std::uint32_t> Topics::claim_row(sync::Transaction& change) {
  return rows_.claim(change, "places of Broadcast and Latest",
                     [](TopicRow& row) { return row.mutex.init(); });
}

std::byte* Topics::slot(const TopicRow& topic, std::uint64_t sequence) const noexcept {
  const std::uint64_t place = sequence % topic.capacity.load(std::memory_order_relaxed);
  arena::Handle ring;
  ring.offset = topic.ring_offset.load(std::memory_order_relaxed) +
                place * topic.slot_bytes.load(std::memory_order_relaxed);
  return arena_.shared_data(ring);
}

std::uint64_t Topics::lowest(const TopicRow& topic) const noexcept {
  const auto slow = static_cast<WhenSlow>(topic.when_slow.load(std::memory_order_relaxed));
  const std::uint64_t places =
      std::min<std::uint64_t>(topic.readers_used.load(std::memory_order_acquire), kMostReaders);
  const std::uint64_t oldest = topic.oldest.load(std::memory_order_acquire);
  std::uint64_t lowest = topic.tail.load(std::memory_order_acquire);
  for (std::uint64_t i = 0; i < places; ++i) {
    if (topic.readers[i].owner.load(std::memory_order_acquire) == 0) continue;
    const std::uint64_t position = topic.readers[i].position.load(std::memory_order_acquire);
    // A reader that fell behind goes on with the oldest message or, with kDisconnect, not at all.
    if (position < oldest && slow == WhenSlow::kDisconnect) continue;
    lowest = std::min(lowest, std::max(position, oldest));
  }
  return lowest;
}

// With the lock, which writers of the slot need: it is as it was put.
bool Topics::release_message(std::uint32_t index, std::uint64_t sequence) {
  const std::byte* in = slot(rows_[index], sequence);
  const arena::Holder message = arena::Holder::topic(index, sequence);
  SlotHeader header{};
  read_racing(&header, in, sizeof header);
  if (header.handles == 0) return true;
  const auto give_up = [&](const arena::Handle& handle) {
    return arena_.ledger().check(handle, message).ok() && arena_.ledger().release_row(handle.lease, message);
  };
  bool all = header.handles <= kMostInSlot && header.sequence == sequence;
  for (std::size_t i = 0; all && i < header.handles; ++i) {
    arena::Handle handle;
    read_racing(&handle, in + sizeof header + i * sizeof handle, sizeof handle);
    if (header.spilled &&
        (all = arena_.ledger().check(handle, message).ok() && handle.segment == arena::kDataSegment &&
               handle.length >= sizeof(channel::SpillHeader))) {
      const std::byte* spill = arena_.shared_data(handle);
      channel::SpillHeader inner{};
      std::memcpy(&inner, spill, sizeof inner);
      all = std::uint64_t{inner.handles} * sizeof handle <= handle.length - sizeof inner;
      for (std::size_t j = 0; all && j < inner.handles; ++j) {
        arena::Handle each;
        std::memcpy(&each, spill + sizeof inner + j * sizeof each, sizeof each);
        all = give_up(each);
      }
    }
    all = all && give_up(handle);
  }
  // If the slot is damaged, the ledger still tells what the message held.
  return all || arena_.ledger().release_held_by(message);
}

bool Topics::drop(std::uint32_t index, std::uint64_t sequence) {
  TopicRow& topic = rows_[index];
  const std::uint64_t upto = std::min(sequence, topic.tail.load(std::memory_order_relaxed));
  bool all = true;
  for (std::uint64_t at = topic.oldest.load(std::memory_order_relaxed); at < upto; ++at) {
    topic.oldest.store(at + 1, std::memory_order_release);
    sync::crash_fence();
    all &= release_message(index, at);
  }
  if (!all) topic.broken.store(1, std::memory_order_relaxed);
  return all;
}

bool Topics::trim(std::uint32_t index) {
  const TopicRow& topic = rows_[index];
  const std::uint64_t tail = topic.tail.load(std::memory_order_relaxed);
  const std::uint64_t keep = std::min(topic.keep.load(std::memory_order_relaxed), tail);
  return drop(index, std::min(lowest(topic), tail - keep));
}

void Topics::free_place(std::uint32_t index, std::uint32_t place) noexcept {
  TopicRow& topic = rows_[index];
  topic.readers[place].owner.store(0, std::memory_order_release);
  sync::crash_fence();
  std::uint64_t used = topic.readers_used.load(std::memory_order_relaxed);
  while (used > 0 && topic.readers[used - 1].owner.load(std::memory_order_relaxed) == 0) --used;
  topic.readers_used.store(used, std::memory_order_release);
}

// The lock's last owner died inside. A put has committed iff it moved tail, a drop iff it moved oldest; what
// messages outside of the two hold is released (R2).
bool Topics::repair(std::uint32_t index) {
  TopicRow& topic = rows_[index];
  topic.broken.store(1, std::memory_order_relaxed);
  const std::uint64_t oldest = topic.oldest.load(std::memory_order_acquire);
  const std::uint64_t tail = topic.tail.load(std::memory_order_acquire);
  if (!arena_.ledger().release_strays(index, oldest, tail - oldest)) return false;
  topic.broken.store(0, std::memory_order_relaxed);
  return true;
}

// Gives back what a topic holds, when its last holder leaves. Idempotent: a death anywhere leaves a state
// from which the next call goes on.
bool Topics::empty(std::uint32_t index) {
  TopicRow& topic = rows_[index];
  const sync::LockGuard guard = lock(index);
  if (!guard.ok() || !whole(index)) return false;
  for (ReaderPlace& place : topic.readers) place.owner.store(0, std::memory_order_relaxed);
  topic.readers_used.store(0, std::memory_order_relaxed);
  // The ring may be gone, if a process died behind the last line of this function; then there is no message
  // either.
  if (!drop(index, topic.tail.load(std::memory_order_relaxed)) && !whole(index)) return false;
  return arena_.ledger().release_row(
      static_cast<std::uint32_t>(topic.ring_lease.load(std::memory_order_relaxed)),
      arena::Holder::ring(index));
}

bool Topics::reap(domain::SlotRef slot) {
  const std::uint64_t dead = arena::Holder::process(slot).word;
  bool all = true;
  for (std::uint32_t index = 0; index < rows_.used(); ++index) {
    if (rows_[index].count.load(std::memory_order_relaxed) != 0) all &= reap_topic(index, dead);
  }
  return all;
}

bool Topics::reap_topic(std::uint32_t index, std::uint64_t dead) {
  TopicRow& topic = rows_[index];
  bool all = true;
  const auto got = topic.mutex.try_lock();
  if (got != sync::RobustMutex::Acquired::kFailed) {
    if (got == sync::RobustMutex::Acquired::kOwnerDied) {
      all = repair(index);
      topic.mutex.consistent();
    }
    topic.mutex.unlock();
  }
  const auto is_its = [&](const ReaderPlace& place) {
    return place.owner.load(std::memory_order_acquire) == dead;
  };
  if (std::any_of(std::begin(topic.readers), std::end(topic.readers), is_its)) {
    const sync::LockGuard guard = lock(index);
    if (!guard.ok()) return false;
    for (std::uint32_t place = 0; place < kMostReaders; ++place) {
      if (is_its(topic.readers[place])) free_place(index, place);
    }
    if (whole(index)) (void)trim(index);
  }
  // It may have been a writer that died before it woke anybody, or the reader that a writer waits for.
  topic.items.notify(INT_MAX);
  topic.space.notify(INT_MAX);
  return all;
}

std::vector<std::string> Topics::audit() {
  std::vector<std::string> wrong;
  for (std::uint32_t index = 0; index < rows_.used(); ++index) {
    if (rows_[index].count.load(std::memory_order_relaxed) != 0) audit_topic(index, wrong);
  }
  return wrong;
}

void Topics::audit_topic(std::uint32_t index, std::vector<std::string>& wrong) {
  TopicRow& topic = rows_[index];
  const auto say = [&](const std::string& what) {
    wrong.push_back("topic " + std::to_string(index) + ": " + what);
  };
  const sync::LockGuard guard = lock(index);
  if (!guard.ok() || !whole(index)) return say("its lock cannot be had");
  const std::uint64_t oldest = topic.oldest.load();
  const std::uint64_t tail = topic.tail.load();
  if (oldest > tail || tail - oldest > topic.capacity.load())
    return say("R1: it has messages " + std::to_string(oldest) + " to " + std::to_string(tail) + " in " +
               std::to_string(topic.capacity.load()) + " slots");
  arena::Handle ring;
  ring.block = static_cast<std::uint32_t>(topic.ring_block.load());
  ring.generation = static_cast<std::uint32_t>(topic.ring_block.load() >> 32);
  ring.lease = static_cast<std::uint32_t>(topic.ring_lease.load());
  ring.offset = topic.ring_offset.load();
  ring.length = topic.capacity.load() * topic.slot_bytes.load();
  if (Status held = arena_.ledger().check(ring, arena::Holder::ring(index)); !held)
    return say("R3: " + held.to_string());
  std::uint64_t handles = 0;
  for (std::uint64_t at = oldest; at < tail; ++at) {
    SlotHeader header{};
    read_racing(&header, slot(topic, at), sizeof header);
    if (header.sequence != at)
      say("R1: slot of message " + std::to_string(at) + " has " + std::to_string(header.sequence));
    handles += header.handles;
    if (!header.spilled) continue;
    arena::Handle spill;
    read_racing(&spill, slot(topic, at) + sizeof header, sizeof spill);
    if (Status held = arena_.ledger().check(spill, arena::Holder::topic(index, at)); !held) {
      say("R2: " + held.to_string());
      continue;
    }
    channel::SpillHeader inner{};
    std::memcpy(&inner, arena_.shared_data(spill), sizeof inner);
    handles += inner.handles;
  }
  std::uint64_t leases = 0;
  for (const std::uint32_t sequence : arena_.ledger().sequences_of(index)) {
    if (((sequence - oldest) & channel::kSequenceMask) >= tail - oldest)
      say("R2: a lease of message " + std::to_string(sequence) + ", which is not there");
    ++leases;
  }
  if (leases != handles)
    say("R2: its messages name " + std::to_string(handles) + " leases and hold " + std::to_string(leases));
  for (std::uint32_t place = 0; place < kMostReaders; ++place) {
    if (topic.readers[place].owner.load() == 0) continue;
    if (place >= topic.readers_used.load() || topic.readers[place].position.load() > tail)
      say("R4: reader " + std::to_string(place) + " is at " +
          std::to_string(topic.readers[place].position.load()) + " of " + std::to_string(tail));
  }
}

}  // namespace forklift::inline abi_0_1::topic
