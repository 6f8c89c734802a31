#include "process/group.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "node/wait_any.h"

namespace forklift::inline abi_0_1::process {

void Group::add(int pidfd) {
  running_.push_back(pidfds_.size());
  pidfds_.push_back(pidfd);
  signals_.push_back(0);
}

void Group::forget(const std::vector<std::size_t>& members) {
  std::erase_if(running_, [&](std::size_t member) {
    return std::find(members.begin(), members.end(), member) != members.end();
  });
}

Status Group::wait(os::Deadline deadline, const std::stop_token& stop, domain::WaitHooks* hooks,
                   std::vector<std::size_t>& ended) {
  std::vector<node::Source> sources;
  sources.reserve(running_.size());
  for (const std::size_t member : running_) sources.push_back({.descriptor = pidfds_[member]});
  Status status = node::wait_any(sources, deadline, stop, ended, hooks);
  if (!status) {
    ended.clear();
    return status;
  }
  for (std::size_t& index : ended) index = running_[index];
  forget(ended);
  return {};
}

Status Group::stop(const Ending& how, domain::WaitHooks* hooks, const Ended& ended) {
  Status status;
  if (how.patience_ns > 0) status = drain(os::Deadline::after_ns(how.patience_ns), hooks, ended);
  if (status) {
    status = signal_all(SIGTERM);
    if (status) status = drain(os::Deadline::after_ns(how.grace_ns), hooks, ended);
  }
  const Status killed = signal_all(SIGKILL);
  const Status over = drain(os::Deadline::never(), nullptr, ended);
  if (!status) return status;
  return killed ? over : killed;
}

// Ok when all have ended and when the deadline has passed.
Status Group::drain(os::Deadline deadline, domain::WaitHooks* hooks, const Ended& ended) {
  std::vector<std::size_t> members;
  while (!running_.empty()) {
    Status status = wait(deadline, {}, hooks, members);
    for (const std::size_t member : members) ended(member);
    if (status.code() == Code::kTimeout) return {};
    if (!status) return status;
  }
  return {};
}

Status Group::signal_all(int number) {
  Status status;
  for (const std::size_t member : running_) {
    signals_[member] = number;
    if (::syscall(SYS_pidfd_send_signal, pidfds_[member], number, nullptr, 0) != 0 && errno != ESRCH) {
      status = Status::system("pidfd_send_signal", errno, "member " + std::to_string(member) + " of a group");
    }
  }
  return status;
}

}  // namespace forklift::inline abi_0_1::process
