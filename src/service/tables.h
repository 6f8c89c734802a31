// The rows of calls and servers in shared memory. docs/layout.md describes the same bytes in prose.
//
// A row is one client's place for one call at a time, or one server. Its owner is a process, which alone claims and
// releases it; the reaper releases the rows of the dead. Rows never move, so a server writes to the row that a request
// names without holding anything, and learns from the row itself whether the call is still wanted.
//
// Invariants
//  V1. A row whose owner is 0 is free, and its state says kOver.
//  V2. A request is served only after its row's state was changed from "nobody" to its server by one compare-and-swap,
//      which happens before the request leaves the channel. So a request that has left the channel has a taker, and a
//      call is never served after its client has ended it.
//  V3. `serial` of a row only grows, also from owner to owner: an old request, and an old response, match no later call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "domain/domain.h"
#include "sync/word.h"

namespace forklift::inline abi_0_1::service {

using sync::Word;

enum class Role : std::uint64_t {
  kNone = 0,
  kCall = 1,
  kServer = 2
};

inline constexpr std::size_t kTextBytes = 128;

struct alignas(64) Row {
  Word owner;    // {generation:32, slot + 1:32} of its process; 0: free
  Word role;     // Role
  Word channel;  // {generation:32, row:32}: where this call's responses go; which requests this server takes
  Word serial;   // of the newest call
  Word state;    // State
  Word left;     // serial of a request that has left its channel, as its taker says afterwards
  Word server_pid;  // of that taker, for people; written before
  Word unused0;
  // A client that waits reads it all the time, so it lies in another cache line than what the server writes.
  alignas(64) std::atomic<std::uint32_t> news;  // changes when the client should look at the state
  std::uint32_t unused1[15];
  Word text[kTextBytes / sizeof(Word)];  // a server's types, for people; padded with zeros
};
static_assert(sizeof(Row) == 256);

struct Table {
  Word rows_used;  // no row at or above it was ever in use
  Word unused[31];
};
static_assert(sizeof(Table) == sizeof(Row));

// Who has the call of a row, in one word, so that one compare-and-swap changes it.
//   bits 0 to 12   slot + 1 of the process that takes the request; 0: nobody has
//   bits 13 to 36  of that slot's generation
//   bit 37         0
//   bit 38         the server gives no answer
//   bit 39         the call is over for its client
//   bits 40 to 63  of the call's serial
class State {
 public:
  static constexpr std::uint64_t kRefused = std::uint64_t{1} << 38;
  static constexpr std::uint64_t kOver = std::uint64_t{1} << 39;

  explicit State(std::uint64_t word) noexcept : word_(word) {}
  // A call that nobody has taken.
  static State open(std::uint64_t serial) noexcept { return State(serial << kSerialAt); }
  // The same call, taken by a process.
  State taken_by(domain::SlotRef server) const noexcept {
    return State((word_ & ~kTakerBits) | (std::uint64_t{server.index} + 1) |
                 (std::uint64_t{server.generation} & kGenerationMask) << kGenerationAt);
  }
  State with(std::uint64_t bits) const noexcept { return State(word_ | bits); }

  std::uint64_t word() const noexcept { return word_; }
  bool is_call(std::uint64_t serial) const noexcept {
    return word_ >> kSerialAt == open(serial).word_ >> kSerialAt;
  }
  bool has_taker() const noexcept { return (word_ & kSlotMask) != 0; }
  bool is_taken_by(domain::SlotRef server) const noexcept {
    return ((word_ ^ taken_by(server).word_) & kTakerBits) == 0;
  }
  bool has(std::uint64_t bits) const noexcept { return (word_ & bits) != 0; }
  std::uint32_t taker_slot() const noexcept { return static_cast<std::uint32_t>(word_ & kSlotMask) - 1; }
  // Is this process dead, as far as the bits of the generation tell?
  bool taker_is_dead(const domain::Domain& domain) const {
    const domain::SlotRef now = domain.occupant(taker_slot());
    return !is_taken_by(now) || domain.is_dead(now);
  }

 private:
  static constexpr unsigned kGenerationAt = 13, kSerialAt = 40;
  static constexpr std::uint64_t kSlotMask = (std::uint64_t{1} << kGenerationAt) - 1;
  static constexpr std::uint64_t kGenerationMask = (std::uint64_t{1} << 24) - 1;
  static constexpr std::uint64_t kTakerBits = (std::uint64_t{1} << 37) - 1;
  std::uint64_t word_;
};
static_assert(domain::kSlotCount < (1 << 13));

// What a message is: in the tag of requests and responses.
enum class Kind : std::uint8_t {
  kRequest = 0,
  kPart = 1,  // a response, and more will come
  kLast = 2,  // a response, the last one
  kEnd = 3,   // no response, and none will come
  kFailure = 4
};

// {kind:3, row:20, serial:41}
struct Tag {
  Kind kind = Kind::kRequest;
  std::uint32_t row = 0;
  std::uint64_t serial = 0;

  static constexpr std::uint64_t kSerialMask = (std::uint64_t{1} << 41) - 1;
  std::uint64_t pack() const noexcept {
    return static_cast<std::uint64_t>(kind) << 61 | std::uint64_t{row} << 41 | (serial & kSerialMask);
  }
  static Tag unpack(std::uint64_t word) noexcept {
    return {static_cast<Kind>(word >> 61), static_cast<std::uint32_t>(word >> 41) & 0xfffff,
            word & kSerialMask};
  }
};

}  // namespace forklift::inline abi_0_1::service
