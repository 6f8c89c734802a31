// Claiming several messages under one hold of the head's lock.
#include <algorithm>
#include <cstring>
#include <span>

#include "channel/batch.h"
#include "channel/plain.h"
#include "channel/waiting.h"

namespace forklift::inline abi_0_1::channel {

// The order of the stores is that of claim_record(), from whose state recovery goes on.
void Channel::commit_claim(const Receipt& receipt, Position head, const Walk& walk) noexcept {
  ReceiptsHeader& shared = receipts_.header();
  const auto place = static_cast<std::uint32_t>(receipt.place);
  if (place >= receipts_.used()) shared.used.store(std::uint64_t{place} + 1, std::memory_order_release);
  sync::crash_fence();
  shared.in_flight.store(std::uint64_t{place} + 1, std::memory_order_release);
  sync::crash_fence();
  if (row_.byte_capacity.load(std::memory_order_relaxed) != 0) {
    row_.head_bytes[walk.head.sequence() & 1].store(
        row_.head_bytes[head.sequence() & 1].load(std::memory_order_relaxed) + walk.last_weight,
        std::memory_order_relaxed);
  }
  sync::crash_fence();
  row_.head.store(walk.head.pack(), std::memory_order_release);
  sync::crash_fence();
  receipts_.row(place).state.store(receipt.state, std::memory_order_release);
  sync::crash_fence();
  shared.in_flight.store(0, std::memory_order_release);
  sync::crash_fence();
}

// Claims plain messages that were never delivered, each by itself. 0: there is none, or what comes first is not plain, or
// came back, or no receipt is free, or the head needs what claim() does about it.
std::size_t Channel::claim_plain(Batch& batch, std::span<Receipt> receipts) {
  const std::int64_t traced = tracer().begin(trace::Category::kMessages);
  const sync::LockGuard guard(row_.head_mutex, [this] { table_.repair_head(id_.index); });
  if (!guard.ok() || row_.head_broken.load(std::memory_order_relaxed) != 0 ||
      receipts_.header().returned.load(std::memory_order_acquire) != 0)
    return 0;
  Position head = Position::unpack(row_.head.load(std::memory_order_relaxed));
  Position tail = head;
  if (!look_at_tail(head, tail)) return 0;
  const Chunk* chunk = first_chunk(head, tail);
  if (chunk == nullptr) return 0;
  const std::uint64_t end =
      head.chunk() == tail.chunk() ? kNoEnd : chunk->end.load(std::memory_order_relaxed);
  const std::uint32_t there = (tail.sequence() - head.sequence()) & kSequenceMask;
  const std::size_t most = std::min<std::size_t>({receipts.size(), there, kMostTogether});
  note_cpu(row_.get_cpu);
  Walk walk{head, head};
  std::uint32_t place = next_receipt_;
  while (walk.count < most && (place = receipts_.find_free(place)) != Receipts::kNone) {
    const Position from = walk.head;
    const std::size_t before = walk.count;
    walk_plain(walk, *chunk, before + 1, end,
               [&](const RecordHeader& header, const std::byte* in, std::size_t) {
                 if (header.bytes > kReceiptBody) return false;
                 ReceiptRow& row = receipts_.row(place);
                 row.header = header;
                 std::memcpy(row.body, in, std::max<std::size_t>(header.bytes, sizeof(std::uint64_t)));
                 batch.add(header, in);
                 return true;
               });
    if (walk.count == before) break;
    receipts[before] = {place, ReceiptState::claimed(domain().self(), 1).pack()};
    commit_claim(receipts[before], from, walk);
    ++place;
  }
  if (walk.count == 0) return 0;
  next_receipt_ = static_cast<std::uint32_t>(receipts.front().place);
  trace_messages(trace::EventKind::kGet, traced, head.sequence(), walk.weight, walk.count);
  return walk.count;
}

Status Channel::claim_many(Batch& batch, Incoming& single, std::span<Receipt> receipts, std::size_t& count,
                           os::Deadline deadline, WaitHooks* hooks) {
  batch.clear();
  batch.make_room();
  single.clear();
  count = 0;
  if (table_.domain().attached() && receipts_ && size() != 0) count = claim_plain(batch, receipts);
  if (count != 0) {
    tell_room(static_cast<int>(count));
    message_descriptor_.settle();
    return {};
  }
  Status got = claim(single, receipts.front(), deadline, hooks);
  if (got) count = 1;
  return got;
}

}  // namespace forklift::inline abi_0_1::channel
