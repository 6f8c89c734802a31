// The arena's rows in shared memory: blocks, leases, free lists. docs/layout.md describes the same bytes in
// prose.
//
// Invariants (arena lock held; `audit` checks each of them)
//  A1. A block's count is the number of lease rows that name it.
//  A2. A block with count 0 is in exactly one free list: warm when some of its pages are committed, else
//      cold.
//  A3. A lease row is either in the free list or names an object and a holder.
//  A4. `committed` is the sum of the blocks' committed bytes, `cached` that of the free ones among them.
//  A5. A block of class c has 2^c bytes and lies at a multiple of 2^c; no two blocks overlap. What was asked for lies in
//      it, from `start` on.
//  A6. A cached block has one lease, a process's or a depot's. What cell i of depot d holds is named by that
//      cell, and i < top, but for one cell that a dead putter may have left at the top.
//
// All words change through the redo record, with three exceptions. A lease's holder is changed by the process
// that holds the lease, with one store. A block's meta and length belong to its holder while it has only one. The
// punched ranges are written under the lock, entry first (arena/punch_log.h).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "domain/domain.h"
#include "sync/redo.h"
#include "sync/robust_mutex.h"

namespace forklift::inline abi_0_1::arena {

using sync::Word;

// What a block is for; each kind has a half of the data segment.
enum class Kind : std::uint8_t {
  kShare = 0,    // holders see each other's writes: tensors, frozen arrays, messages too long for a chunk
  kPrivate = 1,  // a payload that becomes its one receiver's own copy
};
inline constexpr std::size_t kKinds = 2;

// A block's size class: the exponent of its size.
inline constexpr unsigned kSmallestClass = 6;
inline constexpr unsigned kPageClass = 12;
inline constexpr unsigned kClasses = 41;  // up to 1 TiB

// Two private payloads never share a page: dropping the private copy of a page (MADV_DONTNEED) for one of
// them would drop it for the other.
inline unsigned class_for(Kind kind, std::size_t bytes) noexcept {
  const unsigned smallest = kind == Kind::kPrivate ? kPageClass : kSmallestClass;
  return std::max(smallest, static_cast<unsigned>(std::bit_width(bytes - 1)));
}

// Bytes whose pages an allocation makes exist. Blocks under a page share theirs: counted whole.
inline std::uint64_t pages_for(std::size_t bytes, unsigned size_class) noexcept {
  if (size_class < kPageClass) return std::uint64_t{1} << size_class;
  return (bytes + 4095) & ~std::uint64_t{4095};
}

// Where the bytes of a large block begin in it: 0 to 448 KiB from its start, by its place. Without it large tensors would
// lie at addresses that agree in bits 12 to 27. Of those AMD's processors make the tag by which they choose a way of the
// first-level cache, so that a loop over three such tensors takes twice its time (decision 0332).
inline constexpr unsigned kStaggeredClass = 25;
// From this class on most pairs of blocks agree in these bits. So a block of the next class is taken where the stagger
// does not fit: it costs address space, but no memory.
inline constexpr unsigned kAlwaysStaggeredClass = 27;
inline constexpr std::uint64_t kStaggerStep = 64 * 1024;  // a multiple of every page
inline constexpr std::uint64_t kMostStagger = 7 * kStaggerStep;
inline std::uint64_t stagger_of(std::uint64_t offset) noexcept {
  const std::uint64_t turn = offset >> 28;
  return ((turn ^ turn >> 3 ^ turn >> 6) & 7) * kStaggerStep;
}

enum class BlockState : std::uint8_t {
  kUnused = 0,
  kFree = 1,
  kHeld = 2,
  kKept = 3  // not in use; its last holder or a depot keeps it for the next allocation of its class
};

struct alignas(64) BlockRow {
  Word offset;     // of the first byte, in the data segment
  Word meta;       // {generation:32, class:8, kind:8, state:8, cold:8}
  Word count;      // lease rows naming this block
  Word next;       // free list: row index + 1
  Word prev;       // free list: row index + 1
  Word committed;  // bytes, from the start, whose pages may exist
  Word length;     // bytes asked for by the present allocation
  Word start;      // where those bytes begin in the block: stagger_of(), or 0
};
static_assert(sizeof(BlockRow) == 64);

struct BlockMeta {
  std::uint32_t generation;
  std::uint8_t size_class;
  Kind kind;
  BlockState state;
  bool cold;

  static BlockMeta unpack(std::uint64_t word) noexcept {
    return {static_cast<std::uint32_t>(word >> 32), static_cast<std::uint8_t>(word >> 24),
            static_cast<Kind>((word >> 16) & 0xff), static_cast<BlockState>((word >> 8) & 0xff),
            (word & 0xff) != 0};
  }
  std::uint64_t pack() const noexcept {
    return (std::uint64_t{generation} << 32) | (std::uint64_t{size_class} << 24) |
           (static_cast<std::uint64_t>(kind) << 16) | (static_cast<std::uint64_t>(state) << 8) |
           (cold ? std::uint64_t{1} : std::uint64_t{0});
  }
};

struct LeaseRow {
  Word object;   // 0: free; else {index:32, ObjectKind:8}
  Word holder;   // see Holder
  Word next;     // free list: row index + 1
  Word offered;  // 1: entered for its holder by another process, and not taken up yet
};
static_assert(sizeof(LeaseRow) == 32);

// What a lease can be a right to. Channels and locks use the same ledger as blocks, so that one audit, one
// fork hand-over and one reaper serve all.
enum class ObjectKind : std::uint8_t {
  kBlock = 1,
  kChannel = 2,
  kLock = 3,
  kTopic = 4,
  kSegment = 5,
  kPiece = 6
};
inline constexpr std::size_t kObjectKinds = 7;
// Memory, which messages carry; everything else stays where it is.
inline constexpr bool travels(ObjectKind kind) noexcept {
  return kind == ObjectKind::kBlock || kind == ObjectKind::kSegment || kind == ObjectKind::kPiece;
}

struct Object {
  ObjectKind kind;
  std::uint32_t index;

