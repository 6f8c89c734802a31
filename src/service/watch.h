// What a waiting client or server looks at once in a while, beside its caller's hooks.
//
//   Watch watch([&] { return look(exchange); }, hooks, kLookNs);
//   Status put = channel.put(message, deadline, &watch);
//
// Thread safety: one thread's.
#pragma once

#include <algorithm>
#include <utility>

#include "domain/waiting.h"

namespace forklift::inline abi_0_1::service {

// `look` returns a Status: a failure ends the wait.
template <class Look>
class Watch final : public domain::WaitHooks {
 public:
  Watch(Look look, domain::WaitHooks* hooks, std::int64_t slice) noexcept
      : look_(std::move(look)), hooks_(hooks) {
    slice_ns = hooks != nullptr ? std::min(hooks->slice_ns, slice) : slice;
  }
  Status poll() override {
    if (hooks_ != nullptr) {
      if (Status status = hooks_->poll(); !status) return status;
    }
    return look_();
  }

 private:
  Look look_;
  domain::WaitHooks* hooks_;
};

}  // namespace forklift::inline abi_0_1::service
