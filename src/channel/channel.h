// A channel: an ordered, many-to-many queue of messages between processes.
//
//   Result<ChannelPtr> queue = Channel::create(channels, {.capacity = 8});
//   Status sent = (*queue)->put({.bytes = bytes, .leases = leases}, Deadline::after_seconds(1));
//   Incoming message;
//   Status got = (*queue)->get(message, Deadline::never());
//
// Messages come out in the order in which their puts committed. A put that returned ok is neither lost nor
// doubled by anybody's death; a message that a killed process had taken dies with it.
//
// Thread and process safety: any number of threads of any number of processes at either end.
// Blocking: `deadline` ends a wait with kTimeout; `hooks` are asked at least every hooks->slice_ns.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "channel/answers.h"
#include "channel/channels.h"
#include "channel/gather.h"
#include "channel/letter.h"
#include "domain/waiting.h"
#include "os/clock.h"
#include "watch/descriptor.h"

namespace forklift::inline abi_0_1::channel {

using domain::WaitHooks;

// A getter's record of the message that it takes, in shared memory that it owns: after its death others learn
// from it whether the message was taken (Channel::claim_taken). All zero: none. The getter clears `place`
// when it has dealt with the message, and before the next get.
struct Claim {
  static constexpr std::uint64_t kClaiming = std::uint64_t{1} << 32;  // about to be taken
  static constexpr std::uint64_t kClaimed = std::uint64_t{2} << 32;   // taken
  Word place;  // one of the two, and the message's sequence
  Word tag;    // of the message
};

// What a getter writes down about a message of its own accord, under the head's lock and before the head commits: a
// message that is gone has its mark. After a death in between the message is still there, and the next getter marks it.
class TakeMark {
 public:
  virtual void mark(std::uint64_t tag) noexcept = 0;

 protected:
  ~TakeMark() = default;
};

using ChannelPtr = std::shared_ptr<Channel>;

struct ChannelOptions {
  std::uint32_t capacity = 0;  // messages; 0: unbounded
  // bytes in transit; 0: unbounded. A larger message waits for an empty channel.
  std::uint64_t byte_capacity = 0;
  std::uint64_t flags = 0;
  // Not 0: the channel delivers at least once, and this is how many messages may be claimed at a time
  // (Channel::claim).
  std::uint32_t receipts = 0;
  // With receipts: a message that was delivered so often and comes back once more goes to the dead letters, or where
  // there are none is dropped. 0: it is delivered for ever.
  std::uint32_t tries = 0;
  ChannelPtr dead_letters = nullptr;
};

// A message that was taken and is still to be acknowledged, in the hands of the process that took it.
struct Receipt {
  // Whole words, which no copy reads together right behind their stores (decisions/0097).
  std::uint64_t place = Receipts::kNone;
  std::uint64_t state = 0;  // of its row (ReceiptState) while the claim lasts

  // How often the message was delivered, this time among them.
  std::uint32_t tries() const noexcept { return ReceiptState::unpack(state).tries; }
};

// What names a channel within its domain.
struct ChannelId {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
};

// What each message runs through is marked hot, so that the linker puts it side by side: a round trip takes up to a fifth
// longer where other rooms' code lies in between (decisions/0300).
class Channel {
 public:
  static Result<ChannelPtr> create(Channels& channels, const ChannelOptions& options);
  // Takes up a right that a parent entered for this process (offer), or, where this process holds the channel
  // already, another one.
  static Result<ChannelPtr> open(Channels& channels, ChannelId id);
  // Takes and drops every message: for the last holder of a channel. False: a lock could not be had.
  static bool drain(Channels& channels, std::uint32_t index);
  // Enters a child as a holder, so that the channel lives until the child has opened it.
  Status offer(domain::SlotRef child);