  static Object unpack(std::uint64_t word) noexcept {
    return {static_cast<ObjectKind>(word & 0xff), static_cast<std::uint32_t>(word >> 8)};
  }
  std::uint64_t pack() const noexcept {
    return (std::uint64_t{index} << 8) | static_cast<std::uint64_t>(kind);
  }
  bool operator==(const Object&) const = default;
};

// Who holds a lease: a process (slot and generation), a message (channel and sequence, 30 bits), a topic's
// message (likewise), a topic itself (its ring), a receipt (channel and place; the last place, which no receipt has,
// stands for the channel itself), a name (row of the table of names; the last number, which no
// row has, stands for segments that were handed over) or a depot (number and cell).
struct Holder {
  std::uint64_t word = 0;

  static Holder process(domain::SlotRef slot) noexcept {
    return {(std::uint64_t{1} << 62) | (std::uint64_t{slot.index} << 32) | slot.generation};
  }
  static Holder message(std::uint32_t channel, std::uint32_t sequence) noexcept {
    return {(std::uint64_t{2} << 62) | (std::uint64_t{channel} << 30) | (sequence & 0x3fffffffU)};
  }
  // Of a message that was taken and not yet acknowledged (channel/receipts.h).
  static Holder receipt(std::uint32_t channel, std::uint32_t place) noexcept {
    return {(std::uint64_t{1} << 60) | (std::uint64_t{channel} << 30) | (place & 0x3fffffffU)};
  }
  // The channel itself: of the block with its receipts, and of its dead-letter queue.
  static Holder receipts(std::uint32_t channel) noexcept { return receipt(channel, 0x3fffffffU); }
  static Holder topic(std::uint32_t topic, std::uint64_t sequence) noexcept {
    return {(std::uint64_t{13} << 60) | (std::uint64_t{topic} << 30) | (sequence & 0x3fffffffU)};
  }
  static Holder ring(std::uint32_t topic) noexcept {
    return {(std::uint64_t{14} << 60) | (std::uint64_t{topic} << 30)};
  }
  static Holder name(std::uint32_t row) noexcept { return {(std::uint64_t{15} << 60) | row}; }
  // Nobody yet: the name of a named segment has left the domain, and its receiver is to find the segment.
  static Holder handed_over() noexcept { return name(0xffffffffU); }
  static Holder depot(std::uint32_t number, std::uint64_t cell) noexcept {
    return {(std::uint64_t{12} << 60) | (std::uint64_t{number} << 32) | cell};
  }
  bool is_depot() const noexcept { return (word >> 60) == 12; }
  std::uint32_t depot_number() const noexcept { return static_cast<std::uint32_t>(word >> 32) & 0xfffffff; }
  std::uint64_t cell() const noexcept { return word & 0xffffffff; }
  bool is_message() const noexcept { return (word >> 62) == 2; }
  bool is_receipt() const noexcept { return (word >> 60) == 1; }
  // Of a topic's message; channel() is the topic's index.
  bool is_topic() const noexcept { return (word >> 60) == 13; }
  bool is_ring() const noexcept { return (word >> 60) == 14; }
  bool is_process() const noexcept { return (word >> 62) == 1; }
  // Of a process.
  domain::SlotRef slot() const noexcept {
    return {static_cast<std::uint32_t>(word >> 32) & 0x3fffffffU, static_cast<std::uint32_t>(word)};
  }
  bool is_name() const noexcept { return (word >> 60) == 15; }
  std::uint32_t channel() const noexcept { return static_cast<std::uint32_t>((word >> 30) & 0xffffff); }
  std::uint32_t sequence() const noexcept { return static_cast<std::uint32_t>(word & 0x3fffffffU); }
  bool operator==(const Holder&) const = default;
};

inline constexpr std::uint32_t kRedoRecords = 16;
inline constexpr std::uint64_t kPunchesKept = 256;

// Cached blocks on their way from processes that have too many to processes that have none
// (arena/cache/depots.h). There is one depot for each kind and each class up to 4 MiB.
inline constexpr unsigned kLargestKept = 22;
inline constexpr unsigned kKeptClasses = kLargestKept - kSmallestClass + 1;
struct alignas(64) Depot {
  static constexpr std::size_t kCells = 16;
  sync::RobustMutex mutex;
  Word top;                        // cells in use
  alignas(64) Word cells[kCells];  // {block row:32, lease row:32}
};
inline std::uint32_t depot_number(Kind kind, unsigned size_class) noexcept {
  return static_cast<std::uint32_t>(kind) * kKeptClasses + size_class - kSmallestClass;
}

struct ArenaState {
  sync::RobustMutex mutex;
  // One record would do, since the lock admits one writer; by slot, a record stays in its writer's cache.
  sync::RedoRecord redo[kRedoRecords];
  alignas(64) Word blocks_used;  // rows ever used
  Word block_rows_free;          // rows given back by merging: row index + 1
  Word leases_used;
  Word lease_rows_free;
  Word committed;  // bytes of A4
  Word cached;
  Word chunk_bytes;             // committed for messages; changed under the chunk pool's lock and record
  Word warm[kKinds][kClasses];  // free lists: row index + 1
  Word cold[kKinds][kClasses];
  Depot depots[kKinds][kKeptClasses];
  alignas(64) Word punches;    // ranges ever punched (arena/punch_log.h)
  Word punched[kPunchesKept];  // {first page:32, pages:32}; the nth in n mod kPunchesKept
};

}  // namespace forklift::inline abi_0_1::arena
