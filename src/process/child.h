// Watching a process: waiting for its end (a child or the parent), and for a child also its exit code and
// signals.
//
// Thread safety: none; one thread at a time.
#pragma once

#include <sys/types.h>

#include <optional>
#include <stop_token>
#include <string>

#include "os/clock.h"
#include "os/fd.h"

namespace forklift::inline abi_0_1::process {

// Waits until the process behind the pidfd has ended. False: the deadline passed, or a stop was requested.
Result<bool> wait_for_end(const os::Fd& pidfd, os::Deadline deadline, const std::stop_token& stop);

class Child {
 public:
  // Precondition: `pid` is a child of this process that has not been waited for. `name`: for the event log.
  static Result<Child> watch(pid_t pid, std::string name = {});

  // Waits for the child's end: true when it has ended; false when the deadline passed or a stop was
  // requested. After the end the child has been waited for, and its pid may be reused.
  Result<bool> wait(os::Deadline deadline, const std::stop_token& stop = {});
  // Ok also if the child has ended already.
  Status signal(int number) const;

  pid_t pid() const noexcept { return pid_; }
  // Becomes readable when the child has ended.
  int sentinel() const noexcept { return pidfd_.get(); }
  // After the end: exit code, or minus the signal's number; 255 if other code has waited for it.
  std::optional<int> exitcode() const noexcept { return exitcode_; }

 private:
  Status collect();

  pid_t pid_ = 0;
  std::string name_;
  os::Fd pidfd_;
  std::optional<int> exitcode_;
};

}  // namespace forklift::inline abi_0_1::process
