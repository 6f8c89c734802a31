// What a channel that delivers at least once knows of its messages that were taken and not yet acknowledged.
//
//   Receipts receipts = channels.receipts(index);            // false: the channel delivers at most once
//   const std::uint32_t place = receipts.find_free(hint);    // with the head's lock, as find_returned()
//   receipts.row(place).state.store(ReceiptState::claimed(self, 1).pack());
//
// A receipt is a row in a block of shared memory that the channel itself holds. A get copies the record into a
// free row before the head commits, so that the message stays there when it has left its chunk. A message that is
// longer than a row lies in a block (spilled), and the row has the handle. The row's state is one word: which
// process has the message, and how often it was delivered. One store of it ends a claim, whatever way it ends.
//
//   free (0) --get, the head's lock held--> claimed {process, tries 1}
//   claimed --acknowledge, its holder--> [ending {process}, while leases are released -->] free
//   claimed --give back, its holder, or the reaper once that is dead--> returned {tries}
//   returned --get, the head's lock held--> claimed {process, tries + 1}
//
// Invariants
//  C5. A row that is not free belongs to a message that is not in the channel (C1), and `in_flight` names the one
//      row for which a get has not yet decided that; the head's recovery does, by comparing the row's sequence with
//      the head's.
//  C6. A lease whose holder is receipt {channel, place} belongs to the message of that row.
//  C7. `returned` is not 0 while a row is returned, unless the process that returned it has died and was not yet
//      reaped. It may be too large: a get that finds no such row sets it to 0.
//
// Thread and process safety: as each function says.
#pragma once

#include <cstdint>

#include "arena/arena.h"
#include "channel/tables.h"

namespace forklift::inline abi_0_1::channel {

inline constexpr std::uint32_t kReceiptBytes = 256;
inline constexpr std::uint32_t kMostReceipts = 1U << 20;
// A message's bytes and handles up to this stay in the row, more are spilled.
inline constexpr std::uint32_t kReceiptBody = kReceiptBytes - 8 - sizeof(RecordHeader);

struct alignas(64) ReceiptRow {
  Word state;           // ReceiptState
  RecordHeader header;  // as the record's; `units` says nothing here
  std::byte body[kReceiptBody];
};
static_assert(sizeof(ReceiptRow) == kReceiptBytes);

struct ReceiptsHeader {
  // What does not change.
  alignas(64) Word tries_limit;  // 0: none
  Word dead_letters;             // {generation:32, index:32} of the channel that takes what failed; 0: none
  Word unused[6];
  // Changed under the head's lock, but for `returned`.
  alignas(64) Word in_flight;  // place + 1 of the row that a get is filling
  Word used;                   // no place at or above it was ever in use
  Word returned;               // see C7
  alignas(64) Word dropped;    // messages that failed too often, without a dead-letter queue
};
static_assert(sizeof(ReceiptsHeader) == 192);

// The block with the receipts of a channel, which the channel holds.
arena::Handle receipts_of(const ChannelRow& channel) noexcept;

// The state word of a row: {kind:2, tries:12, slot:18, generation:32}.
struct ReceiptState {
  enum class Kind : std::uint8_t {
    kFree = 0,
    kClaimed = 1,
    kReturned = 2,
    kEnding = 3
  };
  static constexpr std::uint32_t kMostTries = 0xfff;  // counting ends there

  Kind kind = Kind::kFree;
  std::uint32_t tries = 0;  // how often it was delivered, the present time among them
  domain::SlotRef holder{};

