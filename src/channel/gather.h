// When a getter that outruns its putter looks for the next message.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "os/clock.h"
#include "sync/word.h"

namespace forklift::inline abi_0_1::channel {

// Lets messages gather for a getter that outruns its putter. Each look of such a getter at the tail takes that cache
// line from the putter, and both pay for it with each message; a getter that looks a little later finds several, and
// the line has moved once for all of them.
//
// It pauses only where its last waits all ended within a few looks. An end that answers, where the next message comes a
// round trip later, seldom gets there. A pause after which there are not two messages stops the pausing; the next try
// comes after twice as many such waits, so that pauses in vain cost next to nothing.
//
// Thread safety: yes; an update that is lost between threads only delays the learning.
class GatherPolicy {
 public:
  static constexpr std::int64_t kPauseNs = 300;
  static constexpr int kFewLooks = 24;
  static constexpr int kFirstWaits = 16, kMostWaits = 4096;

  // Whether the wait that begins shall pause before its first look.
  bool pauses() const noexcept { return left_.load(std::memory_order_relaxed) == 0; }
  void pause() const noexcept {
    const std::int64_t until = os::now_ns() + kPauseNs;
    do {
      for (int i = 0; i < 4; ++i) sync::cpu_relax();
    } while (os::now_ns() < until);
  }
  // A wait has ended after so many looks, with so many messages.
  void note(bool paused, int looks, std::uint32_t messages) noexcept {
    if (paused) {
      if (looks <= 1 && messages >= 2) return;  // they gathered: so does the next wait
      const int next = std::min(next_.load(std::memory_order_relaxed) * 2, kMostWaits);
      next_.store(next, std::memory_order_relaxed);
      left_.store(next, std::memory_order_relaxed);
    } else if (looks <= kFewLooks && messages != 0) {
      const int left = left_.load(std::memory_order_relaxed);
      if (left > 0) left_.store(left - 1, std::memory_order_relaxed);
    } else {
      left_.store(next_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
  }

 private:
  std::atomic<int> left_{kFirstWaits};  // waits that have to end soon before one pauses
  std::atomic<int> next_{kFirstWaits};
};

}  // namespace forklift::inline abi_0_1::channel
