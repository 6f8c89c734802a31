// ProcessContext: a group of processes that stop together. Made by forklift::spawn (forklift/group.h), or of
// processes that were started one by one:
//
//   forklift::ProcessContext group(std::move(workers));
//   while (!group.try_join(100ms)) draw_progress();
//
// join() waits for all at once. The first member that fails ends the others, whichever rank it has: SIGTERM
// to all, SIGKILL to those that are still there when the grace is over; then join() throws what happened:
// ProcessRaisedError for an exception (with type, message, stack, rank, pid), ProcessExitedError for a signal
// or an exit code other than 0. It throws the same each time it is called.
//
// A group that goes out of scope is joined, however long that takes, and a failure that nobody asked for is logged
// (log.h); while an exception leaves the scope its members are stopped instead. Where this process is killed, members go
// on unless they are daemons (SpawnOptions::daemon).
//
// Thread safety: one thread at a time per object. Process safety: an object means something in the process
// that made it only.
//
// Invariants: after join() has returned true or thrown, no member runs. Waiting costs no processor time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "forklift/process.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

namespace detail {
class GroupCore;
}

class ProcessContext {
 public:
  // Between SIGTERM and SIGKILL.
  static constexpr std::chrono::seconds kGrace{5};

  // Precondition: all of them are started. The error's rank is the process's own, or else its place here.
  explicit ProcessContext(std::vector<Process> processes, std::chrono::nanoseconds grace = kGrace);
  // Starts them. If one cannot be, the others are stopped, and its Error is thrown.
  static ProcessContext start(std::vector<Process> processes, std::chrono::nanoseconds grace = kGrace);
  ProcessContext(ProcessContext&&) noexcept;
  ProcessContext& operator=(ProcessContext&&) = delete;
  ~ProcessContext();

  // Until all have ended, or one has failed: then ends the others and throws its error.
  void join() { join_within(detail::kForever); }
  // False: some still ran when the wait was over, and none had failed.
  [[nodiscard]] bool try_join(const Wait& wait = Wait::now()) { return join_within(wait); }

  // Ends all members: SIGTERM, after the grace SIGKILL. What they threw meanwhile is nobody's.
  void stop();

  // The members, by rank.
  std::size_t size() const noexcept { return processes_.size(); }
  Process& operator[](std::size_t rank) { return processes_.at(rank); }
  std::vector<pid_t> pids() const;

 private:
  explicit ProcessContext(std::chrono::nanoseconds grace);
  void add(Process process);
  bool join_within(detail::Limit limit);
  // Looks at those that have ended; the worst of what it finds is the failure.
  void collect(const std::vector<std::size_t>& ended);

  std::vector<Process> processes_;
  std::unique_ptr<detail::GroupCore> core_;  // of the processes' sentinels; null after a move
  std::chrono::nanoseconds grace_;
  std::exception_ptr failure_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace forklift::inline abi_0_1