  static ReceiptState claimed(domain::SlotRef by, std::uint32_t tries) noexcept {
    return {Kind::kClaimed, tries < kMostTries ? tries : kMostTries, by};
  }
  static ReceiptState ending(domain::SlotRef by) noexcept { return {Kind::kEnding, 0, by}; }
  static ReceiptState returned(std::uint32_t tries) noexcept { return {Kind::kReturned, tries, {}}; }
  static ReceiptState unpack(std::uint64_t word) noexcept {
    return {static_cast<Kind>(word >> 62),
            static_cast<std::uint32_t>(word >> 50) & kMostTries,
            {static_cast<std::uint32_t>(word >> 32) & 0x3ffffU, static_cast<std::uint32_t>(word)}};
  }
  std::uint64_t pack() const noexcept {
    return (std::uint64_t{static_cast<std::uint8_t>(kind)} << 62) | (std::uint64_t{tries} << 50) |
           (std::uint64_t{holder.index} << 32) | holder.generation;
  }
  bool of(domain::SlotRef slot) const noexcept {
    return (kind == Kind::kClaimed || kind == Kind::kEnding) && holder.index == slot.index &&
           holder.generation == slot.generation;
  }
  // They are those of Domain::self_word(), but for its first.
  static constexpr std::uint64_t kHolderBits = (std::uint64_t{0x3ffff} << 32) | 0xffffffffU;
};

// A view, as std::span. Empty (false): the channel delivers at most once.
class Receipts {
 public:
  static constexpr std::uint32_t kNone = 0xffffffffU;

  Receipts() noexcept = default;
  Receipts(std::byte* memory, std::uint32_t channel, std::uint32_t capacity) noexcept
      : header_(reinterpret_cast<ReceiptsHeader*>(memory)),
        rows_(reinterpret_cast<ReceiptRow*>(memory + sizeof(ReceiptsHeader))),
        channel_(channel),
        capacity_(capacity) {}
  static std::uint64_t bytes_for(std::uint32_t capacity) noexcept {
    return sizeof(ReceiptsHeader) + std::uint64_t{capacity} * sizeof(ReceiptRow);
  }

  explicit operator bool() const noexcept { return header_ != nullptr; }
  std::uint32_t capacity() const noexcept { return capacity_; }
  ReceiptsHeader& header() const noexcept { return *header_; }
  ReceiptRow& row(std::uint32_t place) const noexcept { return rows_[place]; }
  arena::Holder holder(std::uint32_t place) const noexcept { return arena::Holder::receipt(channel_, place); }
  // Places below it may be in use. Other processes write the word, so the block's end bounds it.
  std::uint32_t used() const noexcept {
    const std::uint64_t used = header_->used.load(std::memory_order_acquire);
    return used < capacity_ ? static_cast<std::uint32_t>(used) : capacity_;
  }

  // A free place, looked for from `hint` on. kNone: all are in use. Without the head's lock an answer for a moment.
  std::uint32_t find_free(std::uint32_t hint) const noexcept {
    for (std::uint32_t i = 0, at = hint; i < capacity_; ++i, ++at) {
      if (at >= capacity_) at = 0;
      if (rows_[at].state.load(std::memory_order_acquire) == 0) return at;
    }
    return kNone;
  }
  // Of the returned messages the one that was put first, seen from the head's sequence; kNone: there is none, and
  // `returned` says so from now on. With the head's lock.
  std::uint32_t find_returned(std::uint32_t head_sequence) const noexcept;
  // How many messages were returned, and how many rows are not free (a get that is under way among them).
  std::uint32_t count_returned() const noexcept;
  std::uint32_t count_in_use() const noexcept;
  bool all_are_of(domain::SlotRef slot) const noexcept;

  // Lets others find the message again. Its holder's, or of one that died.
  void put_back(std::uint32_t place, std::uint32_t tries) const noexcept;
  // Releases what the message of a row holds, inner leases first. With its state `ending`. False: a lock could not be
  // had; what is left stays.
  bool release(std::uint32_t place, arena::Arena& arena) const;
  // Returns what a dead process had claimed, and ends what it was ending. Idempotent. False: as release().
  bool reap(domain::SlotRef dead, arena::Arena& arena) const;
  // The head's lock is held, and its last owner died inside: decides about the row in flight. False: as release().
  bool repair(std::uint32_t head_sequence, arena::Arena& arena) const;

 private:
  ReceiptsHeader* header_ = nullptr;
  ReceiptRow* rows_ = nullptr;
  std::uint32_t channel_ = 0;
  std::uint32_t capacity_ = 0;
};

}  // namespace forklift::inline abi_0_1::channel
