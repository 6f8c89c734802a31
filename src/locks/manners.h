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

class Manners {
 public:
  static constexpr std::int64_t kLongNs = 1'000'000;     // so long a wait is long
  static constexpr std::int64_t kGiveWayNs = 2'000'000;  // others have so long to take it

  // Has this process just released it to somebody who waited long?
  bool owes() const noexcept { return owes_.load(std::memory_order_relaxed); }
  // Before somebody is woken. Does anybody wait who has waited long?
  static bool waited_for(const LockRow& row) noexcept {
    return row.overtaken.load(std::memory_order_relaxed) != 0 && row.event.has_sleepers();
  }
  void owe() noexcept { owes_.store(true, std::memory_order_relaxed); }

  // Until it is not free any more, or others had their time.
  template <class Taken>
  void give_way(LockRow& row, Taken&& taken) noexcept {
    owes_.store(false, std::memory_order_relaxed);
    const std::int64_t limit = os::now_ns() + kGiveWayNs;
    while (!taken()) {
      if (os::now_ns() >= limit) {
        row.overtaken.store(0, std::memory_order_relaxed);  // nobody came
        return;
      }
      ::sched_yield();
    }
  }

 private:
  std::atomic<bool> owes_{false};
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
    if (is_long() && row_.overtaken.load(std::memory_order_relaxed) == 0)
      row_.overtaken.store(1, std::memory_order_relaxed);
  }
  // While each wait is a long one all are polite; the first short one ends that.
  void taken() noexcept {
    if (since_ns_ != 0 && row_.overtaken.load(std::memory_order_relaxed) != 0 && !is_long())
      row_.overtaken.store(0, std::memory_order_relaxed);
  }

 private:
  bool is_long() const noexcept { return since_ns_ != 0 && os::now_ns() - since_ns_ >= Manners::kLongNs; }

  LockRow& row_;
  std::int64_t since_ns_ = 0;
};

}  // namespace forklift::locks
