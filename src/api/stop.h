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

namespace forklift::detail {

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

}  // namespace forklift::detail
