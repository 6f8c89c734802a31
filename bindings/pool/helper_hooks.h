// What a thread that waits for a future's outcome does between two sleeps.
//
//   GilRelease released;
//   HelperHooks hooks(released, helping, [&] { return is_still_wanted(future); });   // with the interpreter lock
//   Status status = engine.collect(job, answers, most, deadline, &hooks);
#pragma once

#include "bindings/core/gil.h"
#include "bindings/pool/outcome_turns.h"

namespace forklift::py {

// A signal handler runs without the turn, since it may wait for a result of this executor. kTimeout, too, where the
// turn or what is waited for was lost to another thread meanwhile.
template <class Wanted>
class HelperHooks final : public channel::WaitHooks {
 public:
  HelperHooks(GilRelease& released, OutcomeTurns::Helping& helping, const Wanted& wanted)
      : released_(released), hooks_(released), helping_(helping), wanted_(wanted), main_(on_main_thread()) {}
  Status poll() override {
    if (!main_) return hooks_.poll();
    helping_.pause();
    Status status = hooks_.poll();
    if (!status) return status;
    const bool again = helping_.resume();
    released_.acquire();
    const bool wanted = wanted_();
    released_.release();
    if (again && wanted) return {};
    return {Code::kTimeout, "another thread takes the outcomes"};
  }

 private:
  GilRelease& released_;
  PyHooks hooks_;
  OutcomeTurns::Helping& helping_;
  const Wanted& wanted_;
  bool main_;
};

}  // namespace forklift::py
