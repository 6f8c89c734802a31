// forklift/this_process.h, and the list of children behind it.
#include "forklift/this_process.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "api/children.h"
#include "api/stop.h"
#include "forklift/error.h"
#include "os/proc.h"
#include "process/child.h"
#include "process/identity.h"

namespace forklift::inline abi_0_1 {

namespace process {

Children& children() {
  static Children* const all = [] {
    auto* made = new Children;  // Process objects with static storage outlive main
    // Held across a fork, so that the child finds a whole list, of which none is its child.
    ::pthread_atfork([] { children().mutex_.lock(); }, [] { children().mutex_.unlock(); },
                     [] {
                       children().entries_.clear();
                       children().mutex_.unlock();
                     });
    return made;
  }();
  return *all;
}

void Children::add(const void* key, ProcessInfo info, int sentinel) {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.insert_or_assign(key, Entry{std::move(info), sentinel});
}

void Children::remove(const void* key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.erase(key);
}

std::vector<ProcessInfo> Children::running() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<ProcessInfo> found;
  for (const auto& [key, entry] : entries_) {
    pollfd item{entry.sentinel, POLLIN, 0};
    if (::poll(&item, 1, 0) == 0) found.push_back(entry.info);
  }
  return found;
}

}  // namespace process

ProcessInfo this_process() {
  const process::Identity& self = process::own_identity();
  return {self.name, ::getpid(), self.rank, self.daemon, self.world_size};
}

std::vector<ProcessInfo> active_children() { return process::children().running(); }

struct ParentProcess::State {
  process::Parent parent;
  os::Fd sentinel;
};

const std::string& ParentProcess::name() const noexcept { return state_->parent.name; }
pid_t ParentProcess::pid() const noexcept { return state_->parent.pid; }
int ParentProcess::sentinel() const noexcept { return state_->sentinel.get(); }

bool ParentProcess::is_alive() const { return !join_within(0); }

bool ParentProcess::join_within(detail::Limit limit) const {
  return value_or_throw(
      process::wait_for_end(state_->sentinel, detail::deadline_of(limit), detail::stop_of(limit)));
}

std::optional<ParentProcess> parent_process() {
  auto state = std::make_shared<ParentProcess::State>();
  state->parent = process::own_parent();
  const pid_t pid = state->parent.pid;
  if (pid == 0) return std::nullopt;
  Result<os::Fd> pidfd = os::open_pidfd(pid);
  // While it is still our parent after that, the descriptor cannot be another's who got its pid.
  if (pidfd && ::getppid() == pid) {
    state->sentinel = *std::move(pidfd);
  } else if (!pidfd && pidfd.status().errno_value() != ESRCH) {
    throw Error(pidfd.status());
  } else {
    state->sentinel = os::Fd(::eventfd(1, EFD_CLOEXEC));  // readable for ever: it has ended
    if (!state->sentinel.valid()) throw Error(Status::system("eventfd", errno, "an ended parent's sentinel"));
  }
  return ParentProcess(std::move(state));
}

}  // namespace forklift::inline abi_0_1
