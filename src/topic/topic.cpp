// Making and opening topics, and their readers' places. Messages are put in topic_put.cpp and read in
// topic_get.cpp.
#include "topic/topic.h"

#include <climits>
#include <string>

#include "channel/waiting.h"
#include "topic/topics.h"

namespace forklift::inline abi_0_1::topic {

namespace {

Status check_options(const TopicOptions& options) {
  const auto wrong = [](std::string what) { return Status(Code::kInvalid, std::move(what)); };
  if (options.capacity == 0 || options.capacity > kLargestRing)
    return wrong("a capacity of " + std::to_string(options.capacity) + " messages; it can be 1 to " +
                 std::to_string(kLargestRing));
  if (options.keep > options.capacity)
    return wrong(std::to_string(options.keep) + " messages to be kept of " +
                 std::to_string(options.capacity));
  if (options.slot_bytes < kSmallestSlot || options.slot_bytes > kLargestSlot || options.slot_bytes % 64 != 0)
    return wrong("slots of " + std::to_string(options.slot_bytes) + " bytes");
  return {};
}

arena::Handle ring_of(const TopicRow& row) {
  const std::uint64_t block = row.ring_block.load(std::memory_order_relaxed);
  arena::Handle ring;
  ring.block = static_cast<std::uint32_t>(block);
  ring.generation = static_cast<std::uint32_t>(block >> 32);
  ring.lease = static_cast<std::uint32_t>(row.ring_lease.load(std::memory_order_relaxed));
  ring.offset = row.ring_offset.load(std::memory_order_relaxed);
  ring.length = row.capacity.load(std::memory_order_relaxed) * row.slot_bytes.load(std::memory_order_relaxed);
  return ring;
}

}  // namespace

Result<TopicPtr> Topic::create(Topics& topics, const TopicOptions& options) {
  if (Status status = check_options(options); !status) return status;
  Result<arena::LeasePtr> ring =
      topics.arena().allocate(arena::Kind::kShare, std::size_t{options.capacity} * options.slot_bytes);
  if (!ring) return ring.status();
  TopicId id{};
  // One transaction makes the row and passes the ring on to the topic.
  const auto fill = [&](sync::Transaction& change, arena::Object& made) -> Status {
    Result<std::uint32_t> index = topics.claim_row(change);
    if (!index) return index.status();
    made.index = *index;
    TopicRow& row = topics.unchecked_row(*index);
    id = {*index, topics.rows().begin_generation(change, *index)};
    const arena::Handle& handle = (*ring)->handle();
    change.set(row.capacity, options.capacity);
    change.set(row.slot_bytes, options.slot_bytes);
    change.set(row.keep, options.keep);
    change.set(row.flags, options.flags);
    change.set(row.when_slow, static_cast<std::uint64_t>(options.when_slow));
    change.set(row.ring_offset, handle.offset);
    change.set(row.ring_block, (std::uint64_t{handle.generation} << 32) | handle.block);
    change.set(row.ring_lease, handle.lease);
    change.set(row.finished, 0);
    change.set(row.tail, 0);
    change.set(row.oldest, 0);
    row.label.clear();
    topics.arena().give_within(change, **ring, arena::Holder::ring(*index));
    return {};
  };
  Result<arena::LeasePtr> hold = topics.arena().hold_new({arena::ObjectKind::kTopic, 0}, fill);
  if (!hold) return hold.status();
  topics.arena().forget(**ring);
  return TopicPtr(new Topic(topics, id, topics.unchecked_row(id.index), *std::move(hold)));
}

Result<TopicPtr> Topic::open(Topics& topics, TopicId id) {
  Result<arena::LeasePtr> hold = topics.rows().take_up(id.index, id.generation, "topic");
  if (!hold) return hold.status();
  TopicRow& row = topics.unchecked_row(id.index);
  const std::uint64_t slot = row.slot_bytes.load(std::memory_order_relaxed);
  if (Status ring = topics.arena().ledger().check(ring_of(row), arena::Holder::ring(id.index)); !ring)
    return ring;
  if (slot < kSmallestSlot || slot > kLargestSlot || slot % 64 != 0)
    return Status(Code::kCorrupt, "a topic with slots of " + std::to_string(slot) + " bytes");
  return TopicPtr(new Topic(topics, id, row, *std::move(hold)));
}

Status Topic::offer(domain::SlotRef child) { return table_.rows().offer(id_.index, child); }

Status Topic::unrepaired() {
  return {Code::kStalled,
          "what a dead process left in a Broadcast or Latest cannot be repaired: the holder of an internal "
          "lock is stopped; continue or kill it"};
}

void Topic::wake_all() noexcept {
  row_.items.notify(INT_MAX);
  row_.space.notify(INT_MAX);
}

Status Topic::finish() {
  if (!table_.domain().attached()) return table_.domain().not_attached();
  {
    // With the lock, so that no put commits afterwards.
    const sync::LockGuard guard = table_.lock(id_.index);
    if (!guard.ok()) return guard.status();
    row_.finished.store(1, std::memory_order_release);
  }
  wake_all();
  return {};
}

std::uint32_t Topic::readers() const noexcept {
  std::uint32_t there = 0;
  for (const ReaderPlace& place : row_.readers)
    there += place.owner.load(std::memory_order_acquire) != 0 ? 1 : 0;
  return there;
}

Status Topic::wait_readers(std::uint32_t count, os::Deadline deadline, WaitHooks* hooks) {
  if (!table_.domain().attached()) return table_.domain().not_attached();
  if (count > kMostReaders)
    return {Code::kInvalid, std::to_string(count) + " readers; there can be " + std::to_string(kMostReaders)};
  const auto there = [&] { return readers() >= count; };
  if (there()) return {};
  return channel::wait_until({row_.space, row_.space_spinner, domain::kUnknownCpu}, there, table_.domain(),
                             deadline, hooks);
}

Result<ReaderPtr> Topic::subscribe(bool from_oldest) {
  if (!table_.domain().attached()) return table_.domain().not_attached();
  const domain::SlotRef self = table_.domain().self();
  for (int attempt = 0;; ++attempt) {
    {
      const sync::LockGuard guard = table_.lock(id_.index);
      if (!guard.ok()) return guard.status();
      for (std::uint32_t i = 0; i < kMostReaders; ++i) {
        ReaderPlace& place = row_.readers[i];
        if (place.owner.load(std::memory_order_relaxed) != 0) continue;
        const std::uint64_t start = (from_oldest ? row_.oldest : row_.tail).load(std::memory_order_relaxed);
        place.position.store(start, std::memory_order_relaxed);
        if (row_.readers_used.load(std::memory_order_relaxed) <= i)
          row_.readers_used.store(i + 1, std::memory_order_release);
        sync::crash_fence();
        place.owner.store(arena::Holder::process(self).word, std::memory_order_release);
        sync::crash_fence();
        ReaderPtr reader(new Reader(shared_from_this(), i, self, start));
        row_.space.notify(INT_MAX);
        return reader;
      }
    }
    if (attempt > 0 || table_.domain().reap() == 0)
      return Status(Code::kNoSpace, "all " + std::to_string(kMostReaders) + " readers' places are taken");
  }
}

ReaderPtr Topic::newest(std::uint64_t seen) {
  return ReaderPtr(new Reader(shared_from_this(), Reader::kNoPlace, table_.domain().self(), seen));
}

bool Reader::mine() const noexcept {
  const domain::Domain& domain = topic_->domain();
  return domain.attached() && domain.self() == owner_;
}

void Reader::leave() noexcept {
  if (place_ == kNoPlace || !mine() || left_.exchange(true)) return;
  give_place();
  topic_->row_.items.notify(INT_MAX);  // other threads of this process that wait in get()
}

void Reader::give_place() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::exchange(gave_place_, true)) return;
  Topics& topics = topic_->table_;
  const std::uint32_t index = topic_->id_.index;
  {
    const sync::LockGuard guard = topics.lock(index);
    if (guard.ok()) {
      topics.free_place(index, place_);
      if (topics.whole(index)) (void)topics.trim(index);
    } else {
      // Without the lock the place is given up, too: the word belongs to this reader.
      topic_->row_.readers[place_].owner.store(0, std::memory_order_release);
    }
  }
  topic_->row_.space.notify(INT_MAX);
}

}  // namespace forklift::inline abi_0_1::topic
