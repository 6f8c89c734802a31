// Users' locks in shared memory: rows and holders' records. docs/layout.md describes them in prose.
//
// A row is a Lock, RLock, Semaphore, Condition, Event, Barrier, RWLock, Latch or Once. A record (cell) says that a process is in a
// state that its death must undo: a thread waits on a condition, a party is inside a barrier's wait, the
// process has units of a semaphore that recovers, threads of the process read under a read-write lock.
//
// Invariants (`Table::audit` checks all but L3)
//  L1. A row is in use (its count is the number of lease rows that name it) or in the free list.
//  L2. A cell is in the free list, or has an owner and an object.
//  L3. A lock's owner word says who holds the lock; the change of that word is the acquisition or the
//     release.
//  L4. For a semaphore that recovers: value + units in its cells = total.
//  L5. For a barrier: the number of parties inside is the number of its cells without units.
// Words marked [ledger] change only through the arena's redo records, under the arena's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "domain/domain.h"
#include "sync/event_count.h"
#include "sync/label.h"
#include "sync/word.h"

namespace forklift::inline abi_0_1::locks {

using sync::Word;

enum class Kind : std::uint8_t {
  kNone = 0,
  kLock = 1,
  kRLock = 2,
  kSemaphore = 3,
  kRecovering = 4,  // a semaphore that gets back the units that a killed process had taken
  kCondition = 5,
  kEvent = 6,
  kBarrier = 7,
  kReadWrite = 8,
  kLatch = 9,
  kOnce = 10
};
// Is its state word an Owner?
constexpr bool has_owner(Kind kind) noexcept {
  return kind == Kind::kLock || kind == Kind::kRLock || kind == Kind::kReadWrite || kind == Kind::kOnce;
}
// Does it keep its owner when that exits in good order? As in Python's multiprocessing, where any process may
// release a lock.
constexpr bool outlives_exits(Kind kind) noexcept { return kind == Kind::kLock || kind == Kind::kRLock; }

// A row's meta word: {generation:32, unused:16, Kind:8, unused:7, in use:1}.
inline constexpr std::uint64_t kInUse = 1;
constexpr Kind kind_in(std::uint64_t meta) noexcept {
  return (meta & kInUse) != 0 ? static_cast<Kind>((meta >> 8) & 0xff) : Kind::kNone;
}

// Who holds a lock: {left:1, generation:29, slot:12, thread:22}. All zero: nobody. Bit 63 with a thread: this
// holder took the lock over from one that died. Bit 63 without a thread: nobody holds the lock, and the last
// holder died. Slots are reaped before their generation changes, so the low bits of the generation suffice.
struct Owner {
  static constexpr std::uint64_t kAbandoned = std::uint64_t{1} << 63;
  static constexpr unsigned kSlotShift = 22;
  static constexpr unsigned kGenerationShift = 34;
  static constexpr std::uint64_t kThreadMask = (std::uint64_t{1} << kSlotShift) - 1;
  static constexpr std::uint64_t kGenerationMask = (std::uint64_t{1} << 29) - 1;

  static constexpr std::uint64_t process(domain::SlotRef slot) noexcept {
    return ((slot.generation & kGenerationMask) << kGenerationShift) |
           (std::uint64_t{slot.index} << kSlotShift);
  }
  static constexpr std::uint64_t process_of(std::uint64_t word) noexcept {
    return word & ~(kAbandoned | kThreadMask);
  }
  static constexpr bool is_free(std::uint64_t word) noexcept { return (word & kThreadMask) == 0; }
  static constexpr std::uint32_t slot(std::uint64_t word) noexcept {
    return static_cast<std::uint32_t>(word >> kSlotShift) & (domain::kSlotCount - 1);
  }
};
static_assert(domain::kSlotCount == 1U << (Owner::kGenerationShift - Owner::kSlotShift));

struct alignas(64) LockRow {
  // What the operations of the lock do not change.
  Word meta;                 // [ledger] as above
  Word count;                // [ledger] lease rows naming this row
  Word next;                 // [ledger] free list: row index + 1
  Word most;                 // [ledger] semaphore: the largest value; barrier: parties
  sync::EventCount drained;  // read-write lock: its writer waits for the readers to leave
  Word unused0[2];

  // lock, once: Owner; read-write lock: Owner, the writer. semaphore: value ([ledger] where it recovers). event:
  // {times set:63, set:1}. barrier: [ledger] phase, how often it has opened. latch: what is still to be counted down.
  alignas(64) Word state;
  // RLock: how often its holder has acquired it. recovering semaphore: [ledger] total. barrier: [ledger]
  // BarrierState.
  Word depth;
  Word strayed;  // lock: 1 once a process that did not hold it has released it. barrier: [ledger] parties
                 // missing
  Word inside;   // barrier: [ledger] parties inside wait. once: 1: it was done
  sync::EventCount event;
  Word spinner;
  Word overtaken;  // lock, semaphore: whether a waiter waits long, and how often one got it (fairness.h)

  sync::Label label;  // cleared with the making of an object
};
static_assert(sizeof(LockRow) == 192);

// A holder's record.
struct alignas(64) Cell {
  Word owner;   // [ledger] Owner; 0: the cell is free
  Word object;  // [ledger] {generation:32, row index:32}
  Word next;    // [ledger] free list: cell index + 1
  // [ledger] semaphore: units that the owner's process holds. barrier: 0 inside wait; otherwise the phase
  // that began when the owner's process left its last round. read-write lock: how many threads of the owner's
  // process read; changed by these threads alone, by atomic additions.
  Word units;
  Word ticket;  // condition: {sequence:62, TicketState:2}; changed by compare-and-swap, by any process
  std::atomic<std::uint32_t> bell;  // condition: incremented after another thread changed the ticket
  std::uint32_t unused0;
  Word unused1[2];
};
static_assert(sizeof(Cell) == 64);

enum class TicketState : std::uint8_t {
  kIdle = 0,  // registered and not waiting yet, or no longer
  kWaiting = 1,
  kNotified = 2
};

enum class BarrierState : std::uint8_t {
  kFilling = 0,
  kActing = 1,     // all parties have arrived; the last one runs the action
  kDraining = 2,   // open, until the last party has left
  kResetting = 3,  // reset with parties inside, which leave with an error
  kBroken = 4
};

struct LockTable {
  Word rows_used;   // [ledger]
  Word rows_free;   // [ledger] row index + 1
  Word cells_used;  // [ledger]
  Word cells_free;  // [ledger] cell index + 1
  Word sequence;    // counts tickets: the order in which threads began to wait
  Word unused[59];
};
static_assert(sizeof(LockTable) == 512);

// The region: table, cells (a sixteenth), rows.
constexpr std::uint64_t cells_in(std::uint64_t region_bytes) noexcept {
  return region_bytes / 16 / sizeof(Cell);
}
constexpr std::uint64_t rows_in(std::uint64_t region_bytes) noexcept {
  return (region_bytes - sizeof(LockTable) - cells_in(region_bytes) * sizeof(Cell)) / sizeof(LockRow);
}

}  // namespace forklift::inline abi_0_1::locks