  // `bell`: the writing end of a pipe (channel/pipe.h). `sequence`: what the message got, for wait_taken.
  [[gnu::hot]] Status put(const Outgoing& message, os::Deadline deadline, WaitHooks* hooks = nullptr,
                          int bell = -1, std::uint32_t* sequence = nullptr);
  // kTimeout, kInterrupted, kCorrupt (that message is gone, the channel goes on), kStalled, kClosed.
  [[gnu::hot]] Status get(Incoming& into, os::Deadline deadline, WaitHooks* hooks = nullptr,
                          Claim* claim = nullptr, TakeMark* mark = nullptr);
  // Several messages in one step where they are plain (batch.h): one lock, one commit, one wake-up. `count` says how
  // many were put, the first ones, also after a failure, which is one of put()'s. All, if ok.
  Status put_many(std::span<const Outgoing> messages, std::size_t& count, os::Deadline deadline,
                  WaitHooks* hooks = nullptr);
  // The same for messages of one length, which lie one behind the other in `items`.
  Status put_items(std::span<const std::byte> items, std::size_t item_bytes, const Outgoing& like,
                   std::size_t& count, os::Deadline deadline, WaitHooks* hooks = nullptr);
  // Waits for a message as get(), then takes those that are there in one step, at most `most` and not always all. The
  // batch has plain messages; where it is empty, `single` has one that is not. Errors as of get(), with nothing taken.
  Status get_many(Batch& batch, Incoming& single, std::size_t most, os::Deadline deadline,
                  WaitHooks* hooks = nullptr);
  // The same for raw messages of one length, which are written to `items` one behind the other; `count` says how many.
  // Where it is 0, `single` has a message that is of another kind, or not plain.
  Status get_items(std::span<std::byte> items, std::size_t item_bytes, const Outgoing& like,
                   std::size_t& count, Incoming& single, os::Deadline deadline, WaitHooks* hooks = nullptr);
  // Is the message with this sequence, which was put, no longer in the channel? Right for 2^29 messages.
  bool passed(std::uint32_t sequence) const noexcept;
  // For a channel with receipts, in place of get(). The message stays until it is acknowledged; it comes back, before
  // all others and in the order in which it was put, when it is given back or when this process is gone. A death inside
  // of claim() gives it back, too, and may count as a delivery or not. kTimeout, kInterrupted, kStalled; kCorrupt
  // (that message is gone, the channel goes on); kNoSpace, kOverBudget, kSystem (the message is back); kNoSpace also
  // where this process holds all receipts; kClosed once nothing is left and nothing is claimed.
  Status claim(Incoming& into, Receipt& receipt, os::Deadline deadline, WaitHooks* hooks = nullptr);
  // acknowledge_open(last) and claim() in one, which saves a fence: the lock that claim() takes is one. `last` is
  // acknowledged whether a message comes or not.
  Status claim_next(const Receipt& last, Incoming& into, Receipt& receipt, os::Deadline deadline,
                    WaitHooks* hooks = nullptr);
  // claim() of several: waits for a message, then takes those that are there under one hold of the lock, at most one for
  // each receipt and not always all. The batch has plain messages that were never delivered; where it is empty, `single`
  // has the one that `count` says. Each is claimed by itself, so a death gives back what it had taken. Errors as of
  // claim(), with nothing taken.
  Status claim_many(Batch& batch, Incoming& single, std::span<Receipt> receipts, std::size_t& count,
                    os::Deadline deadline, WaitHooks* hooks = nullptr);
  // Each ends a claim. Once acknowledge() has returned ok, the message never comes back. kBrokenByFork: another process
  // made the claim. kInvalid: it was ended already. kStalled: it is acknowledged, but what it holds stays until this
  // process ends.
  Status acknowledge(const Receipt& receipt);
  // The same for a claim of which the caller knows that it is this process's and was not ended.
  Status acknowledge_open(const Receipt& receipt);
  // Several of them, which tells those who wait once.
  Status acknowledge_open(std::span<const Receipt> receipts);
  Status give_back(const Receipt& receipt);
  // Did this process make the claim? check_mine() says so in words: kBrokenByFork.
  bool is_mine(std::uint64_t state) const noexcept {
    const std::uint64_t holder = domain::Domain::kSelfBit | (state & ReceiptState::kHolderBits);
    return holder == table_.domain().self_word().load(std::memory_order_relaxed);
  }
  Status check_mine(const Receipt& receipt) const { return is_mine(receipt.state) ? Status() : not_mine(); }
  bool redelivers() const noexcept { return static_cast<bool>(receipts_); }
  // Messages that are claimed, or came back and are not claimed again yet.
  std::uint32_t unacknowledged() const noexcept { return receipts_ ? receipts_.count_in_use() : 0; }
  // Messages that failed too often and had no dead-letter queue to go to.
  std::uint64_t dropped() const noexcept {
    return receipts_ ? receipts_.header().dropped.load(std::memory_order_acquire) : 0;
  }

  // After the death of a getter: was the message of its claim taken, by it or, if it died before, by another
  // getter?
  bool claim_taken(const Claim& claim) const noexcept;

