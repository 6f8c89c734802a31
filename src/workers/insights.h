// Where the time of a pool's workers goes, and which tasks took longest: EngineOptions::insights.
//
// A row for each worker slot lies in the pool's block, behind the rows of worker_table.h. It adds up the workers that
// had the slot, one after the other. A worker is in one *phase* at a time; a change of phase adds the time since the
// last change to the phase that ends:
//
//   kStarting ── kInitializing ── kWaiting ⇄ kWorking ── kAnswering ── kWaiting, or kWorking if a task is there
//
// A worker that finds its next task there reads the clock twice a task, one that waits for it three times.
//
// Invariants
//  N1. A row has one writer at a time: the worker; before its start and after its death the pool.
//  N2. The figures are written to the half of the row that readers do not look at, and `commits` then points to it. A
//      process killed at any instruction leaves the figures before a change, or those after it.
//  N3. A task is counted before its answer is sent. So whoever has a task's result finds the task in the figures.
//
// Thread safety: an Insights is used by one thread. read() and slow_tasks() may be called from any process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sync/word.h"

namespace forklift::inline abi_0_1::workers {

using sync::Word;

enum class Phase : std::uint64_t {
  kNone = 0,          // there is no worker, a spare one waits at its gate, or it leaves: no time is counted
  kStarting = 1,      // from the call that makes the process
  kInitializing = 2,  // the program's own initializer
  kWaiting = 3,       // for a task
  kWorking = 4,       // reads the task and performs it
  kAnswering = 5,     // encodes and sends the answer
};
inline constexpr std::size_t kPhases = 6;

// Times are in nanoseconds.
struct Figures {
  std::array<std::uint64_t, kPhases> ns{};  // by Phase
  Phase phase = Phase::kNone;
  std::uint64_t since = 0;         // of CLOCK_MONOTONIC: when the phase began
  std::uint64_t workers = 0;       // so many were started
  std::uint64_t tasks = 0;         // so many were performed
  std::uint64_t items = 0;         // so many items they had; a task that is a single call has one
  std::uint64_t listed_tasks = 0;  // of the tasks, those that have items of a list
  std::uint64_t listed_items = 0;
  std::uint64_t listed_ns = 0;  // how long these were worked on
  std::uint64_t unused[2] = {};
};
inline constexpr std::size_t kFigureWords = 16;
static_assert(sizeof(Figures) == kFigureWords * sizeof(std::uint64_t));

inline constexpr std::size_t kSlowTasks = 5;
inline constexpr std::size_t kSlowTextBytes = 224;

struct SlowTaskRow {
  Word version;  // odd: it is being written
  Word ns;       // 0: there is none
  Word pid;
  Word bytes;
  Word text[kSlowTextBytes / sizeof(Word)];  // UTF-8
};
static_assert(sizeof(SlowTaskRow) == 256);

struct alignas(64) InsightsRow {
  Word commits;  // its lowest bit says which half is valid
  Word unused[7];
  Word halves[2][kFigureWords];
  SlowTaskRow slow[kSlowTasks];
};
static_assert(sizeof(InsightsRow) == 1600);

struct SlowTask {
  std::uint64_t ns = 0;
  std::uint64_t pid = 0;
  std::string text;
};

// The writer of a row.
class Insights {
 public:
  Insights() = default;  // writes nothing
  explicit Insights(InsightsRow& row) noexcept;

  bool on() const noexcept { return row_ != nullptr; }
  Phase phase() const noexcept { return figures_.phase; }
  void enter(Phase next) noexcept;
  // As enter(), at a time in the past. Counts a worker.
  void begin_worker(std::uint64_t now_ns) noexcept;
  // As enter(kAnswering). Counts a task of so many items; `listed`: they are items of a list. True: it is one of the
  // slowest tasks, so describe() is wanted.
  bool worked(std::uint64_t items, bool listed) noexcept;
  // For the worker's process: enters the task that worked() counted last among the slowest.
  void describe(std::string_view text, std::uint64_t pid) noexcept;
  // For the pool, after the worker's death. Without `text` it had no task.
  void end_worker(std::string_view text, std::uint64_t pid) noexcept;

 private:
  void step(Phase next, std::uint64_t now_ns) noexcept;
  void commit() noexcept;

  InsightsRow* row_ = nullptr;
  Figures figures_;
  std::array<std::uint64_t, kSlowTasks> slow_ns_{};
  std::uint64_t last_ns_ = 0;  // how long the phase that ended last took
};

// The row's figures, with the time of the present phase up to now.
Figures figures_of(const InsightsRow& row) noexcept;
// Appends the row's slowest tasks.
void append_slow_tasks(const InsightsRow& row, std::vector<SlowTask>& into);

}  // namespace forklift::inline abi_0_1::workers
