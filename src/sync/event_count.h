// An event count: what a process sleeps on until another one has made a condition true. It recovers by itself
// from the death of a sleeper.
//
//   while (!condition()) {
//     EventCount::Ticket ticket = event.prepare();
//     if (condition()) { event.cancel(ticket); break; }
//     event.wait(ticket, slice_ns);
//   }
//   ... and at the other end, after making the condition true:
//   event.notify(1);
//
// `notify` costs a fence and a load while nobody sleeps. Sleepers are counted, and a sleeper that was killed
// leaves its count behind. The next notify that wakes nobody opens a new era with a count of zero and wakes
// all, so a stale count costs one system call, not one for every message.
//
// No wake-up is lost: a ticket holds the value that the bell had *before* the registration. A notify that
// opens a new era increments the bell afterwards, so a sleeper whose registration was wiped finds the bell
// changed and does not sleep.
//
// A death can still swallow a wake-up: the one sleeper that was woken is killed before it acts. Therefore no
// thread sleeps longer than a slice (below) before it checks its condition itself.
//
// An event can also be watched, by wait sets (watch/watches.h): then each notify calls the watch hook. A bit beside the
// count of sleepers says so, so that a notify of an event without sleepers and watches still costs one load.
//
// Source: event counts, D. P. Reed and R. K. Kanodia, CACM 22(2), 1979; the futex protocol is Linux's
// futex(2).
#pragma once

#include "os/futex.h"
#include "sync/word.h"

namespace forklift::inline abi_0_1::sync {

// The longest sleep before a thread checks by itself. It bounds how long a swallowed wake-up or a death can
// go unnoticed. After kQuietAfter slices in a row in which nothing happened, a thread takes the longer slice,
// at 2 wake-ups a second (about 0.01 % of a processor).
inline constexpr std::int64_t kSliceNs = 200'000'000;
inline constexpr std::int64_t kQuietSliceNs = 500'000'000;
inline constexpr int kQuietAfter = 5;

// A slice bounds what a *death* can delay; between live processes every wait ends by a notification. Builds
// with FORKLIFT_LONG_SLICES test that claim: in them a sleeper that was not woken checks for deaths and polls
// its hooks as usual, but checks its own condition only after ten seconds, so that a missing notification
// shows as a test that takes that long.
#ifdef FORKLIFT_LONG_SLICES
inline constexpr bool kLongSlices = true;
#else
inline constexpr bool kLongSlices = false;
#endif
inline constexpr std::int64_t kLongSliceNs = 10'000'000'000;
// The slice for a sleeper that does nothing at the end of a slice but check its condition.
constexpr std::int64_t lengthened(std::int64_t slice) noexcept {
  return kLongSlices && slice < kLongSliceNs ? kLongSliceNs : slice;
}

// How long this thread may sleep now. note_sleep() records how its last sleep ended.
std::int64_t slice_ns() noexcept;
void note_sleep(std::int64_t slept_for_ns, bool nothing_happened) noexcept;

// Lives in shared memory; all-zero is a valid state. Any number of waiters and notifiers, no lock.
class EventCount {
 public:
  struct Ticket {
    std::uint32_t bell;
    std::uint32_t era;
  };

  Ticket prepare() noexcept {
    const std::uint32_t bell = bell_.load(std::memory_order_acquire);
    const std::uint64_t before = sleepers_.fetch_add(1, std::memory_order_seq_cst);
    full_fence();
    return {bell, static_cast<std::uint32_t>(before >> 32)};
  }

  // Sleeps until notified or for `timeout_ns`, and cancels the ticket in any case.
  os::FutexWait wait(Ticket ticket, std::int64_t timeout_ns) noexcept {
    const os::FutexWait how = sleep(ticket, timeout_ns);
    cancel(ticket);
    return how;
  }
  // As wait(), but does not cancel the ticket.
  os::FutexWait sleep(Ticket ticket, std::int64_t timeout_ns) noexcept {
    const os::FutexWait how = os::futex_wait(bell_, ticket.bell, timeout_ns);
    note_sleep(timeout_ns, how == os::FutexWait::kTimedOut);
    return how;
  }

  // For sleeping on several events at once (os::futex_wait_any); the caller cancels the ticket afterwards.
  os::FutexWord word(Ticket ticket) const noexcept { return {&bell_, ticket.bell}; }

  void cancel(Ticket ticket) noexcept {
    std::uint64_t now = sleepers_.load(std::memory_order_relaxed);
    while ((now >> 32) == ticket.era && (now & kCount) != 0 &&
           !sleepers_.compare_exchange_weak(now, now - 1, std::memory_order_relaxed)) {
    }
  }

  // A hint: sleepers come and go at any time, and a killed one is counted until a notify wakes nobody.
  bool has_sleepers() const noexcept { return (sleepers_.load(std::memory_order_relaxed) & kCount) != 0; }
  // The same hint of sleepers and watches: would a notify do anything?
  bool is_awaited() const noexcept {
    return (sleepers_.load(std::memory_order_relaxed) & (kCount | kWatched)) != 0;
  }
  // Wakes at most `count` sleepers, and tells every watch.
  void notify(int count) noexcept {
    full_fence();
    if (is_awaited()) notify_slow(count);
  }
  // As notify, for use directly after unlocking the mutex under which the condition was made true, or after
  // the atomic read-modify-write that made it true.
  void notify_after_unlock(int count) noexcept {
    unlock_fence();
    if (is_awaited()) notify_slow(count);
  }

  // From here on each notify calls the hook, or no longer. Changed under the lock of the table of watches. Who watches
  // looks at the condition after watch(), as a sleeper does after prepare().
  void watch() noexcept {
    sleepers_.fetch_or(kWatched, std::memory_order_seq_cst);
    full_fence();
  }
  void unwatch() noexcept { sleepers_.fetch_and(~kWatched, std::memory_order_relaxed); }
  bool is_watched() const noexcept { return (sleepers_.load(std::memory_order_relaxed) & kWatched) != 0; }

 private:
  static constexpr std::uint64_t kCount = 0x7fffffff;
  static constexpr std::uint64_t kWatched = 0x80000000;
  void notify_slow(int count) noexcept;
  void wake(int count) noexcept;

  std::atomic<std::uint32_t> bell_;
  [[maybe_unused]] std::uint32_t unused_;
  Word sleepers_;  // {era:32, watched:1, count:31}
};
static_assert(sizeof(EventCount) == 16);

// Called by each notify of a watched event, after its sleepers were woken. The table of watches, which knows them, sets
// it when the process attaches to its first domain. It waits for nobody.
using WatchHook = void (*)(EventCount& event) noexcept;
inline constinit std::atomic<WatchHook> watch_hook{nullptr};

// The longest spin before a sleep, unless the caller knows better. A futex wake-up costs 6 to 29 us; a
// spinning reader sees a store after 0.1 us.
inline constexpr std::int64_t kSpinNs = 20'000;

// Spins until `condition()` holds or `longest_ns` have passed. Returns whether the condition came true.
template <class Condition>
bool spin_for(Condition&& condition, std::int64_t (*now_ns)() noexcept, std::int64_t longest_ns = kSpinNs) {
  const std::int64_t limit = now_ns() + longest_ns;
  for (;;) {
    for (int i = 0; i < 64; ++i) {
      if (condition()) return true;
      cpu_relax();
    }
    if (now_ns() >= limit) return condition();
  }
}

}  // namespace forklift::inline abi_0_1::sync