  // Waits until a get would find a message (somebody else may take it first). Wakes another waiter in turn,
  // since the wake-up may have been meant for one that takes the message.
  Status wait_readable(os::Deadline deadline, WaitHooks* hooks = nullptr);
  // Waits until there are `least` messages, or `news` is no longer `seen`; whoever changes `news` notifies
  // items(). For a channel with one getter only.
  Status wait_messages(std::uint32_t least, const std::atomic<std::uint32_t>& news, std::uint32_t seen,
                       os::Deadline deadline, WaitHooks* hooks = nullptr);

  // How many messages were ever taken (mod 2^30), and waiting until that is no longer `seen`: for a putter
  // that found no room. Wakes another waiter in turn, as wait_readable.
  std::uint32_t taken() const noexcept;
  Status wait_taken(std::uint32_t seen, os::Deadline deadline, WaitHooks* hooks = nullptr);

  // Waits until at most `most` messages are left, or `news` is no longer `seen`; whoever changes `news`
  // notifies space(). For a putter that keeps messages ready in an unbounded channel and need not be woken
  // for each one that is taken.
  Status wait_drained(std::uint32_t most, const std::atomic<std::uint32_t>& news, std::uint32_t seen,
                      os::Deadline deadline, WaitHooks* hooks = nullptr);

  std::uint32_t size() const noexcept;
  bool empty() const noexcept { return size() == 0; }
  bool full() const noexcept;
  std::uint32_t capacity() const noexcept;
  std::uint64_t byte_capacity() const noexcept;
  std::uint64_t flags() const noexcept;
  ChannelId id() const noexcept { return id_; }
  sync::Label& label() const noexcept { return row_.label; }
  arena::Arena& arena() const noexcept { return table_.arena(); }
  domain::Domain& domain() const noexcept { return table_.domain(); }
  // The memory node of the process that will read what this one puts, where it is another than this thread's and known: one
  // other process alone has the channel, and something was taken from it. Else kAnyNode.
  int reader_node() const noexcept {
    const arena::PageNodes& page_nodes = table_.arena().page_nodes();
    return page_nodes.active() ? page_nodes.elsewhere(reader_cpu()) : arena::kAnyNode;
  }
  // The same for a message of so many bytes; kAnyNode for small ones.
  int reader_node(std::size_t bytes) const noexcept {
    return bytes < arena::PageNodes::kFrom ? arena::kAnyNode : reader_node();
  }

  // Copies bytes into a block that is to be put here. Past the caches, too, where so few messages are in transit that the
  // block is one of those that the reader has just read.
  void copy_in(void* dst, const void* src, std::size_t bytes) const noexcept;

  // Notified with every message: for waiting on several channels (node/wait_any.h).
  sync::EventCount& items() noexcept { return row_.items; }
  // Notified when messages were taken.
  sync::EventCount& space() noexcept { return row_.space; }

  // Descriptors of this process, for event loops (watch/descriptor.h). Readable while there is a message or the end; and,
  // after a put of this process that found no room, once something was taken or the channel was closed.
  Result<int> message_descriptor(watch::Watches& watches);
  Result<int> room_descriptor(watch::Watches& watches);

  // From now on put() is kClosed, and get() is once the channel is empty, claim() once nothing is claimed, too. Wakes all waiters.
  // Idempotent. kStalled.
  Status close();
  bool closed() const noexcept {
    return (row_.tail_state.load(std::memory_order_acquire) & kTailClosed) != 0;
  }
  // Has it been closed, and everything been taken, and acknowledged where that is asked for? No message comes after
  // that.
  bool at_end() const noexcept {
    return closed() && empty() && (!receipts_ || receipts_.count_in_use() == 0);
  }

  // Of a pool's tasks: counted for those who look at the domain.
  void count_death() noexcept { row_.deaths.fetch_add(1, std::memory_order_relaxed); }
  void count_sent_again() noexcept { row_.sent_again.fetch_add(1, std::memory_order_relaxed); }

  // Makes everybody who waits in one of these calls look at its hooks.
  void wake_all() noexcept;

  // Where this thread waits for a message, and how long without sleeping.
  domain::WaitPoint for_message() const noexcept;

  // For JoinableQueue. False: no message was left unfinished. With receipts nothing but acknowledge() finishes one.
  bool task_done() noexcept;
  std::uint32_t unfinished() const noexcept;
  Status join(os::Deadline deadline, WaitHooks* hooks = nullptr);

