// Making, opening and draining channels; counting. The hot paths are in put.cpp and get.cpp, other waits in wait.cpp.
#include "channel/channel.h"

#include <algorithm>
#include <climits>
#include <string>

#include "channel/plan.h"
#include "channel/waiting.h"
#include "sync/past_caches.h"

namespace forklift::inline abi_0_1::channel {

namespace {

// The block with the receipts of a new channel; none for one that delivers at most once.
Result<arena::LeasePtr> make_receipts(arena::Arena& arena, const ChannelOptions& options) {
  if (options.receipts == 0) return arena::LeasePtr();
  if (options.receipts > kMostReceipts || options.tries > ReceiptState::kMostTries) {
    return Status(Code::kInvalid, "a queue for " + std::to_string(options.receipts) + " claims and " +
                                      std::to_string(options.tries) + " tries: at most " +
                                      std::to_string(kMostReceipts) + " and " +
                                      std::to_string(ReceiptState::kMostTries) + " are possible");
  }
  Result<arena::LeasePtr> block =
      arena.allocate(arena::Kind::kShare, Receipts::bytes_for(options.receipts), /*zeroed=*/true);
  if (!block) return block;
  ReceiptsHeader& header = Receipts((*block)->data(), 0, options.receipts).header();
  header.tries_limit.store(options.tries, std::memory_order_relaxed);
  if (options.dead_letters) {
    const ChannelId letters = options.dead_letters->id();
    header.dead_letters.store((std::uint64_t{letters.generation} << 32) | letters.index,
                              std::memory_order_relaxed);
  }
  return block;
}

}  // namespace

Result<ChannelPtr> Channel::create(Channels& channels, const ChannelOptions& options) {
  ChannelId id{};
  arena::Arena& arena = channels.arena();
  Result<arena::LeasePtr> receipts = make_receipts(arena, options);
  if (!receipts) return receipts.status();
  Result<arena::LeasePtr> letters = arena::LeasePtr();
  if (*receipts && options.dead_letters) {
    if (&options.dead_letters->arena() != &arena)
      return Status(Code::kInvalid, "the dead-letter queue is of " +
                                        options.dead_letters->arena().domain().described() +
                                        ", and the queue is to be made in " + arena.domain().described() +
                                        ": both must be of one domain");
    letters = arena.hold({arena::ObjectKind::kChannel, options.dead_letters->id().index});
    if (!letters) return letters.status();
  }
  // The row's index is known inside the transaction only, so the ledger asks for the object through `fill`.
  arena::Object object{arena::ObjectKind::kChannel, 0};
  Result<arena::LeasePtr> hold =
      channels.arena().hold_new(object, [&](sync::Transaction& change, arena::Object& made) -> Status {
        Result<std::uint32_t> index = channels.claim_row(change);
        if (!index) return index.status();
        made.index = *index;
        ChannelRow& row = channels.unchecked_row(*index);
        id = {*index, channels.rows().begin_generation(change, *index)};
        change.set(row.capacity, options.capacity);
        change.set(row.byte_capacity, options.byte_capacity);
        change.set(row.flags, options.flags | (options.receipts != 0 ? std::uint64_t{kRedelivers} : 0));
        change.set(row.tokens_sent, 0);
        change.set(row.tokens_read, 0);
        change.set(row.selectable, 0);
        change.set(row.drain_mark, 0);
        row.label.clear();
        change.set(row.tail_state, 0);
        const arena::Handle block = *receipts ? (*receipts)->handle() : arena::Handle();
        change.set(row.receipts, options.receipts);
        change.set(row.receipts_offset, block.offset);
        change.set(row.receipts_block, (std::uint64_t{block.generation} << 32) | block.block);
        change.set(row.receipts_lease, block.lease);
        for (const auto* held : {&receipts, &letters})
          if (**held) arena.give_within(change, ***held, arena::Holder::receipts(*index));
        const std::uint32_t first = Position::unpack(row.tail.load(std::memory_order_relaxed)).sequence();
        change.set(row.done, first);
        // Nobody reads these before the row is in use.
        row.first.store(first, std::memory_order_relaxed);
        row.get_cpu.store(0, std::memory_order_relaxed);  // of a reader of an earlier channel
        row.deaths.store(0, std::memory_order_relaxed);
        row.sent_again.store(0, std::memory_order_relaxed);
        return {};
      });
  if (!hold) return hold.status();
  for (const auto* held : {&receipts, &letters})
    if (**held) arena.forget(***held);
  return ChannelPtr(new Channel(channels, id, channels.unchecked_row(id.index), *std::move(hold)));
}

Result<ChannelPtr> Channel::open(Channels& channels, ChannelId id) {
  Result<arena::LeasePtr> hold = channels.rows().take_up(id.index, id.generation, "channel");
  if (!hold) return hold.status();
  ChannelPtr made(new Channel(channels, id, channels.unchecked_row(id.index), *std::move(hold)));
  if (made->row_.receipts.load(std::memory_order_relaxed) != 0 && !made->redelivers())
    return Status(Code::kCorrupt,
                  "channel " + std::to_string(id.index) + " names receipts that are not its own");
  return made;
}

Status Channel::offer(domain::SlotRef child) { return table_.rows().offer(id_.index, child); }

bool Channel::drain(Channels& channels, std::uint32_t index) {
  Channel channel(channels, {index, 0}, channels.unchecked_row(index), nullptr);
  Incoming message;
  for (;;) {
    bool done = false;
    // A message that is wrong counts as taken.
    const Status got = channel.try_get(message, &done, false);
    message.clear();
    if (!done) return got.ok() || got.code() == Code::kCorrupt;
  }
}

Status Channel::unrepaired() {
  return {Code::kStalled,
          "what a dead process left in a channel cannot be repaired: the holder of an internal lock is "
          "stopped; continue or kill it"};
}

Status Channel::check_tail() {
  const bool broken = (row_.tail_state.load(std::memory_order_relaxed) & kTailBroken) != 0;
  return broken && !table_.repair_tail(id_.index) ? unrepaired() : Status();
}

// Under the tail's lock, so that no put that saw an open channel commits after it: who sees kTailClosed sees all
// messages.
Status Channel::close() {
  if (!table_.domain().attached()) return table_.domain().not_attached();
  {
    sync::LockGuard guard(row_.tail_mutex, [this] { table_.repair_tail(id_.index); });
    if (!guard.ok()) return guard.status();
    if (Status usable = check_tail(); !usable) return usable;
    row_.put_tail.store(0, std::memory_order_relaxed);  // the next putter looks at the state
    sync::crash_fence();
    row_.tail_state.fetch_or(kTailClosed, std::memory_order_release);
  }
  wake_all();
  return {};
}

void Incoming::drop() noexcept {
  spill_.reset();
  leases_.clear();
  handles_.clear();
}

Incoming Incoming::extract() {
  Incoming kept;
  kept.codec_ = codec_;
  kept.tag_ = tag_;
  kept.leases_ = std::move(leases_);
  if (spill_) {
    kept.spill_ = std::move(spill_);
    kept.bytes_ = bytes_;
  } else if (!bytes_.empty()) {
    kept.buffer_ = std::make_unique_for_overwrite<std::byte[]>(bytes_.size());
    kept.buffer_bytes_ = bytes_.size();
    sync::copy_bytes(kept.buffer_.get(), bytes_.data(), bytes_.size());
    kept.bytes_ = {kept.buffer_.get(), bytes_.size()};
  }
  clear();
  return kept;
}

std::uint32_t Channel::size() const noexcept {
  const Position head = Position::unpack(row_.head.load(std::memory_order_acquire));
  const Position tail = Position::unpack(row_.tail.load(std::memory_order_acquire));
  const std::uint32_t there = (tail.sequence() - head.sequence()) & kSequenceMask;
  return receipts_ ? there + receipts_.count_returned() : there;
}

std::uint64_t Channel::byte_capacity() const noexcept {
  return row_.byte_capacity.load(std::memory_order_relaxed);
}

std::uint32_t Channel::capacity() const noexcept {
  return static_cast<std::uint32_t>(row_.capacity.load(std::memory_order_relaxed));
}

std::uint64_t Channel::flags() const noexcept { return row_.flags.load(std::memory_order_relaxed); }

bool Channel::full() const noexcept {
  return !has_room(Position::unpack(row_.tail.load(std::memory_order_acquire)), 0);
}

int Channel::reader_cpu() const noexcept {
  constexpr std::uint64_t kThisAndAnother = 2;
  if (row_.count.load(std::memory_order_relaxed) != kThisAndAnother) return -1;
  return static_cast<int>(row_.get_cpu.load(std::memory_order_relaxed)) - 1;
}

std::uint64_t Channel::last_weight() const noexcept {
  // How far the two are apart is the weight of the last message, or of the one that is being put.
  const std::uint64_t even = row_.tail_bytes[0].load(std::memory_order_relaxed);
  const std::uint64_t odd = row_.tail_bytes[1].load(std::memory_order_relaxed);
  return even < odd ? odd - even : even - odd;
}

domain::WaitPoint Channel::for_message() const noexcept {
  const std::int64_t longest_ns =
      std::max(spin_ns_for(last_weight()), spin_ns_for(exchange.unanswered_bytes));
  return {row_.items, row_.item_spinner, row_.put_cpu, longest_ns,
          &spin_policies_[exchange.reader_is_awake ? 1 : 0]};
}

domain::WaitPoint Channel::for_room() const noexcept {
  return {row_.space, row_.space_spinner, row_.get_cpu, spin_ns_for(last_weight()), &room_spin_policy_};
}

Status Channel::put(const Outgoing& message, os::Deadline deadline, WaitHooks* hooks, int bell,
                    std::uint32_t* sequence) {
  if (!table_.domain().attached()) return table_.domain().not_attached();
  const std::int64_t traced = tracer().begin(trace::Category::kMessages);
  Plan plan(message, bell);
  if (Status status = plan_put(message, plan); !status) return status;
  int reliefs = 0;
  for (;;) {
    bool done = false;
    if (Status status = try_put(plan, &done); !status) {
      // As for blocks: memory that is free but warm, or that dead processes hold, is given back.
      if (status.code() == Code::kOverBudget && ++reliefs <= 8 && table_.arena().relieve(kChunkBytes))
        continue;
      return status;
    }
    if (done) {
      exchange.note_put(plan.weight, plan.rang || row_.items.has_sleepers());
      if (!message.quiet) row_.items.notify_after_unlock(1);
      if (sequence) *sequence = plan.sequence;
      trace_messages(trace::EventKind::kPut, traced, plan.sequence, plan.weight);
      return {};
    }
    if (room_descriptor_.made()) [[unlikely]] {
      // What is taken from here on makes it readable; what was taken before is seen by the look behind it.
      taken_when_full_.store(taken(), std::memory_order_seq_cst);
      if (has_room(Position::unpack(row_.tail.load(std::memory_order_acquire)), plan.weight)) continue;
      room_descriptor_.settle();
    }
    // With room for several messages, look less often: each look takes the head's cache line from a getter
    // that is at work.
    const int looks_apart = row_.capacity.load(std::memory_order_relaxed) >= 4 ? 16 : 0;
    const auto roomy = [&] {
      for (int i = 0; i < looks_apart; ++i) sync::cpu_relax();
      return closed() || has_room(Position::unpack(row_.tail.load(std::memory_order_acquire)), plan.weight);
    };
    Status status = wait_until(for_room(), roomy, table_.domain(), deadline, hooks);
    if (!status) return status;
  }
}

Status Channel::take(Incoming& into, bool* done, bool traced, Claim* claim, TakeMark* mark) {
  Status got = try_get(into, done, traced, claim, mark);
  if (*done) tell_room();
  message_descriptor_.settle();
  return got;
}

// Behind the unlocking of the head, under which so many messages were taken.
void Channel::tell_room(int messages) noexcept {
  // Where bytes count, the first waiting putter may need more room than there is, and a later one less: wake all.
  const bool several_kinds = row_.byte_capacity.load(std::memory_order_relaxed) != 0;
  const std::uint64_t mark = row_.drain_mark.load(std::memory_order_relaxed);
  if (mark == 0) {
    // An unbounded channel too: its sequence numbers bound it, so a putter may be waiting.
    row_.space.notify_after_unlock(several_kinds ? INT_MAX : messages);
  } else {
    sync::unlock_fence();
    if (row_.space.is_awaited() && size() < mark) row_.space.notify(INT_MAX);
  }
}

Status Channel::get(Incoming& into, os::Deadline deadline, WaitHooks* hooks, Claim* claim, TakeMark* mark) {
  if (!table_.domain().attached()) return table_.domain().not_attached();
  if (receipts_) [[unlikely]]
    return {Code::kInvalid, sync::labelled("the queue", row_.label) +
                                " delivers at least once: its messages are claimed, not just got"};
  into.clear();
  bool traced = are_traced();
  for (;;) {
    bool done = false;
    Status got = take(into, &done, traced, claim, mark);
    if (!got || done) return got;
    if (Status status = wait_for_next(deadline, hooks, &traced); !status) return status;
  }
}

Status Channel::wait_for_next(os::Deadline deadline, WaitHooks* hooks, bool* traced) {
  if (at_end()) return {Code::kClosed, sync::labelled("the queue", row_.label) + " is closed and empty"};
  Status status = wait_for_message(deadline, hooks, traced);
  if (status) fetch_first();
  return status;
}

bool Channel::claim_taken(const Claim& claim) const noexcept {
  const std::uint64_t place = claim.place.load(std::memory_order_acquire);
  if ((place & Claim::kClaimed) != 0) return true;
  if ((place & Claim::kClaiming) == 0) return false;
  return passed(static_cast<std::uint32_t>(place));
}

bool Channel::passed(std::uint32_t sequence) const noexcept {
  const Position head = Position::unpack(row_.head.load(std::memory_order_acquire));
  return ((head.sequence() - sequence - 1) & kSequenceMask) < kSequenceMask / 2;
}

void Channel::wake_all() noexcept {
  for (sync::EventCount* event : {&row_.items, &row_.space, &row_.all_done}) event->notify(INT_MAX);
}

std::uint32_t Channel::unfinished() const noexcept {
  if (receipts_) {
    // In this order no message is missed that leaves the channel meanwhile. One that comes back is counted as claimed.
    const Position head = Position::unpack(row_.head.load(std::memory_order_acquire));
    const Position end = Position::unpack(row_.tail.load(std::memory_order_acquire));
    return ((end.sequence() - head.sequence()) & kSequenceMask) + receipts_.count_in_use();
  }
  const Position tail = Position::unpack(row_.tail.load(std::memory_order_acquire));
  return (tail.sequence() - static_cast<std::uint32_t>(row_.done.load(std::memory_order_acquire))) &
         kSequenceMask;
}

bool Channel::task_done() noexcept {
  if (receipts_) return false;
  std::uint64_t done = row_.done.load(std::memory_order_acquire);
  for (;;) {
    const Position tail = Position::unpack(row_.tail.load(std::memory_order_acquire));
    if (((tail.sequence() - static_cast<std::uint32_t>(done)) & kSequenceMask) == 0) return false;
    if (row_.done.compare_exchange_weak(done, (done + 1) & kSequenceMask, std::memory_order_acq_rel)) break;
  }
  if (unfinished() == 0) row_.all_done.notify(INT_MAX);
  return true;
}

Status Channel::join(os::Deadline deadline, WaitHooks* hooks) {
  const auto finished = [this] { return unfinished() == 0; };
  while (!finished()) {
    Status status = wait_until({row_.all_done, row_.item_spinner, row_.get_cpu}, finished, table_.domain(),
                               deadline, hooks);
    if (!status) return status;
  }
  return {};
}

}  // namespace forklift::inline abi_0_1::channel
