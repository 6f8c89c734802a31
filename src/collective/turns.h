// The order of a rank's calls: each takes a turn when it is issued, and runs when all turns before it are over. So the
// calls of several threads, and those of futures, happen one after the other in the order in which they were issued
// (decisions/0222).
//
//   const std::uint64_t turn = turns.take();
//   if (Status status = turns.wait(turn, limits); !status) return status;    // the turn is given up
//   ...
//   turns.pass(turn);
//
// Thread safety: yes. Without contention a turn costs two locked instructions, and none in a process with one thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>

#include "collective/rank_transport.h"
#include "sync/spin_lock.h"

namespace forklift::inline abi_0_1::collective {

class Turns {
 public:
  std::uint64_t take() noexcept {
    if (!sync::single_threaded()) return issued_.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t turn = issued_.load(std::memory_order_relaxed);
    issued_.store(turn + 1, std::memory_order_relaxed);
    return turn;
  }
  // kTimeout, or the hooks' status.
  Status wait(std::uint64_t turn, const WaitLimits& limits) {
    if (served_.load(std::memory_order_acquire) == turn) [[likely]]
      return {};
    return wait_long(turn, limits);
  }
  void pass(std::uint64_t turn) {
    if (sync::single_threaded()) {
      served_.store(turn + 1, std::memory_order_relaxed);
    } else {
      served_.store(turn + 1, std::memory_order_seq_cst);
    }
    if (interested_.load(std::memory_order_seq_cst) != 0) wake();
  }

 private:
  Status wait_long(std::uint64_t turn, const WaitLimits& limits);
  void wake();
  void skip_given_up();

  std::atomic<std::uint64_t> issued_{0};
  std::atomic<std::uint64_t> served_{0};
  std::atomic<int> interested_{0};  // waiters, and turns that were given up
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::uint64_t> given_up_;
};

}  // namespace forklift::inline abi_0_1::collective
