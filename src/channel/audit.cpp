// The audit of channels and chunks: C1..C3 of channel/tables.h.
#include <cstring>
#include <string>

#include "channel/channel.h"
#include "channel/record.h"

namespace forklift::inline abi_0_1::channel {

std::vector<std::string> Channels::audit() {
  std::vector<std::string> wrong;
  const std::uint64_t used_chunks = chunks_.state().used.load(std::memory_order_acquire);
  std::vector<std::uint8_t> seen(used_chunks + 1, 0);
  std::uint64_t committed_chunks = used_chunks;
  {
    const sync::LockGuard guard = chunks_.lock();
    if (!guard.ok()) wrong.emplace_back("C3: the chunk pool's lock cannot be had");
    std::uint64_t warm = 0;
    for (std::uint64_t at = chunks_.state().warm.load(); chunks_.chunk(at) && warm <= used_chunks; ++warm) {
      ++seen[at];
      at = chunks_.chunk(at)->next.load();
    }
    if (warm != chunks_.state().warm_count.load())
      wrong.emplace_back("C3: the pool's count of warm chunks is wrong");
    for (std::uint64_t at = chunks_.state().cold.load(); chunks_.chunk(at) && committed_chunks > 0;
         --committed_chunks) {
      ++seen[at];
      at = chunks_.chunk(at)->next.load();
    }
  }
  if (arena_.chunk_bytes() != committed_chunks * kChunkBytes) {
    wrong.push_back("C3: " + std::to_string(arena_.chunk_bytes()) + " chunk bytes booked, " +
                    std::to_string(committed_chunks) + " chunks have pages");
  }
  const std::uint64_t used = rows_.used();
  for (std::uint32_t index = 0; index < used; ++index) audit_channel(index, seen, wrong);
  for (std::uint64_t number = 1; number <= used_chunks; ++number) {
    if (seen[number] != 1)
      wrong.push_back("C3: chunk " + std::to_string(number) + " is in " + std::to_string(seen[number]) +
                      " places");
  }
  return wrong;
}

void Channels::audit_channel(std::uint32_t index, std::vector<std::uint8_t>& seen,
                             std::vector<std::string>& wrong) {
  ChannelRow& channel = rows_[index];
  const std::string name = "channel " + std::to_string(index) + ": ";
  const sync::LockGuard tail_guard(channel.tail_mutex, [&] { repair_tail(index); });
  const sync::LockGuard head_guard(channel.head_mutex, [&] { repair_head(index); });
  if (!tail_guard.ok() || !head_guard.ok()) {
    wrong.push_back(name + "its locks cannot be had");
    return;
  }
  for (const Word* cell : {&channel.spare, &channel.dying}) {
    if (chunks_.chunk(cell->load())) ++seen[cell->load()];
  }
  Position at = Position::unpack(channel.head.load());
  const Position tail = Position::unpack(channel.tail.load());
  std::uint32_t messages = 0;
  std::uint64_t weight = 0;
  if (at.chunk() != 0 && at.chunk() != channel.spare.load()) ++seen[at.chunk()];
  while (at.sequence() != tail.sequence()) {
    const Chunk* chunk = chunks_.chunk(at.chunk());
    if (chunk == nullptr) {
      wrong.push_back(name + "C1: its chain is broken");
      return;
    }
    if (at.chunk() != tail.chunk() && at.unit() == chunk->end.load()) {
      at = Position(chunk->next.load(), 1, at.sequence());
      if (chunks_.chunk(at.chunk())) ++seen[at.chunk()];
      continue;
    }
    RecordHeader header{};
    std::memcpy(&header, unit_address(*chunk, at.unit()), sizeof header);
    std::size_t offset = 0;
    const bool packed = header.spilled == kPacked;
    const bool good =
        packed ? pick(header, at, offset) : header.sequence == at.sequence() && header.units != 0;
    if (!good || at.unit() + header.units > kChunkUnits) {
      wrong.push_back(name + "C1: record " + std::to_string(at.sequence()) + " is wrong");
      return;
    }
    at = at.past(header.units);
    weight += header.weight;
    ++messages;
  }
  if (const std::uint64_t put_tail = channel.put_tail.load();
      put_tail != 0 && (put_tail != tail.pack() || channel.tail_state.load() != 0))
    wrong.push_back(name + "putters take another place for its tail");
  const std::uint64_t booked =
      channel.tail_bytes[tail.sequence() & 1].load() -
      channel.head_bytes[Position::unpack(channel.head.load()).sequence() & 1].load();
  if (channel.byte_capacity.load() != 0 && booked != weight)
    wrong.push_back(name + std::to_string(booked) + " bytes booked, " + std::to_string(weight) + " there");
  audit_receipts(index, Position::unpack(channel.head.load()), tail, wrong);
  if (channel.count.load() == 0 && (messages != 0 || tail.chunk() != 0))
    wrong.push_back(name + "nobody holds it, but it is not empty");
}

// C5..C7 of channel/receipts.h; both ends' locks are held.
void Channels::audit_receipts(std::uint32_t index, Position head, Position tail,
                              std::vector<std::string>& wrong) {
  const std::string name = "channel " + std::to_string(index) + ": ";
  if (rows_[index].count.load() == 0) return;
  const Receipts there = receipts(index);
  if (!there) {
    if (rows_[index].receipts.load() != 0) wrong.push_back(name + "C6: its receipts are not its own");
    return;
  }
  if (there.header().in_flight.load() != 0)
    wrong.push_back(name + "C5: a receipt is in flight, and no get is");
  bool any_returned = false;
  std::vector<bool> is_free(there.capacity(), true);
  for (std::uint32_t place = 0; place < there.used(); ++place) {
    const ReceiptState state = ReceiptState::unpack(there.row(place).state.load());
    is_free[place] = state.kind == ReceiptState::Kind::kFree;
    any_returned |= state.kind == ReceiptState::Kind::kReturned;
    const std::uint32_t behind = (there.row(place).header.sequence - head.sequence()) & kSequenceMask;
    if (!is_free[place] && behind < ((tail.sequence() - head.sequence()) & kSequenceMask))
      wrong.push_back(name + "C5: message " + std::to_string(there.row(place).header.sequence) +
                      " is there and in receipt " + std::to_string(place));
  }
  for (const std::uint32_t place : arena_.ledger().places_of(index)) {
    if (place >= there.capacity() || is_free[place])
      wrong.push_back(name + "C6: receipt " + std::to_string(place) + " is free and holds a lease");
  }
  if (any_returned && there.header().returned.load() == 0)
    wrong.push_back(name + "C7: a message came back, and the channel does not say so");
}

}  // namespace forklift::inline abi_0_1::channel
