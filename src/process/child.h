// A child of this process, or its parent: waiting for its end; of a child, how it ended; signals.
//
// Thread safety: none; one thread at a time.
#pragma once

#include <sys/types.h>

#include <optional>
#include <stop_token>

#include "os/clock.h"
#include "os/fd.h"

namespace forklift::process {

// Until the process behind the pidfd has ended. False: the deadline passed, or a stop was requested.
Result<bool> wait_for_end(const os::Fd& pidfd, os::Deadline deadline, const std::stop_token& stop);

class Child {
 public:
  // Precondition: `pid` is a child of this process that nobody has waited for.
  static Result<Child> watch(pid_t pid);

  // Waits for the end: true when it has come; false when the deadline passed or a stop was requested. At the
  // end the child is waited for, its pid free for others.
  Result<bool> wait(os::Deadline deadline, const std::stop_token& stop = {});
  // Ok also when it is gone already.
  Status signal(int number) const;

  pid_t pid() const noexcept { return pid_; }
  // Becomes readable when it has ended.
  int sentinel() const noexcept { return pidfd_.get(); }
  // After the end: exit code, or minus the signal's number; 255 when somebody else has waited for it.
  std::optional<int> exitcode() const noexcept { return exitcode_; }

 private:
  Status collect();

  pid_t pid_ = 0;
  os::Fd pidfd_;
  std::optional<int> exitcode_;
};

}  // namespace forklift::process
