// Waits that a std::stop_token ends: the token's callback wakes whoever sleeps, the hooks then say why.
//
//   const Status got = wait_stoppable(
//       stop, [&](WaitHooks* hooks) { return channel.get(message, deadline, hooks); },
//       [&] { channel.wake_all(); });
//
// Thread safety: the callback may run in any thread, also before the wait begins. A stop that falls between
// the last look and the sleep is seen at the end of a slice.
#pragma once

#include <stop_token>
#include <utility>

#include "domain/waiting.h"
#include "forklift/error.h"
#include "forklift/wait.h"
#include "os/clock.h"

namespace forklift::inline abi_0_1::detail {

// Without asking the clock where it does not matter.
inline os::Deadline deadline_of(Limit limit) noexcept {
  if (limit.stop != nullptr && limit.stop->stop_requested()) return os::Deadline::after_ns(0);
  return limit.ns == kForever ? os::Deadline::never() : os::Deadline::after_ns(limit.ns);
}

inline const std::stop_token kNeverStopped;

// The token that ends the wait; one that never does where there is none.
inline const std::stop_token& stop_of(Limit limit) noexcept {
  return limit.stop != nullptr ? *limit.stop : kNeverStopped;
}

// Is it that the wait is over, and no failure?
inline bool is_over(const Status& status) noexcept {
  return status.code() == Code::kTimeout || status.code() == Code::kInterrupted;
}

// True: done. False: the wait is over. Throws Closed for kClosed and Error for anything else.
inline bool settled(const Status& status) {
  if (status.ok()) [[likely]]
    return true;
  if (is_over(status)) return false;
  if (status.code() == Code::kClosed) throw Closed(status);
  throw Error(status);
}

class StopHooks final : public domain::WaitHooks {
 public:
  explicit StopHooks(const std::stop_token& stop) noexcept : stop_(stop) {}
  Status poll() override {
    return stop_.stop_requested() ? Status(Code::kInterrupted, "stop was requested") : Status();
  }

 private:
  const std::stop_token& stop_;
};

// What `wait(hooks)` answers; `wake()` makes it look at the hooks. kInterrupted: stop was requested. A null
// `stop`: none.
template <class Wait, class Wake>
Status wait_stoppable(const std::stop_token* stop, Wait&& wait, Wake&& wake) {
  if (stop == nullptr || !stop->stop_possible()) return wait(nullptr);
  StopHooks hooks(*stop);
  const std::stop_callback callback(*stop, std::forward<Wake>(wake));
  if (stop->stop_requested()) return hooks.poll();
  return wait(&hooks);
}

}  // namespace forklift::inline abi_0_1::detail
