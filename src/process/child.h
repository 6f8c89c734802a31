// A child of this process: waiting for its end, signals, how it ended.
//
// Thread safety: none; one thread at a time.
#pragma once

#include <sys/types.h>

#include <optional>

#include "os/clock.h"
#include "os/fd.h"

namespace forklift::process {

class Child {
 public:
  // Precondition: `pid` is a child of this process that nobody has waited for.
  static Result<Child> watch(pid_t pid);

  // Waits for the end: true when it has come. The child is waited for then, its pid free for others.
  Result<bool> wait(os::Deadline deadline);
  // Ok also when it is gone already.
  Status signal(int number) const;

  pid_t pid() const noexcept { return pid_; }
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
