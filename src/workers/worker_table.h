// What a pool and its workers share besides two channels: a row for each worker slot, and the set of tasks
// that were cancelled before they began. It lies in one block of kind share, zeroed when the pool is made.
// docs/layout.md describes it in prose.
//
// Invariants
//  P1. A task's tag is in the claim of a worker slot from before the task leaves the task channel until after
//      its answer is in the answer channel. So a process that finds a worker dead also finds the task that
//      the worker had.
//  P2. A row has two cache lines with one writer each, the worker and the pool. The exception is `fate`,
//      which both change, by compare-and-swap, and only for tasks with a deadline.
//  P3. A worker slot belongs to one worker at a time. The pool clears its row after the worker's death, when
//      no other process can change it. What the workers of a slot did stays in its InsightsRow.
#pragma once

#include <cstddef>
#include <cstdint>

#include "channel/channel.h"
#include "sync/event_count.h"
#include "workers/insights.h"

namespace forklift::inline abi_0_1::workers {

using sync::Word;

// A message's tag: bits 0 to 55 are the task's number, bits 56 to 63 say what the message is.
inline constexpr unsigned kTaskBits = 56;
inline constexpr std::uint64_t kTaskMask = (std::uint64_t{1} << kTaskBits) - 1;

// In messages to a worker.
inline constexpr std::uint64_t kTimedTask = std::uint64_t{1} << 56;  // has a deadline: `fate` counts
// May be sent again: the worker copies the private blocks in it on receipt.
inline constexpr std::uint64_t kRetainedTask = std::uint64_t{2} << 56;
inline constexpr std::uint64_t kStopTask = std::uint64_t{4}
                                           << 56;  // no task: the worker that takes it leaves

// In messages to the pool: how a task ended. The pool itself determines those from kDied on.
enum class Ending : std::uint8_t {
  kValue = 1,
  kError = 2,      // the task's function failed; the payload says how, in the language's own format
  kCancelled = 3,  // cancelled before it began
  kBadStart = 4,   // no task: a worker could not be made ready; payload as for kError
  // the task's message could not be used; the payload says why, as text. Without a task number: a task was
  // lost
  kUnreadable = 5,
  kDied = 16,      // the worker died
  kTimedOut = 17,  // over its deadline; the worker was killed
  kStopped = 18,   // the pool was terminated, or cannot work any more: Engine::health() says why
};

enum class WorkerState : std::uint64_t {
  kStarting = 0,
  kReady = 1,    // waits at its gate, or works
  kLeaving = 2,  // will end by itself, in good order
  kFailed = 3,   // could not be made ready
};

enum class Gate : std::uint64_t {
  kWait = 0,
  kOpen = 1,
  kLeave = 2
};

struct alignas(64) WorkerRow {
  // Written by the worker.
  channel::Claim claim;
  Word began;  // when the claimed task began, where it has a deadline: CLOCK_MONOTONIC, ns
  Word fate;   // the claimed task, where it has a deadline, while its answer may still come; then 0
  Word state;  // WorkerState
  Word done;   // tasks answered
  Word unused0[2];
  // Written by the pool.
  Word gate;  // Gate
  sync::EventCount bell;
  Word unused1[5];
};
static_assert(sizeof(WorkerRow) == 128);

// In `fate`: the pool has decided that the task has ended.
inline constexpr std::uint64_t kCondemned = std::uint64_t{1} << 63;

// A task's number: its generation, then its place in the pool's table. The place is not reused until the
// task's message has been taken, so one bit for each place says which tasks must not begin.
inline constexpr unsigned kPlaceBits = 26;
inline constexpr std::uint64_t kPlaceMask = (std::uint64_t{1} << kPlaceBits) - 1;
inline constexpr std::size_t kCancelWords = 2040;
inline constexpr std::size_t kCancelPlaces = kCancelWords * 64;

struct WorkerTableHeader {
  Word answers_wanted;  // how many answers wake the pool; 0 and 1: each one does
  Word cancelled;       // how many bits are set below
  Word insights_at;     // where in the block the insights begin (insights.h); 0: there are none
  Word unused[5];
  Word shall_not_begin[kCancelWords];  // bit by place
};
static_assert(sizeof(WorkerTableHeader) == 16384);

inline std::size_t table_bytes(std::size_t worker_slots, bool insights = false) noexcept {
  return sizeof(WorkerTableHeader) +
         worker_slots * (sizeof(WorkerRow) + (insights ? sizeof(InsightsRow) : 0));
}

// The table as this process sees it.
class WorkerTable {
 public:
  WorkerTable() = default;
  explicit WorkerTable(arena::LeasePtr block) noexcept : block_(std::move(block)) {}

  const arena::LeasePtr& block() const noexcept { return block_; }
  WorkerTableHeader& header() const noexcept { return *reinterpret_cast<WorkerTableHeader*>(block_->data()); }
  std::size_t worker_slots() const noexcept {
    const std::size_t insights = insights_at();
    return ((insights != 0 ? insights : block_->size()) - sizeof(WorkerTableHeader)) / sizeof(WorkerRow);
  }
  WorkerRow& worker_slot(std::size_t index) const noexcept {
    return reinterpret_cast<WorkerRow*>(block_->data() + sizeof(WorkerTableHeader))[index];
  }
  // For the pool, in a new table: the rows of insights follow those of the worker slots.
  void add_insights(std::size_t worker_slots) const noexcept {
    header().insights_at.store(table_bytes(worker_slots), std::memory_order_relaxed);
  }
  // Null: the pool has no insights.
  InsightsRow* insights(std::size_t index) const noexcept {
    const std::size_t begin = insights_at();
    const std::size_t end = begin + (index + 1) * sizeof(InsightsRow);
    if (begin == 0 || end > block_->size()) return nullptr;
    return reinterpret_cast<InsightsRow*>(block_->data() + begin) + index;
  }

  // For the pool. False: the task's place is not among the first kCancelPlaces.
  bool enter_cancelled(std::uint64_t task) const noexcept;
  void forget_cancelled(std::uint64_t task) const noexcept;
  // For a worker that has claimed the task.
  bool is_cancelled(std::uint64_t task) const noexcept;

 private:
  // 0 also for what cannot be: other processes write to the table.
  std::size_t insights_at() const noexcept {
    const std::size_t at = header().insights_at.load(std::memory_order_relaxed);
    return at >= sizeof(WorkerTableHeader) && at < block_->size() && at % alignof(InsightsRow) == 0 ? at : 0;
  }

  arena::LeasePtr block_;
};

}  // namespace forklift::inline abi_0_1::workers
