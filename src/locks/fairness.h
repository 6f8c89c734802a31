// Letting a waiter have the lock for which it has waited long.
//
// Who releases a lock and wants it again takes it before the one that was woken for it can: for short holds
// that is what makes a contended lock fast, and whoever waits is overtaken now and then. Where somebody holds
// it most of the time (works inside of it, lets go for an instant, and comes again), a waiter would be
// overtaken for seconds. So a waiter that was overtaken and has waited for kLong says so in the row; who
// releases then, and has woken somebody, lets others take it first the next time that it wants to wait for
// it.
//
// Only a word between those who are there, no part of who holds what: when it is wrong or stale, since a
// waiter was killed, it costs one wait of kGiveWay. What is free can be had at any time by who only tries.
//
// Source: the starvation mode of Go's sync.Mutex.
//
// Thread safety: yes.
#pragma once

#include <sched.h>

#include <atomic>

#include "locks/tables.h"
#include "os/clock.h"

namespace forklift::locks {

// LockRow::overtaken: bit 0 while somebody has waited long, above it how often one who had slept has got it.
inline constexpr std::uint64_t kWaitsLong = 1;
inline constexpr std::uint64_t kGotIt = 2;

class Fairness {
 public:
  static constexpr std::int64_t kLongNs = 1'000'000;     // so long a wait is long
  static constexpr std::int64_t kGiveWayNs = 2'000'000;  // others have so long to take it

  // Has this process just released it to somebody who waited long?
  bool owes() const noexcept { return owed_.load(std::memory_order_relaxed) != 0; }
  // Before somebody is woken: what to owe them; 0: nothing.
  static std::uint64_t debt(const LockRow& row) noexcept {
    const std::uint64_t word = row.overtaken.load(std::memory_order_relaxed);
    return (word & kWaitsLong) != 0 && row.event.has_sleepers() ? word : 0;
  }
  void owe(std::uint64_t debt) noexcept {
    owed_at_ns_.store(os::now_ns(), std::memory_order_relaxed);
    owed_.store(debt, std::memory_order_relaxed);
  }

  // Until it is not free any more, somebody has had it, or others had their time.
  template <class Taken>
  void give_way(LockRow& row, Taken&& taken) noexcept {
    const std::uint64_t word = owed_.exchange(0, std::memory_order_relaxed);
    const std::int64_t limit = owed_at_ns_.load(std::memory_order_relaxed) + kGiveWayNs;
    if (os::now_ns() >= limit) return;  // that was long ago
    while (!taken() && row.overtaken.load(std::memory_order_relaxed) == word) {
      if (os::now_ns() >= limit) {
        row.overtaken.fetch_and(~kWaitsLong, std::memory_order_relaxed);  // nobody came
        return;
      }
      ::sched_yield();
    }
  }

 private:
  std::atomic<std::uint64_t> owed_{0};
  std::atomic<std::int64_t> owed_at_ns_{0};
};

// One wait for a lock or semaphore, as the others should know of it.
class LongWait {
 public:
  explicit LongWait(LockRow& row) noexcept : row_(row) {}
  void before_sleep() noexcept {
    if (since_ns_ == 0) since_ns_ = os::now_ns();
  }
  // Woken, and somebody else has it.
  void overtaken() noexcept {
    if (since_ns_ != 0 && is_long()) row_.overtaken.fetch_or(kWaitsLong, std::memory_order_relaxed);
  }
  // While each wait is a long one all are polite; the first short one, or the last, ends that.
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

}  // namespace forklift::locks
