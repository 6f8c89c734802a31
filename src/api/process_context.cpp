// forklift::ProcessContext: waiting for all members at once.
#include "forklift/process_context.h"

#include <optional>

#include "api/stop.h"
#include "base/log.h"
#include "process/group.h"

namespace forklift::inline abi_0_1 {
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

}  // namespace

class detail::GroupCore {
 public:
  process::Group group;
};

ProcessContext::ProcessContext(std::chrono::nanoseconds grace)
    : core_(std::make_unique<detail::GroupCore>()), grace_(grace) {}

ProcessContext::ProcessContext(std::vector<Process> processes, std::chrono::nanoseconds grace)
    : ProcessContext(grace) {
  for (Process& process : processes) add(std::move(process));
}

ProcessContext ProcessContext::start(std::vector<Process> processes, std::chrono::nanoseconds grace) {
  ProcessContext group(grace);
  for (Process& process : processes) {
    process.start();  // an Error leaves the scope: the group's destructor stops those before
    group.add(std::move(process));
  }
  return group;
}

ProcessContext::ProcessContext(ProcessContext&&) noexcept = default;

void ProcessContext::add(Process process) {
  core_->group.add(process.sentinel());
  processes_.push_back(std::move(process));
}

ProcessContext::~ProcessContext() {
  if (core_ == nullptr || core_->group.running().empty()) return;
  try {
    if (std::uncaught_exceptions() > exceptions_) {
      stop();
    } else {
      join();
    }
  } catch (const std::exception& error) {
    log(Severity::kError, error.what());
  }
}

bool ProcessContext::join_within(detail::Limit limit) {
  if (core_ == nullptr) return true;
  const os::Deadline deadline = detail::deadline_of(limit);
  std::vector<std::size_t> ended;
  while (!failure_ && !core_->group.running().empty()) {
    if (!detail::settled(core_->group.wait(deadline, detail::stop_of(limit), nullptr, ended))) return false;
    collect(ended);
  }
  if (!failure_) return true;
  stop();
  std::rethrow_exception(failure_);
}

void ProcessContext::collect(const std::vector<std::size_t>& ended) {
  Failure worst;
  for (const std::size_t rank : ended) {
    Process& process = processes_[rank];
    Failure found = failure_of(process, process.rank() >= 0 ? process.rank() : static_cast<int>(rank));
    if (found.weight > worst.weight) worst = std::move(found);
  }
  failure_ = worst.error;
}

void ProcessContext::stop() {
  if (core_ == nullptr) return;
  throw_if_failed(core_->group.stop({.grace_ns = grace_.count()}, nullptr,
                                    [this](std::size_t rank) { (void)failure_of(processes_[rank], 0); }));
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

}  // namespace forklift::inline abi_0_1
