// forklift::ProcessContext: waiting for all members at once.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <optional>

#include "api/stop.h"
#include "forklift/process_context.h"
#include "node/wait_any.h"

namespace forklift {
namespace {

// How much a failure tells about the cause: a member that threw says more than one that was ended by what
// that one did to it.
enum class Weight {
  kNone,
  kSignal,
  kExitCode,
  kException
};

struct Failure {
  Weight weight = Weight::kNone;
  std::exception_ptr error;
};

// Precondition: the process has ended.
Failure failure_of(Process& process, int rank) {
  try {
    process.join();
  } catch (const RemoteError& error) {
    RemoteError::Details details = error.details();
    details.rank = rank;
    return {Weight::kException, std::make_exception_ptr(ProcessRaisedError(std::move(details)))};
  }
  const int code = process.exitcode().value_or(0);
  if (code == 0) return {};
  return {code < 0 ? Weight::kSignal : Weight::kExitCode,
          std::make_exception_ptr(ProcessExitedError(process.name(), rank, process.pid(), code))};
}

// Those of `ranks` whose process has ended; none when the deadline passes or a stop is requested.
std::vector<std::size_t> wait_for_some(const std::vector<Process>& processes,
                                       const std::vector<std::size_t>& ranks, os::Deadline deadline,
                                       const std::stop_token& stop) {
  std::vector<node::Source> sources;
  sources.reserve(ranks.size());
  for (const std::size_t rank : ranks) sources.push_back({.descriptor = processes[rank].sentinel()});
  std::vector<std::size_t> ended;
  const Status status = node::wait_any(sources, deadline, stop, ended);
  if (!detail::settled(status)) return {};
  for (std::size_t& index : ended) index = ranks[index];
  return ended;
}

}  // namespace

ProcessContext::ProcessContext(std::vector<Process> processes, std::chrono::nanoseconds grace)
    : processes_(std::move(processes)), grace_(grace) {
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) running_.push_back(rank);
}

ProcessContext ProcessContext::start(std::vector<Process> processes, std::chrono::nanoseconds grace) {
  ProcessContext group({}, grace);
  for (Process& process : processes) {
    process.start();  // an Error leaves the scope: the group's destructor stops those before
    group.running_.push_back(group.processes_.size());
    group.processes_.push_back(std::move(process));
  }
  return group;
}

ProcessContext::~ProcessContext() {
  if (running_.empty()) return;
  try {
    if (std::uncaught_exceptions() > exceptions_) {
      stop();
    } else {
      join();
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
}

bool ProcessContext::join_within(detail::Limit limit) {
  const os::Deadline deadline = detail::deadline_of(limit);
  const std::stop_token stop_token = limit.stop != nullptr ? *limit.stop : std::stop_token();
  while (!failure_ && !running_.empty()) {
    const std::vector<std::size_t> ended = wait_for_some(processes_, running_, deadline, stop_token);
    if (ended.empty()) return false;
    collect(ended);
  }
  if (!failure_) return true;
  stop();
  std::rethrow_exception(failure_);
}

void ProcessContext::collect(const std::vector<std::size_t>& ended) {
  Failure worst;
  for (const std::size_t rank : ended) {
    std::erase(running_, rank);
    Process& process = processes_[rank];
    Failure found = failure_of(process, process.rank() >= 0 ? process.rank() : static_cast<int>(rank));
    if (found.weight > worst.weight) worst = std::move(found);
  }
  failure_ = worst.error;
}

void ProcessContext::stop() {
  const os::Deadline deadline = os::Deadline::after_ns(grace_.count());
  for (const std::size_t rank : running_) processes_[rank].terminate();
  bool killed = false;
  while (!running_.empty()) {
    const std::vector<std::size_t> ended =
        wait_for_some(processes_, running_, killed ? os::Deadline::never() : deadline, {});
    for (const std::size_t rank : ended) {
      std::erase(running_, rank);
      (void)failure_of(processes_[rank], 0);
    }
    if (!ended.empty() || killed) continue;
    killed = true;
    for (const std::size_t rank : running_) processes_[rank].kill();
  }
}

std::vector<pid_t> ProcessContext::pids() const {
  std::vector<pid_t> all;
  for (const Process& process : processes_) all.push_back(process.pid());
  return all;
}

namespace detail {

void check_group_size(int count) {
  if (count > 0) return;
  throw Error({Code::kInvalid, "a group of " + std::to_string(count) + " processes: at least one"});
}

}  // namespace detail

}  // namespace forklift
