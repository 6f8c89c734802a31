// Records of threads that wait, for other processes that ask what a program waits for.
//
//   {
//     WaitRecord record(domain, event, WaitKind::kEvent, deadline);  // this thread waits for the event, since now
//     event.sleep(...);
//     if (!ready()) record.goes_on(hooks);   // the next sleep on the event is part of the same wait
//   }                                        // it does not wait any more
//
// A record names an event by its offset in the control segment. Which object that is follows from the offset, so the
// tables of locks, channels and topics need no back reference, and this room knows nothing of them. Only a thread that
// is about to sleep makes a record: a few plain stores, and one on waking. Once a wait has taken longer than
// kDescribedAfterNs, its thread adds where in the program it waits. Nothing is decided by a record: a missing one (the
// table is full) or a stale one (its thread was killed, and is not reaped yet) costs a reader a line.
//
// Thread and process safety: any thread of an attached process. A death leaves the record until the process's slot is
// reaped.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "domain/domain.h"
#include "os/clock.h"
#include "sync/event_count.h"

namespace forklift::inline abi_0_1::domain {

class WaitHooks;

enum class WaitKind : std::uint8_t {
  kAwake = 0,
  kEvent = 1,      // value: offset of the event, or of the cell of a condition, in the control segment
  kProcess = 2,    // value: pid of the process whose end is waited for
  kSeveral = 3,    // any of `count` events, of which the first few are there
  kTask = 4,       // a pool's worker that waits for its pool to open or to end
  kRanks = 5,      // a collective operation: other ranks have not come yet
  kContainer = 6,  // the writers' lock of a shared container
};

inline constexpr std::size_t kWaitEvents = 4;
inline constexpr std::size_t kCallSiteBytes = 448;
inline constexpr std::int64_t kDescribedAfterNs = 100'000'000;

struct alignas(64) WaitRow {
  sync::Word owner;      // {unused:3, slot generation:27, slot index:12, thread:22}; 0: free
  sync::Word what;       // {WaitKind:8, count:8, value:48}; 0: the thread does not wait
  sync::Word since;      // CLOCK_MONOTONIC, ns: when the wait began, of which this sleep is one slice
  sync::Word until;      // the same clock: the wait's deadline; INT64_MAX: none
  sync::Word described;  // the `since` of the wait that call_site belongs to
  sync::Word more[kWaitEvents - 1];                           // kSeveral: further events
  sync::Word call_site[kCallSiteBytes / sizeof(sync::Word)];  // text, padded with zeros
};
static_assert(sizeof(WaitRow) == 512);

// The region: the table, rows.
struct alignas(512) WaitTable {
  sync::Word rows_used;  // no row at or above it was ever used
};
static_assert(sizeof(WaitTable) == sizeof(WaitRow));
constexpr std::uint64_t wait_rows_in(std::uint64_t region_bytes) noexcept {
  return region_bytes < sizeof(WaitTable) ? 0 : region_bytes / sizeof(WaitRow) - 1;
}

class WaitRecord {
 public:
  // `event`: an EventCount, or a cell. Without effect for one outside of the control segment, unless `kind` says what it
  // is for.
  WaitRecord(Domain& domain, const void* event, WaitKind kind, os::Deadline until) noexcept;
  // Any of these; those of other domains are left out.
  WaitRecord(Domain& domain, std::span<const sync::EventCount* const> events, os::Deadline until) noexcept;
  // The end of a process.
  WaitRecord(Domain& domain, pid_t process, os::Deadline until) noexcept;
  ~WaitRecord() {
    if (row_ != nullptr) row_->what.store(0, std::memory_order_release);
    if (traced_ != 0) [[unlikely]]
      trace();
  }
  WaitRecord(const WaitRecord&) = delete;
  WaitRecord& operator=(const WaitRecord&) = delete;

  // The sleep has ended and the wait has not: if this thread waits for the same next, it waits since now already. May
  // ask the hooks where the program waits; no lock is held then.
  void goes_on(WaitHooks* hooks) const noexcept;
  // For those who know at once where in the program the wait is.
  void describe(std::string_view call_site) const noexcept;

 private:
  void enter(Domain& domain, std::uint64_t what, std::span<const std::uint64_t> more,
             os::Deadline until) noexcept;
  void trace() const noexcept;

  WaitRow* row_ = nullptr;
  // For the tracer: when this sleep began (0: it is not traced), and what it is for.
  std::int64_t traced_ = 0;
  std::uint64_t what_ = 0;
  Domain* domain_ = nullptr;
};

// In a traced wait's value (trace::EventKind::kWait): its kind, and how it was spent.
enum class WaitManner : std::uint8_t {
  kSleep = 0,
  kSpin = 1,
  kStill = 2  // it had not ended when the recording did; only in recordings
};
constexpr std::uint64_t traced_wait(WaitKind kind, WaitManner manner) noexcept {
  return std::uint64_t{static_cast<std::uint8_t>(manner)} << 8 | static_cast<std::uint8_t>(kind);
}
// Traces a wait for an event that has no record, and has just ended.
void trace_wait(Domain& domain, const void* event, WaitKind kind, WaitManner manner,
                std::int64_t began) noexcept;

// A copy of one record, taken while its thread may go on.
struct Waiting {
  SlotRef slot;  // its generation is the 27 low bits of the slot's
  std::uint32_t thread = 0;
  WaitKind kind = WaitKind::kAwake;
  std::uint32_t count = 1;            // of events
  std::vector<std::uint64_t> values;  // offsets, the pid; empty for the other kinds
  std::int64_t since_ns = 0;
  std::int64_t until_ns = INT64_MAX;
  std::string call_site;  // empty: not known (yet)
};
// Every thread that waits now, as their region says. A record that changed while it was copied is left out. The
// region may be in a mapping that can only be read.
std::vector<Waiting> read_waits(std::span<const std::byte> region);

// Gives back the records of a process that is gone. For the reaper.
void drop_waits(const Domain& domain, SlotRef slot) noexcept;

}  // namespace forklift::inline abi_0_1::domain