 private:
  friend class PipeEnd;
  // Where the one other process that has the channel last took something; -1: unknown.
  int reader_cpu() const noexcept;
  Channel(Channels& channels, ChannelId id, ChannelRow& row, arena::LeasePtr hold)
      : table_(channels),
        id_(id),
        row_(row),
        hold_(std::move(hold)),
        receipts_(hold_ ? channels.receipts(id.index) : Receipts()) {}

  struct Plan;
  Status plan_put(const Outgoing& message, Plan& plan);
  // What can be put now: so many messages, of so many bytes; or the first one whatever its length.
  struct Room {
    std::uint64_t messages = 0;
    std::uint64_t bytes = ~std::uint64_t{0};
    bool whole = false;
    bool takes(std::uint64_t weight) const noexcept { return messages != 0 && (whole || weight <= bytes); }
    // How many of `most` messages of so many bytes, behind others of `weight` in all.
    std::size_t fitting(std::uint64_t weight, std::size_t each, std::size_t most) const noexcept;
  };
  // It may be less than there is where `wanted` messages fit.
  Room look_for_room(Position tail, std::uint64_t wanted, bool locked) const noexcept;
  bool has_room(Position tail, std::uint64_t weight, bool locked = false) const noexcept;
  trace::Tracer& tracer() const noexcept { return table_.domain().tracer(); }
  // `traced`: what Tracer::begin() returned.
  void trace_messages(trace::EventKind kind, std::int64_t traced, std::uint32_t first, std::uint64_t bytes,
                      std::size_t count = 1) const noexcept {
    if (trace::kCompiledIn && traced != 0) [[unlikely]]
      tracer().span(kind, traced, trace::row_and_sequence(id_.index, first),
                    trace::bytes_and_count(bytes, count));
  }
  // `done` stays false when there was no room (no message), which is no error.
  [[gnu::hot]] Status try_put(Plan& plan, bool* done);
  Status start_chunk(Position& start, Chunk*& chunk);
  // batch.cpp. A source has the messages.
  template <class Source>
  Status put_each(const Source& source, std::size_t& count, os::Deadline deadline, WaitHooks* hooks);
  template <class Source>
  std::size_t put_plain(const Source& source, std::size_t first, std::uint64_t& put_bytes);
  template <class Source>
  std::size_t write_plain(const Source& source, std::size_t first, std::size_t most, Chunk& chunk,
                          Position& place);
  template <class Source>
  Position write_plain_header(const Source& source, std::size_t first, std::size_t count, Chunk& chunk,
                              Position place);
  void commit_batch(Position tail, Position behind, std::uint64_t weight, std::uint64_t last) noexcept;
  template <class TakePlain>
  Status get_each(Incoming& single, std::size_t& count, os::Deadline deadline, WaitHooks* hooks,
                  TakePlain&& take_plain);
  template <class Take>
  std::size_t take_plain(std::size_t most, Take&& take);
  struct Walk {
    Position head;  // behind the messages that were taken,
    Position last;  // at the last of them
    std::uint64_t last_weight = 0;
    std::uint64_t weight = 0;
    std::size_t count = 0;
  };
  template <class Take>
  static void walk_plain(Walk& walk, const Chunk& chunk, std::size_t limit, std::uint64_t end, Take&& take);
  const Chunk* first_chunk(Position& head, Position tail);
  std::size_t claim_plain(Batch& batch, std::span<Receipt> receipts);
  void commit_claim(const Receipt& receipt, Position head, const Walk& walk) noexcept;
  void write_record(Plan& plan, Position tail, std::byte* out);
  void commit_put(const Plan& plan, Position tail, Position behind) noexcept;
  // Tail lock held. The bytes that were ever sent until `tail`, which is the row's. This process knows them of its own last
  // put and spares itself the cache line; but not where bytes are bounded, as 2^30 messages later it may be wrong.
  std::uint64_t bytes_at(Position tail) const noexcept {
    const bool known = own_tail_ == tail.pack() && row_.byte_capacity.load(std::memory_order_relaxed) == 0;
    return known ? own_bytes_ : row_.tail_bytes[tail.sequence() & 1].load(std::memory_order_relaxed);
  }
  // Behind a commit: for the next putter, and for the next put of this process.
  void note_put(Position behind, std::uint64_t bytes) noexcept {
    row_.put_tail.store(behind.pack(), std::memory_order_relaxed);
    own_tail_ = behind.pack();
    own_bytes_ = bytes;
  }
  template <class Take>
  Status take_oldest(RecordHeader& header, bool* done, Take&& take);
  [[gnu::hot]] Status try_get(Incoming& into, bool* done, bool traced, Claim* claim = nullptr,
                              TakeMark* mark = nullptr);
  // `exhausted`: a message that is not to be delivered again.
  Status try_claim(Incoming& into, Receipt& receipt, bool* exhausted, bool* done, bool traced);
  Status claim_record(Incoming& into, const Receipt& receipt, const RecordHeader& header, Position head,
                      const std::byte* in);
  Status claim_returned(Incoming& into, Receipt& receipt, bool* exhausted, bool* done);
  Status pass_handles(const ReceiptRow& row, arena::Holder message, arena::Holder to);
  Status open_contents(Incoming& into, const Receipt& receipt);
  Status to_dead_letters(Incoming& into, const Receipt& receipt, os::Deadline deadline, WaitHooks* hooks);
  static Status not_mine();
  Status claim_after(bool ended, Incoming& into, Receipt& receipt, os::Deadline deadline, WaitHooks* hooks);
  // Is it this process's, and not ended yet? And why not.
  bool is_open(const Receipt& receipt) const noexcept;
  Status not_open(const Receipt& receipt) const;
  Status end_laden(const Receipt& receipt);
  bool can_claim() const noexcept;
  void tell_room(int messages = 1) noexcept;
  void tell_ended() noexcept;
  // As try_get; tells those who wait for room.
  [[gnu::hot]] Status take(Incoming& into, bool* done, bool traced, Claim* claim = nullptr,
                           TakeMark* mark = nullptr);
  // Are messages traced? A getter asks before its first look and while it waits, and not when its message has come: the
  // answer lies in another page, and the message's sender waits for what is done then.
  bool are_traced() const noexcept { return tracer().on(trace::Category::kMessages); }
  // Whether it rang, as it does where it knows of no reader that is awake.
  bool ring(int bell, std::uint32_t sequence) noexcept;
  // Prefetches the first record, so that it arrives while the lock is being taken.
  void fetch_first() const noexcept;
  // `traced`: whether messages were when it ended.
  [[gnu::hot]] Status wait_for_message(os::Deadline deadline, WaitHooks* hooks, bool* traced = nullptr);
  // For a getter that found none: kClosed at the end.
  [[gnu::hot]] Status wait_for_next(os::Deadline deadline, WaitHooks* hooks, bool* traced = nullptr);
  // Likewise for room.
  domain::WaitPoint for_room() const noexcept;
  std::uint64_t last_weight() const noexcept;
  static Status unrepaired();
  // Under the tail's lock: repairs what a dead putter left. kStalled.
  Status check_tail();
  // Head lock held. Is there a message by now?
  bool look_at_tail(Position head, Position& tail) noexcept {
    tail = Position::unpack(row_.tail.load(std::memory_order_acquire));
    if (head.sequence() == tail.sequence()) return false;
    row_.seen_tail.store(tail.pack(), std::memory_order_relaxed);
    return true;
  }
  Status next_chunk(Position& head);
  static void copy_record(Incoming& into, const RecordHeader& header, const std::byte* in);
  void commit_get(Position head, const RecordHeader& header, Claim* claim, TakeMark* mark) noexcept;
  Status lose_record(const RecordHeader& header, Position head, Status why, bool* done);
  Status lose_all(Position head, const Status& why, bool* done);
  Status take_handles(Incoming& into, const RecordHeader& header, std::uint32_t sequence, SpillHeader& spill);
  Status take_spill(Incoming& into, arena::Holder message, SpillHeader& spill);
  void make_leases(Incoming& into, const RecordHeader& header, const SpillHeader& spill, bool complete);

  Channels& table_;
  ChannelId id_;
  ChannelRow& row_;
  arena::LeasePtr hold_;
  Receipts receipts_;
  // With the tail's lock: what the last put of this process stored, and the bytes that were sent until then.
  std::uint64_t own_tail_ = ~std::uint64_t{0};
  std::uint64_t own_bytes_ = 0;
  std::uint32_t next_receipt_ = 0;  // where this process looks first; with the head's lock
  // Of this process, for messages: the second where the last put's reader was awake (answers.h).
  mutable std::array<domain::SpinPolicy, 2> spin_policies_;
  mutable domain::SpinPolicy room_spin_policy_;  // and for room
  GatherPolicy gather_policy_;                   // for messages
  watch::DescriptorCell message_descriptor_;
  watch::DescriptorCell room_descriptor_;
  Answers answers_;  // of the putters
  std::atomic<std::uint32_t> taken_when_full_{
      kSequenceMask};  // what taken() was when a put last found no room
};

}  // namespace forklift::inline abi_0_1::channel
