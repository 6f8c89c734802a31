#include "sync/event_count.h"

#include <climits>

namespace forklift::inline abi_0_1::sync {

namespace {
thread_local int quiet_slices = 0;
}  // namespace

std::int64_t slice_ns() noexcept { return quiet_slices < kQuietAfter ? kSliceNs : kQuietSliceNs; }

void note_sleep(std::int64_t slept_for_ns, bool nothing_happened) noexcept {
  if (!nothing_happened) {
    quiet_slices = 0;
  } else if (slept_for_ns >= kSliceNs && quiet_slices < kQuietAfter) {
    ++quiet_slices;
  }
}

void EventCount::notify_slow(int count) noexcept {
  if (has_sleepers()) wake(count);
  if (!is_watched()) return;
  if (const WatchHook hook = watch_hook.load(std::memory_order_acquire)) hook(*this);
}

void EventCount::wake(int count) noexcept {
  bell_.fetch_add(1, std::memory_order_seq_cst);
  if (os::futex_wake(bell_, count) > 0) return;
  // A sleeper is registered, but none was woken: the count is that of a dead sleeper, or of one that is just
  // about to sleep (and will not, since the bell has changed). A new era drops the former and costs the
  // latter one more check.
  std::uint64_t now = sleepers_.load(std::memory_order_relaxed);
  if ((now & kCount) == 0) return;
  const std::uint64_t next_era = (((now >> 32) + 1) << 32) | (now & kWatched);
  if (!sleepers_.compare_exchange_strong(now, next_era, std::memory_order_seq_cst)) return;
  bell_.fetch_add(1, std::memory_order_seq_cst);
  os::futex_wake(bell_, INT_MAX);
}

}  // namespace forklift::inline abi_0_1::sync
