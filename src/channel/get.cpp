// Taking a message: it is copied out and checked, one store commits, then its leases become this process's.
#include <algorithm>
#include <cstring>
#include <string>

#include "channel/channel.h"
#include "channel/record.h"
#include "channel/waiting.h"
#include "sync/past_caches.h"

namespace forklift::inline abi_0_1::channel {

namespace {

Status bad_record(const char* why, Position head) {
  return {Code::kCorrupt, std::string("a record is wrong: ") + why + " (chunk " +
                              std::to_string(head.chunk()) + ", unit " + std::to_string(head.unit()) +
                              ", sequence " + std::to_string(head.sequence()) + ")"};
}

Status bad_receipt(const char* why, std::uint32_t place) {
  return {Code::kCorrupt, std::string("a message that came back is wrong: ") + why + " (receipt " +
                              std::to_string(place) + ")"};
}

// Prefetches so many lines of a record.
void fetch_ahead(const Chunk& chunk, std::uint32_t unit, std::uint32_t lines) {
  const std::uint32_t end = std::min(unit + lines, kChunkUnits);
  for (; unit < end; ++unit) sync::fetch_to_read(unit_address(chunk, unit));
}

// Of a record whose length is not known yet.
constexpr std::uint32_t kFirstLines = 2;
// Of one that is probably as long as the record before. Where it is longer, the processor itself fetches what is copied.
constexpr std::uint32_t kMostLines = 8;

// `framed`: its sequence and length are good, so it is known where the next record begins. Makes the header of a packed
// record that of its message, which lies `offset` behind it.
[[gnu::always_inline]] inline Status check_record(RecordHeader& header, Position head, bool* framed,
                                                  std::size_t* offset) {
  if (header.spilled == kPacked && pick(header, head, *offset)) return {};
  if (header.sequence != head.sequence()) return bad_record("another sequence", head);
  if (header.units == 0 || header.units > kChunkUnits - head.unit()) return bad_record("its length", head);
  *framed = true;
  const std::size_t handle_bytes = header.handles * sizeof(arena::Handle);
  if (sizeof header + handle_bytes + header.bytes > std::size_t{header.units} * kUnitBytes)
    return bad_record("its parts exceed it", head);
  if (header.spilled > 1 || (header.spilled == 1 && header.handles != 1))
    return bad_record("its spill", head);
  return {};
}

// Records the claim before the head commits: if this process dies in between, recovery can tell who took the
// message.
void write_down(Claim* claim, const RecordHeader& header) noexcept {
  if (claim == nullptr) return;
  claim->tag.store(header.tag, std::memory_order_relaxed);
  sync::crash_fence();
  claim->place.store(Claim::kClaiming | header.sequence, std::memory_order_release);
  sync::crash_fence();
}

}  // namespace

// Skips a record that cannot be used. Head lock held, as below.
Status Channel::lose_record(const RecordHeader& header, Position head, Status why, bool* done) {
  const std::uint32_t next = (head.sequence() + 1) & kSequenceMask;
  row_.head_bytes[next & 1].store(
      row_.head_bytes[head.sequence() & 1].load(std::memory_order_relaxed) + header.weight,
      std::memory_order_relaxed);
  sync::crash_fence();
  row_.head.store(head.past(header.units).pack(), std::memory_order_release);
  sync::crash_fence();
  *done = true;
  table_.arena().ledger().release_held_by(arena::Holder::message(id_.index, head.sequence()));
  return why;
}

// It is unknown where the next record begins, so all messages that are in the channel now are given up. If
// this process dies on the way, the head is still wrong, and the next getter begins again.
Status Channel::lose_all(Position head, const Status& why, bool* done) {
  std::uint64_t word = row_.tail.load(std::memory_order_acquire);
  std::uint64_t bytes = 0;
  for (std::uint64_t seen = 0; seen != word;) {
    seen = word;
    bytes = row_.tail_bytes[Position::unpack(word).sequence() & 1].load(std::memory_order_acquire);
    word = row_.tail.load(std::memory_order_acquire);
  }
  const Position tail = Position::unpack(word);
  const std::uint32_t lost = (tail.sequence() - head.sequence()) & kSequenceMask;
  if (!table_.arena().ledger().release_messages(id_.index, head.sequence(), lost)) return unrepaired();
  while (head.chunk() != tail.chunk() && table_.chunks().chunk(head.chunk()) != nullptr) {
    if (Status status = next_chunk(head); !status) {
      if (status.code() != Code::kCorrupt) return status;
      break;  // the chain is broken as well: its other chunks are lost until the domain ends
    }
  }
  row_.head_bytes[tail.sequence() & 1].store(bytes, std::memory_order_relaxed);
  row_.seen_tail.store(word, std::memory_order_relaxed);
  sync::crash_fence();
  row_.head.store(word, std::memory_order_release);
  *done = true;
  return {Code::kCorrupt, std::string(why.what()) + "; it and what was behind it is lost, " +
                              std::to_string(lost) + (lost == 1 ? " message" : " messages")};
}

// All records of head's chunk are taken and the chain goes on: the chunk leaves it.
Status Channel::next_chunk(Position& head) {
  ChunkPool& pool = table_.chunks();
  const Chunk* old = pool.chunk(head.chunk());
  const std::uint64_t next = old->next.load(std::memory_order_relaxed);
  if (pool.chunk(next) == nullptr) return bad_record("the chain ends before the tail", head);
  if (row_.dying.load(std::memory_order_relaxed) != 0) pool.give_from(row_.dying);
  if (row_.dying.load(std::memory_order_relaxed) != 0)
    return {Code::kStalled, "the chunk pool's lock cannot be had"};
  row_.dying.store(head.chunk(), std::memory_order_relaxed);
  sync::crash_fence();
  head = Position(next, 1, head.sequence());
  row_.head.store(head.pack(), std::memory_order_release);
  sync::crash_fence();
  pool.give_from(row_.dying);
  return {};
}

void Channel::fetch_first() const noexcept {
  const Position head = Position::unpack(row_.head.load(std::memory_order_relaxed));
  const Chunk* chunk = table_.chunks().chunk(head.chunk());
  if (chunk != nullptr && head.unit() != 0) fetch_ahead(*chunk, head.unit(), kFirstLines);
}

// Head lock held, as in all functions below but make_leases. `in`: behind the checked header.
[[gnu::always_inline]] inline void Channel::copy_record(Incoming& into, const RecordHeader& header,
                                                        const std::byte* in) {
  into.make_buffer();
  std::byte* bytes = header.bytes <= into.target_.size() ? into.target_.data() : into.buffer_.get();
  const std::size_t handle_bytes = header.handles * sizeof(arena::Handle);
  if (header.handles != into.handles_.size()) into.handles_.resize(header.handles);
  if (handle_bytes != 0) std::memcpy(into.handles_.data(), in, handle_bytes);
  if (header.bytes != 0) sync::copy_bytes(bytes, in + handle_bytes, header.bytes);
  into.codec_ = header.codec;
  into.tag_ = header.tag;
  into.bytes_ = {bytes, header.bytes};
}

[[gnu::always_inline]] inline void Channel::commit_get(Position head, const RecordHeader& header,
                                                       Claim* claim, TakeMark* mark) noexcept {
  const std::uint32_t next = (head.sequence() + 1) & kSequenceMask;
  if (row_.byte_capacity.load(std::memory_order_relaxed) != 0) {
    row_.head_bytes[next & 1].store(
        row_.head_bytes[head.sequence() & 1].load(std::memory_order_relaxed) + header.weight,
        std::memory_order_relaxed);
  }
  note_cpu(row_.get_cpu);
  write_down(claim, header);
  if (mark != nullptr) mark->mark(header.tag);
  sync::crash_fence();
  row_.head.store(head.past(header.units).pack(), std::memory_order_release);
  sync::crash_fence();
  if (claim != nullptr) claim->place.store(Claim::kClaimed | head.sequence(), std::memory_order_release);
}

// Head lock held. Finds the oldest record and checks it; one that is wrong is lost, which `done` says. `take(head, header,
// in)` has what lies behind the header, and commits. Always inlined, with what it calls for each message: it is a get.
template <class Take>
[[gnu::always_inline]] inline Status Channel::take_oldest(RecordHeader& header, bool* done, Take&& take) {
  if (row_.head_broken.load(std::memory_order_relaxed) != 0 && !table_.repair_head(id_.index))
    return unrepaired();
  Position head = Position::unpack(row_.head.load(std::memory_order_relaxed));
  Position tail = Position::unpack(row_.seen_tail.load(std::memory_order_relaxed));
  if (head.sequence() == tail.sequence() && !look_at_tail(head, tail)) return {};
  // A putter may have set the first chunk of an empty channel since.
  if (head.chunk() == 0) head = Position::unpack(row_.head.load(std::memory_order_acquire));
  const Chunk* chunk = table_.chunks().chunk(head.chunk());
  if (chunk == nullptr) return lose_all(head, bad_record("no such chunk", head), done);
  if (head.chunk() != tail.chunk() && head.unit() == chunk->end.load(std::memory_order_relaxed)) {
    if (Status moved = next_chunk(head); !moved)
      return moved.code() == Code::kCorrupt ? lose_all(head, moved, done) : moved;
    chunk = table_.chunks().chunk(head.chunk());
  }
  if (head.unit() == 0 || head.unit() >= kChunkUnits)
    return lose_all(head, bad_record("its place is outside the chunk", head), done);

  const std::byte* in = unit_address(*chunk, head.unit());
  std::memcpy(&header, in, sizeof header);
  bool framed = false;
  std::size_t offset = 0;
  if (Status bad = check_record(header, head, &framed, &offset); !bad)
    return framed ? lose_record(header, head, std::move(bad), done) : lose_all(head, bad, done);
  take(head, in + sizeof header + offset);
  *done = true;
  // The next record is there already, written by another processor: fetching it is half the price of the
  // next get. Not while it is still being written, which would only take the line away from its writer.
  if (((head.sequence() + 1) & kSequenceMask) != tail.sequence())
    fetch_ahead(*chunk, head.unit() + header.units, std::clamp(header.units, kFirstLines, kMostLines));
  return {};
}

Status Channel::try_get(Incoming& into, bool* done, bool traced, Claim* claim, TakeMark* mark) {
  const std::int64_t began = traced ? os::now_ns() : 0;
  RecordHeader header{};
  SpillHeader spill{};
  Status status;
  {
    sync::LockGuard guard(row_.head_mutex, [this] { table_.repair_head(id_.index); });
    if (!guard.ok()) return guard.status();
    Status found = take_oldest(header, done, [&](Position head, const std::byte* in) {
      copy_record(into, header, in);
      commit_get(head, header, claim, mark);
    });
    if (!found || !*done) return found;
    if (header.handles != 0) status = take_handles(into, header, header.sequence, spill);
  }
  make_leases(into, header, spill, status.ok());
  trace_messages(trace::EventKind::kGet, began, header.sequence, header.weight);
  return status;
}

Status Channel::try_claim(Incoming& into, Receipt& receipt, bool* exhausted, bool* done, bool traced) {
  const std::int64_t began = traced ? os::now_ns() : 0;
  RecordHeader header{};
  sync::LockGuard guard(row_.head_mutex, [this] { table_.repair_head(id_.index); });
  if (!guard.ok()) return guard.status();
  // Mended before a look at what came back: a message that is in flight may come back by that.
  if (row_.head_broken.load(std::memory_order_relaxed) != 0 && !table_.repair_head(id_.index))
    return unrepaired();
  if (receipts_.header().returned.load(std::memory_order_acquire) != 0) [[unlikely]] {
    if (Status came = claim_returned(into, receipt, exhausted, done); !came || *done) return came;
  }
  const std::uint32_t place = receipts_.find_free(next_receipt_);
  if (place == Receipts::kNone) return {};
  Status status;
  Status found = take_oldest(header, done, [&](Position head, const std::byte* in) {
    next_receipt_ = place;
    receipt = {place, ReceiptState::claimed(domain().self(), 1).pack()};
    status = claim_record(into, receipt, header, head, in);
  });
  if (*done) trace_messages(trace::EventKind::kGet, began, header.sequence, header.weight);
  return found ? status : found;
}

// Head lock held. The order of the stores: the row, `in_flight`, the head (which commits), the leases, the row's state,
// `in_flight` again. Before the head's store a death leaves the message in the channel, after it in the row.
[[gnu::always_inline]] inline Status Channel::claim_record(Incoming& into, const Receipt& receipt,
                                                           const RecordHeader& header, Position head,
                                                           const std::byte* in) {
  const std::size_t body = header.handles * sizeof(arena::Handle) + header.bytes;
  if (body > kReceiptBody) [[unlikely]] {
    bool lost = false;
    return lose_record(header, head, bad_record("it is longer than a receipt", head), &lost);
  }
  ReceiptsHeader& shared = receipts_.header();
  const auto place = static_cast<std::uint32_t>(receipt.place);
  ReceiptRow& row = receipts_.row(place);
  row.header = header;
  if (body <= sizeof(std::uint64_t)) {
    std::memcpy(row.body, in, sizeof(std::uint64_t));  // a record has whole words
  } else {
    std::memcpy(row.body, in, body);
  }
  if (place >= receipts_.used()) shared.used.store(std::uint64_t{place} + 1, std::memory_order_release);
  sync::crash_fence();
  shared.in_flight.store(std::uint64_t{place} + 1, std::memory_order_release);
  sync::crash_fence();
  copy_record(into, header, in);
  commit_get(head, header, nullptr, nullptr);
  if (header.handles != 0) {
    Status passed =
        pass_handles(row, arena::Holder::message(id_.index, header.sequence), receipts_.holder(place));
    if (!passed) {
      shared.in_flight.store(0, std::memory_order_release);
      return passed;
    }
  }
  row.state.store(receipt.state, std::memory_order_release);
  sync::crash_fence();
  shared.in_flight.store(0, std::memory_order_release);
  return {};
}

// Head committed: the leases of the message become this process's. Leaves in `handles_` what was taken, in
// `spill` what was checked. kCorrupt: not all were what the message should hold.
Status Channel::take_handles(Incoming& into, const RecordHeader& header, std::uint32_t sequence,
                             SpillHeader& spill) {
  arena::Ledger& ledger = table_.arena().ledger();
  const arena::Holder message = arena::Holder::message(id_.index, sequence);
  std::size_t taken = 0;
  Status status;
  if (header.spilled) {
    status = take_spill(into, message, spill);
    if (status) taken = 1;
  }
  while (status && taken < into.handles_.size()) {
    status = ledger.check(into.handles_[taken], message);
    if (status) ledger.take(into.handles_[taken++]);
  }
  into.handles_.resize(taken);
  // What was not taken belongs to a message that is gone (C2).
  if (!status) ledger.release_held_by(message);
  return status;
}

// The block with the message's contents; the handles in it follow its own in `handles_`.
Status Channel::take_spill(Incoming& into, arena::Holder message, SpillHeader& spill) {
  arena::Ledger& ledger = table_.arena().ledger();
  const arena::Handle handle = into.handles_.front();
  if (Status status = ledger.check(handle, message); !status) return status;
  if (handle.segment != arena::kDataSegment || handle.length < sizeof spill)
    return {Code::kCorrupt, "a spilled message is shorter than its header"};
  const std::byte* in = table_.arena().shared_data(handle);
  std::memcpy(&spill, in, sizeof spill);
  const std::uint64_t handle_bytes = std::uint64_t{spill.handles} * sizeof(arena::Handle);
  if (handle_bytes > handle.length - sizeof spill ||
      spill.bytes > handle.length - sizeof spill - handle_bytes)
    return {Code::kCorrupt, "a spilled message exceeds its block"};
  ledger.take(handle);
  into.handles_.resize(1 + std::size_t{spill.handles});
  if (handle_bytes != 0) std::memcpy(into.handles_.data() + 1, in + sizeof spill, handle_bytes);
  return {};
}

// Lease objects for what was taken. When not all was, making and dropping them gives the rows back.
inline void Channel::make_leases(Incoming& into, const RecordHeader& header, const SpillHeader& spill,
                                 bool complete) {
  for (const arena::Handle& handle : into.handles_)
    into.leases_.push_back(table_.arena().materialise(handle));
  if (!complete) return into.clear();
  if (!header.spilled) return;
  into.spill_ = std::move(into.leases_.front());
  into.leases_.erase(into.leases_.begin());
  into.bytes_ = {into.spill_->data() + sizeof spill + spill.handles * sizeof(arena::Handle), spill.bytes};
}

// Head lock held, as below. One store of the row's state takes the message, if there is one.
Status Channel::claim_returned(Incoming& into, Receipt& receipt, bool* exhausted, bool* done) {
  const std::uint32_t place = receipts_.find_returned(taken());
  if (place == Receipts::kNone) return {};
  ReceiptRow& row = receipts_.row(place);
  const std::uint32_t tries = ReceiptState::unpack(row.state.load(std::memory_order_acquire)).tries;
  const std::uint64_t limit = receipts_.header().tries_limit.load(std::memory_order_relaxed);
  *exhausted = limit != 0 && tries >= limit;
  const RecordHeader header = row.header;
  const ReceiptState claimed = ReceiptState::claimed(domain().self(), *exhausted ? tries : tries + 1);
  receipt = {place, claimed.pack()};
  row.state.store(receipt.state, std::memory_order_release);
  *done = true;
  if (header.spilled > 1 || (header.spilled == 1 && header.handles != 1) ||
      header.handles * sizeof(arena::Handle) + header.bytes > kReceiptBody) {
    (void)end_laden(receipt);
    return bad_receipt("its header", place);
  }
  copy_record(into, header, row.body);
  return {};
}

}  // namespace forklift::inline abi_0_1::channel
