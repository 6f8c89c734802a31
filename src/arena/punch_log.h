// The latest ranges of the data segment whose pages were given back to the kernel, for processes that keep more of a
// page than a mapping: a driver that has it pinned would go on with the page that the segment has lost.
//
//   std::uint64_t seen = log.count();                       // before the first page is pinned
//   ...
//   if (!log.since(seen, [&](std::uint64_t offset, std::uint64_t bytes) { unpin(offset, bytes); }))
//     unpin_all();                                          // more was punched than the log has kept
//
// A range is noted before its pages go, under the rows' lock, while the puncher holds the block. So a process that has
// got a lease on a block finds all earlier punches of its pages in the log.
//
// Crash safety: the entry is written before the count. A process that dies in between has punched nothing, and its
// entry is written again.
//
// Thread and process safety: note() needs the rows' lock; the others may be called from any thread of any process.
#pragma once

#include <cstdint>

#include "arena/tables.h"

namespace forklift::inline abi_0_1::arena {

class PunchLog {
 public:
  explicit PunchLog(ArenaState& state) noexcept : state_(state) {}

  // Both numbers are multiples of 4096.
  void note(std::uint64_t offset, std::uint64_t bytes) noexcept {
    const std::uint64_t number = state_.punches.load(std::memory_order_relaxed);
    // A release, so that whoever reads the new entry in place of an old one also finds the count that makes it new.
    state_.punched[number % kPunchesKept].store((offset / kPage) << 32 | bytes / kPage,
                                                std::memory_order_release);
    sync::crash_fence();
    state_.punches.store(number + 1, std::memory_order_release);
  }

  std::uint64_t count() const noexcept { return state_.punches.load(std::memory_order_acquire); }

  // Visits the ranges from the `seen`th on and raises `seen`. False: there were more than the log keeps; some of those
  // visited may be wrong, and others are missing.
  template <class Visit>
  bool since(std::uint64_t& seen, Visit&& visit) const {
    const std::uint64_t first = seen;
    const std::uint64_t end = count();
    seen = end;
    if (end - first >= kPunchesKept) return false;
    for (std::uint64_t number = first; number != end; ++number) {
      const std::uint64_t entry = state_.punched[number % kPunchesKept].load(std::memory_order_acquire);
      visit((entry >> 32) * kPage, (entry & 0xffffffffU) * kPage);
    }
    // An entry is overwritten before the count says so: the one that is being written now may be any of the oldest.
    return count() - first < kPunchesKept;
  }

 private:
  static constexpr std::uint64_t kPage = 4096;
  ArenaState& state_;
};

// A process's part that keeps pages of the data segment by other means than mappings.
class PunchWatcher {
 public:
  virtual ~PunchWatcher() = default;
  // This process is about to punch a range, whose block nobody uses. False: it must not.
  virtual bool before_punch(std::uint64_t offset, std::uint64_t bytes) noexcept = 0;
  // This process has got a block, or waits: other processes may have punched ranges since. May be called by any thread,
  // often.
  virtual void catch_up() noexcept = 0;
};

}  // namespace forklift::inline abi_0_1::arena
