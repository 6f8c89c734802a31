// A lock between the threads of one process, for a few instructions, that a fork cannot leave locked in the child.
//
//   const ProcessLock lock(word, owner_word(self));
//   if (lock.was_inherited()) ...   // another thread of the parent held it at the fork: what it guards may be half changed
//
// The word says which process has locked it: 0, or the owner's.
//
// Thread safety: the point. Precondition: the process has a slot.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "sync/spin_lock.h"

namespace forklift::inline abi_0_1::service {

class ProcessLock {
 public:
  ProcessLock(std::atomic<std::uint64_t>& word, std::uint64_t self) noexcept : word_(word) {
    if (sync::single_threaded()) {  // then no locked instruction is needed
      inherited_ = word_.load(std::memory_order_relaxed) != 0;
      word_.store(self, std::memory_order_relaxed);
      return;
    }
    for (;;) {
      std::uint64_t holder = 0;
      if (word_.compare_exchange_strong(holder, self, std::memory_order_acquire)) return;
      if (holder == self) {
        ::sched_yield();
      } else if (word_.compare_exchange_strong(holder, self, std::memory_order_acquire)) {
        inherited_ = true;
        return;
      }
    }
  }
  ~ProcessLock() { word_.store(0, std::memory_order_release); }
  ProcessLock(const ProcessLock&) = delete;
  ProcessLock& operator=(const ProcessLock&) = delete;
  bool was_inherited() const noexcept { return inherited_; }

 private:
  std::atomic<std::uint64_t>& word_;
  bool inherited_ = false;
};

}  // namespace forklift::inline abi_0_1::service
