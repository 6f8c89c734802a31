#include "sync/spin_lock.h"

#include <sched.h>
#include <time.h>

namespace forklift::inline abi_0_1::sync {

void SpinLock::wait() noexcept {
  constexpr int kLooks = 200;
  constexpr int kYields = 20;
  for (int turn = 0;; ++turn) {
    for (int look = 0; look < kLooks; ++look) {
      if (!taken_.load(std::memory_order_relaxed) && !taken_.exchange(true, std::memory_order_acquire))
        return;
      cpu_relax();
    }
    if (turn < kYields) {
      ::sched_yield();
    } else {
      const timespec pause{0, 50'000};
      ::nanosleep(&pause, nullptr);
    }
  }
}

}  // namespace forklift::inline abi_0_1::sync
