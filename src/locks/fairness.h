// Hands a lock to a waiter that has waited for it for long.
//
// A thread that releases a lock and wants it again takes it before the waiter that was woken can. With short
// holds that is what makes a contended lock fast, and waiters are overtaken only now and then. But where one
// thread holds the lock most of the time (it works under the lock, releases it for an instant, and acquires
// it again), a waiter would be overtaken for seconds. So a waiter that was overtaken and has waited for
// kLongNs says so in the row. A process that then releases the lock and wakes a waiter lets others take it
// first, the next time that it would wait for the lock.
//
// This is only a hint between the processes that use the lock, and no part of its ownership: if it is wrong
// or stale, since a waiter was killed, it costs one wait of kGiveWayNs. A caller that only tries gets a free
// lock at any time.
//
// Source: the starvation mode of Go's sync.Mutex.
//
// Thread safety: yes.
#pragma once

#include <sched.h>

#include <atomic>

#include "locks/tables.h"
#include "os/clock.h"

namespace forklift::inline abi_0_1::locks {

// LockRow::overtaken: bit 0 is set while a waiter has waited long; the bits above count how often a waiter
// that had slept then got the lock.
inline constexpr std::uint64_t kWaitsLong = 1;
inline constexpr std::uint64_t kGotIt = 2;

class Fairness {
 public:
  static constexpr std::int64_t kLongNs = 1'000'000;     // a wait of this length is long
  static constexpr std::int64_t kGiveWayNs = 2'000'000;  // how long others get to take the lock

  // Has this process released the lock while somebody had waited long, and not given way since?
  bool owes() const noexcept { return owed_.load(std::memory_order_relaxed) != 0; }
  // Called before a waiter is woken: the debt for owe(); 0: none.
  static std::uint64_t debt(const LockRow& row) noexcept {
    const std::uint64_t word = row.overtaken.load(std::memory_order_relaxed);
    return (word & kWaitsLong) != 0 && row.event.has_sleepers() ? word : 0;
  }
  void owe(std::uint64_t debt) noexcept {
    owed_at_ns_.store(os::now_ns(), std::memory_order_relaxed);
    owed_.store(debt, std::memory_order_relaxed);
  }

  // Waits until the lock is taken, a waiter has had it, or kGiveWayNs have passed since the release.
  template <class Taken>
  void yield_turn(LockRow& row, Taken&& taken) noexcept {
    const std::uint64_t word = owed_.exchange(0, std::memory_order_relaxed);
    const std::int64_t limit = owed_at_ns_.load(std::memory_order_relaxed) + kGiveWayNs;
    if (os::now_ns() >= limit) return;  // the release was long ago
    while (!taken() && row.overtaken.load(std::memory_order_relaxed) == word) {
      if (os::now_ns() >= limit) {
        row.overtaken.fetch_and(~kWaitsLong, std::memory_order_relaxed);  // no waiter took it
        return;
      }
      ::sched_yield();
    }
  }

 private:
  std::atomic<std::uint64_t> owed_{0};
  std::atomic<std::int64_t> owed_at_ns_{0};
};

// One wait for a lock or semaphore. It tells the others through the row when it becomes a long one.
class LongWait {
 public:
  explicit LongWait(LockRow& row) noexcept : row_(row) {}
  void before_sleep() noexcept {
    if (since_ns_ == 0) since_ns_ = os::now_ns();
  }
  // This thread is awake, and another one has the lock.
  void overtaken() noexcept {
    if (since_ns_ != 0 && is_long()) row_.overtaken.fetch_or(kWaitsLong, std::memory_order_relaxed);
  }
  // As long as every wait is a long one, processes that release the lock let others take it first; the first
  // short wait, or the last waiter, ends that.
  void taken() noexcept {
    if (since_ns_ == 0 || (row_.overtaken.load(std::memory_order_relaxed) & kWaitsLong) == 0) return;
    row_.overtaken.fetch_add(kGotIt, std::memory_order_relaxed);
    if (!is_long() || !row_.event.has_sleepers())
      row_.overtaken.fetch_and(~kWaitsLong, std::memory_order_relaxed);
  }

 private:
  bool is_long() const noexcept { return os::now_ns() - since_ns_ >= Fairness::kLongNs; }

  LockRow& row_;
  std::int64_t since_ns_ = 0;
};

}  // namespace forklift::inline abi_0_1::locks
