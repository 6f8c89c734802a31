// Processes that stop together: waits for any of them to end, and ends those that are left.
//
//   Group group;
//   for (const Child& child : children) group.add(child.sentinel());
//   std::vector<std::size_t> ended;
//   while (!group.running().empty()) {
//     if (Status status = group.wait(deadline, stop, nullptr, ended); !status) return status;
//     if (any_has_failed(ended)) return group.stop({.grace_ns = 5'000'000'000}, nullptr, collect);
//   }
//
// Members are pidfds, which the caller owns, so children and other processes will do. Which end is a failure
// the caller has to know: a Group neither collects exit codes nor waits in the sense of waitpid.
//
// Thread safety: none; one thread at a time. Idle waits use no processor time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <vector>

#include "domain/waiting.h"
#include "forklift/status.h"
#include "os/clock.h"

namespace forklift::inline abi_0_1::process {

class Group {
 public:
  // How stop() ends members.
  struct Ending {
    std::int64_t patience_ns = 0;  // for ending by themselves, before SIGTERM
    std::int64_t grace_ns = 0;     // between SIGTERM and SIGKILL
  };
  using Ended = std::function<void(std::size_t member)>;

  // Members are numbered from 0. `pidfd` stays open until the member has ended.
  void add(int pidfd);

  // Those whose end neither wait() nor stop() has told yet.
  const std::vector<std::size_t>& running() const noexcept { return running_; }
  // They have ended, as far as this group is concerned.
  void forget(const std::vector<std::size_t>& members);
  // The last signal that stop() sent to a member; 0: none.
  int signal_sent(std::size_t member) const noexcept { return signals_[member]; }

  // Waits until at least one of those that run has ended. `ended`: these, in rising order, also where the
  // result is kTimeout (then none). kInterrupted: a stop was requested, or what the hooks said. Precondition:
  // running() is not empty.
  Status wait(os::Deadline deadline, const std::stop_token& stop, domain::WaitHooks* hooks,
              std::vector<std::size_t>& ended);

  // Ends those that run: waits, SIGTERM, waits, SIGKILL. Returns when all have ended; `ended` is called for
  // each. If the hooks interrupt, SIGKILL comes at once, and their status is returned afterwards.
  Status stop(const Ending& how, domain::WaitHooks* hooks, const Ended& ended);

 private:
  Status drain(os::Deadline deadline, domain::WaitHooks* hooks, const Ended& ended);
  Status signal_all(int number);

  std::vector<int> pidfds_;
  std::vector<int> signals_;
  std::vector<std::size_t> running_;
};

}  // namespace forklift::inline abi_0_1::process
