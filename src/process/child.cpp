#include "process/child.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <string>
#include <vector>

#include "base/event_log.h"
#include "node/wait_any.h"
#include "os/proc.h"

namespace forklift::inline abi_0_1::process {

namespace {
constexpr int kUnknownExit = 255;
}  // namespace

Result<bool> wait_for_end(const os::Fd& pidfd, os::Deadline deadline, const std::stop_token& stop) {
  if (stop.stop_possible()) {
    const node::Source source{.descriptor = pidfd.get()};
    std::vector<std::size_t> ready;
    const Status status = node::wait_any({&source, 1}, deadline, stop, ready);
    if (status.ok()) return true;
    if (status.code() == Code::kTimeout || status.code() == Code::kInterrupted) return false;
    return status;
  }
  for (;;) {
    const std::int64_t left_ns = deadline.left_ns(std::int64_t{INT_MAX} * 1'000'000);
    Result<bool> ended =
        os::wait_pidfd(pidfd, deadline.is_never() ? -1 : static_cast<int>((left_ns + 999'999) / 1'000'000));
    if (!ended && ended.code() != Code::kInterrupted) return ended;
    if (ended && *ended) return true;
    if (deadline.passed()) return false;
  }
}

Result<Child> Child::watch(pid_t pid, std::string name) {
  Child child;
  child.pid_ = pid;
  child.name_ = std::move(name);
  if (event_log_on()) EventLine("started")("of", std::int64_t{pid})("name", child.name_).write();
  Result<os::Fd> pidfd = os::open_pidfd(pid);
  if (pidfd) {
    child.pidfd_ = *std::move(pidfd);
  } else if (pidfd.status().errno_value() == ESRCH) {
    // SIGCHLD is ignored: the kernel has reaped the child already. An eventfd is its sentinel, readable at
    // once.
    child.exitcode_ = kUnknownExit;
    child.pidfd_ = os::Fd(::eventfd(1, EFD_CLOEXEC));
    if (!child.pidfd_.valid()) return Status::system("eventfd", errno, "an ended child's sentinel");
  } else {
    return pidfd.status();
  }
  return child;
}

Result<bool> Child::wait(os::Deadline deadline, const std::stop_token& stop) {
  while (!exitcode_) {
    Result<bool> ended = wait_for_end(pidfd_, deadline, stop);
    if (!ended || !*ended) return ended;
    if (Status status = collect(); !status.ok()) return status;
    if (exitcode_) break;
    // Other code closed our descriptor (and everything else): ask the kernel now and then instead.
    ::usleep(10'000);
    if (deadline.passed() || stop.stop_requested()) return false;
  }
  return true;
}

Status Child::collect() {
  siginfo_t info{};
  int rc = 0;
  do {
    rc = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG);
  } while (rc != 0 && errno == EINTR);
  if (rc != 0 && errno != ECHILD) return Status::system("waitid", errno, "pid " + std::to_string(pid_));
  if (rc != 0) {
    exitcode_ = kUnknownExit;
  } else if (info.si_pid != 0) {
    exitcode_ = info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
    if (event_log_on()) {
      EventLine("ended")("of", std::int64_t{pid_})("name", name_)(
          info.si_code == CLD_EXITED ? "exit_code" : "signal", std::int64_t{info.si_status})
          .write();
    }
  }
  return {};
}

Status Child::signal(int number) const {
  if (exitcode_) return {};
  if (::syscall(SYS_pidfd_send_signal, pidfd_.get(), number, nullptr, 0) != 0 && errno != ESRCH) {
    return Status::system("pidfd_send_signal", errno, "pid " + std::to_string(pid_));
  }
  return {};
}

}  // namespace forklift::inline abi_0_1::process
