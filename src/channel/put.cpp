// Putting a message: everything is prepared outside of the lock; inside, the record is written, the leases
// change hands, and one store commits.
#include <algorithm>
#include <cstring>

#include "channel/channel.h"
#include "channel/plan.h"
#include "channel/record.h"
#include "channel/waiting.h"
#include "sync/past_caches.h"

namespace forklift::inline abi_0_1::channel {

namespace {

// Half the sequence space: beyond it older and newer could not be told apart.
constexpr std::uint32_t kMostInTransit = 1U << (kSequenceBits - 1);

// The lines of a record, but of a long one only those that its reader needs first.
void offer_record(const Chunk& chunk, std::uint32_t unit, std::uint32_t units) noexcept {
  constexpr std::uint32_t kMost = 4;
  for (std::uint32_t i = 0; i < std::min(units, kMost); ++i) sync::offer_line(unit_address(chunk, unit + i));
}

}  // namespace

Status Channel::plan_put(const Outgoing& message, Plan& plan) {
  const std::size_t handle_bytes = message.leases.size() * sizeof(arena::Handle);
  // In a pipe an empty message counts as well: in the standard library each is preceded by its length, of 4
  // bytes.
  plan.weight = message.bytes.size() + (plan.bell >= 0 ? 4 : 0);
  if (!message.leases.empty()) {
    if (Status status = check_leases(message.leases, table_.arena()); !status) return status;
    for (const arena::LeasePtr& lease : message.leases) plan.weight += lease->size();
  }
  const std::size_t body = handle_bytes + message.bytes.size();
  if (body <= (receipts_ ? kReceiptBody : kInlineBytes)) {
    plan.units = units_for(sizeof(RecordHeader) + body);
    plan.bytes = message.bytes.size();
    plan.handles = message.leases.size();
    return {};
  }
  Result<arena::LeasePtr> spilled = spill(message, table_.arena(), this);
  if (!spilled) return spilled.status();
  plan.spill = *std::move(spilled);
  plan.units = units_for(sizeof(RecordHeader) + sizeof(arena::Handle));
  plan.handles = 1;
  plan.spilled = 1;
  return {};
}

// Reads the other end's state without its lock. That state may be outdated, but getters only add room, so the
// room that is seen is there.
Channel::Room Channel::look_for_room(Position tail, std::uint64_t wanted, bool locked) const noexcept {
  const std::uint64_t capacity = row_.capacity.load(std::memory_order_relaxed);
  const std::uint64_t byte_limit = row_.byte_capacity.load(std::memory_order_relaxed);
  const std::uint64_t limit =
      capacity != 0 ? std::min<std::uint64_t>(capacity, kMostInTransit) : kMostInTransit;
  const auto seen = static_cast<std::uint32_t>(row_.seen_head.load(std::memory_order_relaxed));
  const std::uint64_t most_there = (tail.sequence() - seen) & kSequenceMask;
  if (byte_limit == 0 && most_there + wanted <= limit) return {limit - most_there};

  for (;;) {
    const std::uint64_t head_word = row_.head.load(std::memory_order_acquire);
    const Position head = Position::unpack(head_word);
    // Only with the lock: a process that is stopped here would later store a head that is long outdated.
    if (locked) row_.seen_head.store(head.sequence(), std::memory_order_relaxed);
    const std::uint64_t in_transit = (tail.sequence() - head.sequence()) & kSequenceMask;
    if (in_transit >= limit) return {};
    if (byte_limit == 0) return {limit - in_transit};
    if (in_transit == 0) return {limit, byte_limit, true};
    const std::uint64_t left = row_.head_bytes[head.sequence() & 1].load(std::memory_order_acquire);
    if (row_.head.load(std::memory_order_acquire) != head_word) continue;
    const std::uint64_t bytes = row_.tail_bytes[tail.sequence() & 1].load(std::memory_order_relaxed) - left;
    if (bytes > byte_limit) return {};
    return {limit - in_transit, byte_limit - bytes};
  }
}

bool Channel::has_room(Position tail, std::uint64_t weight, bool locked) const noexcept {
  return look_for_room(tail, 1, locked).takes(weight);
}

Status Channel::try_put(Plan& plan, bool* done) {
  sync::LockGuard guard(row_.tail_mutex, [this] { table_.repair_tail(id_.index); });
  if (!guard.ok()) return guard.status();
  std::uint64_t word = row_.put_tail.load(std::memory_order_relaxed);
  if (word == 0) [[unlikely]] {
    if (Status usable = check_tail(); !usable) return usable;
    if (closed())
      return {Code::kClosed, sync::labelled("the queue", row_.label) + " is closed: nothing more can be put"};
    word = row_.tail.load(std::memory_order_relaxed);
  }
  const Position tail = Position::unpack(word);
  if (!has_room(tail, plan.weight, true)) return {};

  Chunk* chunk = table_.chunks().chunk(tail.chunk());
  Position start = tail;
  const bool fits = chunk != nullptr && tail.unit() + plan.units <= kChunkUnits;
  if (!fits) {
    if (Status status = start_chunk(start, chunk); !status) return status;
  }
  write_record(plan, tail, unit_address(*chunk, start.unit()));
  const Position behind = start.past(plan.units);
  commit_put(plan, tail, behind);
  if (!fits) row_.spare.store(0, std::memory_order_relaxed);
  *done = true;
  if (answers_.is_answer()) offer_record(*chunk, start.unit(), static_cast<std::uint32_t>(plan.units));
  // The next record's lines were last read by a getter.
  if (behind.unit() + 1 < kChunkUnits) {
    sync::fetch_to_write(unit_address(*chunk, behind.unit()));
    sync::fetch_to_write(unit_address(*chunk, behind.unit() + 1));
  }
  if (plan.bell >= 0) plan.rang = ring(plan.bell, tail.sequence());
  return {};
}

// Tail lock held, as below. Links a chunk behind the last one (none: the channel is empty) and moves both
// arguments to its first unit. Until the put commits, `spare` names the chunk.
Status Channel::start_chunk(Position& start, Chunk*& chunk) {
  ChunkPool& pool = table_.chunks();
  if (row_.spare.load(std::memory_order_relaxed) == 0) {
    if (Status status = pool.take_into(row_.spare); !status) return status;
  }
  const Position tail = start;
  start = Position(row_.spare.load(std::memory_order_relaxed), 1, tail.sequence());
  Chunk* fresh = pool.chunk(start.chunk());
  fresh->next.store(0, std::memory_order_relaxed);
  fresh->end.store(kNoEnd, std::memory_order_relaxed);
  if (chunk != nullptr) {
    chunk->end.store(tail.unit(), std::memory_order_relaxed);
    chunk->next.store(start.chunk(), std::memory_order_relaxed);
  } else {
    // Getters write the head of a channel that has messages only.
    row_.head.store(start.pack(), std::memory_order_relaxed);
  }
  chunk = fresh;
  return {};
}

// Header, handles, bytes. The leases become the message's, one store each.
inline void Channel::write_record(Plan& plan, Position tail, std::byte* out) {
  plan.sequence = tail.sequence();
  write_header(out, plan);
  out += sizeof(RecordHeader);
  const arena::Holder message = arena::Holder::message(id_.index, tail.sequence());
  if (plan.spill) {
    std::memcpy(out, &plan.spill->handle(), sizeof(arena::Handle));
    table_.arena().give(*plan.spill, message);
  } else {
    for (const arena::LeasePtr& lease : plan.message.leases) {
      std::memcpy(out, &lease->handle(), sizeof(arena::Handle));
      out += sizeof(arena::Handle);
    }
    if (!plan.message.bytes.empty())
      sync::copy_bytes(out, plan.message.bytes.data(), plan.message.bytes.size());
  }
  for (const arena::LeasePtr& lease : plan.message.leases) table_.arena().give(*lease, message);
}

inline void Channel::commit_put(const Plan& plan, Position tail, Position behind) noexcept {
  const std::uint32_t next = (tail.sequence() + 1) & kSequenceMask;
  const std::uint64_t bytes = bytes_at(tail) + plan.weight;
  row_.tail_bytes[next & 1].store(bytes, std::memory_order_relaxed);
  row_.put_cpu.store(static_cast<std::uint64_t>(os::current_cpu()) + 1, std::memory_order_relaxed);
  sync::crash_fence();
  row_.tail.store(behind.pack(), std::memory_order_release);
  sync::crash_fence();
  note_put(behind, bytes);
}

}  // namespace forklift::inline abi_0_1::channel
