// forklift::Process over the parts of this folder.
#include "forklift/process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <exception>

#include "process/child.h"
#include "process/init.h"
#include "process/launch.h"
#include "process/lifeline.h"
#include "process/report.h"

namespace forklift {

namespace detail {

class ProcessCore {
 public:
  Entry entry;          // fork
  PrepareCall prepare;  // spawn
  process::Identity identity;
  std::vector<std::string> argv;  // program
  Channels channels;
  bool daemon = false;
  pid_t owner = ::getpid();
  int exceptions = std::uncaught_exceptions();

  std::optional<process::Child> child;
  channel::ChannelPtr reports;
  std::optional<RemoteError> failure;
  bool told = false;  // somebody has seen the failure
  bool settled = false;

  void start() {
    if (child) throw Error({Code::kInvalid, identity.name + " was started already"});
    channel::Hub* hub = need(channel::Hub::current());
    pid_t pid = 0;
    if (entry) {
      reports = need(channel::Channel::create(*hub, {}));
      pid = need(process::fork_child(daemon ? ending_with_parent(entry) : entry, reports, identity));
      entry = nullptr;  // what it captured lives in the child now
    } else if (prepare) {
      reports = need(channel::Channel::create(*hub, {}));
      pid = start_spawned(*hub);
    } else {
      pid = start_named(*hub);
    }
    Result<process::Child> watched = process::Child::watch(pid);
    if (!watched) {
      // Nobody could wait for it: it shall not run on unseen.
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    child = need(std::move(watched));
  }

  bool wait(os::Deadline deadline) {
    const bool ended = need(running().wait(deadline));
    if (ended) settle();
    return ended;
  }

  process::Child& running() {
    if (!child) throw Error({Code::kInvalid, identity.name + " was not started"});
    return *child;
  }

  // Terminates the child, after a second by force. Nothing here can be reported to anybody.
  void stop() noexcept {
    try {
      check(child->signal(SIGTERM));
      if (!wait(os::Deadline::after_seconds(1))) {
        check(child->signal(SIGKILL));
        wait(os::Deadline::never());
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "forklift: %s cannot be stopped: %s\n", identity.name.c_str(), error.what());
    }
  }

 private:
  // After the end, once: what the child held goes back now, not when somebody next looks for dead processes.
  void settle() {
    if (settled) return;
    settled = true;
    if (channel::Hub* hub = channel::Hub::existing()) hub->domain().reap();
    prepare = nullptr;
    channels.clear();
    if (!reports) return;
    channel::Incoming message;
    const Status got = reports->get(message, os::Deadline::after_ns(0));
    if (got.ok() && message.codec() == process::kErrorCodec) {
      Result<RemoteError::Details> details = process::decode_report(message.bytes());
      if (details) failure.emplace(*std::move(details));
    }
    message.clear();
    reports.reset();
  }

  static Entry ending_with_parent(const Entry& entry) {
    const int read_end = need(process::lifeline());
    return [entry, read_end] {
      check(process::end_with_parent(read_end));
      return entry();
    };
  }

  // What every program that is started is told: how to join, and, a daemon, how to end.
  process::ProgramInvitation invite(channel::Hub& hub, const process::NamedChannels& named) const {
    process::ProgramInvitation invitation = need(process::invite_program(hub, named));
    if (daemon) {
      invitation.descriptors.push_back(need(process::lifeline()));
      invitation.variables.emplace_back(process::kLifelineVariable,
                                        std::to_string(invitation.descriptors.back()));
    }
    return invitation;
  }

  pid_t start_spawned(channel::Hub& hub) {
    if (!process::initialised()) {
      throw Error(
          {Code::kInvalid,
           "a function can be spawned only in a program whose main begins with forklift::init(argc, argv): "
           "without it, the fresh process would not know that it is one"});
    }
    const Call call = prepare();
    process::NamedChannels named{{process::kReportsName, reports},
                                 {process::kArgumentsName, call.arguments.get()}};
    process::ProgramInvitation invitation = invite(hub, named);
    for (const ChannelRef& queue : call.queues) {
      check(queue.get()->offer(invitation.invitation.child.slot));
    }
    for (const LockRef& lock : call.locks) check(lock.get()->offer(invitation.invitation.child.slot));
    invitation.variables.emplace_back(process::kFunctionVariable, call.function);
    invitation.variables.emplace_back(process::kNameVariable, identity.name);
    invitation.variables.emplace_back(process::kRankVariable, std::to_string(identity.rank));
    return need(process::start_program("/proc/self/exe", {process::program_name()}, invitation));
  }

  pid_t start_named(channel::Hub& hub) {
    process::NamedChannels named;
    for (const auto& [name, queue] : channels) named.emplace_back(name, queue.get());
    const process::ProgramInvitation invitation = invite(hub, named);
    return need(process::start_program("", argv, invitation));
  }
};

}  // namespace detail

namespace {
std::string next_name() {
  static std::atomic<unsigned> count{0};
  return "Process-" + std::to_string(++count);
}
}  // namespace

Process::Process(std::unique_ptr<detail::ProcessCore> core) noexcept : core_(std::move(core)) {}
Process::Process(Process&&) noexcept = default;

Process& Process::operator=(Process&& other) noexcept {
  if (this != &other) {
    Process old(std::move(*this));  // ends as by its destructor
    core_ = std::move(other.core_);
  }
  return *this;
}

Process::~Process() {
  if (!core_ || core_->owner != ::getpid() || !core_->child) return;
  if (core_->daemon || std::uncaught_exceptions() > core_->exceptions) {
    core_->stop();
    return;
  }
  try {
    core_->wait(os::Deadline::never());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "forklift: %s cannot be waited for: %s\n", core_->identity.name.c_str(),
                 error.what());
  }
  if (core_->failure && !core_->told) std::fprintf(stderr, "%s\n", core_->failure->what());
}

Process Process::from_entry(detail::Entry entry) {
  auto core = std::make_unique<detail::ProcessCore>();
  core->identity.name = next_name();
  core->entry = std::move(entry);
  return Process(std::move(core));
}

Process Process::from_call(detail::PrepareCall prepare) {
  auto core = std::make_unique<detail::ProcessCore>();
  core->identity.name = next_name();
  core->prepare = std::move(prepare);
  return Process(std::move(core));
}

Process Process::program(std::vector<std::string> argv, Channels channels) {
  auto core = std::make_unique<detail::ProcessCore>();
  core->identity.name = next_name();
  core->argv = std::move(argv);
  core->channels = std::move(channels);
  return Process(std::move(core));
}

detail::ProcessCore& Process::core() const {
  if (!core_) throw Error({Code::kInvalid, "this Process was moved from"});
  if (core_->owner != ::getpid()) {
    throw Error({Code::kInvalid, core_->identity.name + " is no child of this process, but of process " +
                                     std::to_string(core_->owner)});
  }
  return *core_;
}

Process& Process::start() & {
  core().start();
  return *this;
}

Process Process::start() && {
  core().start();
  return std::move(*this);
}

void Process::join() { join_within(detail::kForever); }

bool Process::join_within(std::int64_t ns) {
  detail::ProcessCore& self = core();
  if (!self.wait(os::Deadline::after_ns(ns))) return false;
  if (self.failure) {
    self.told = true;
    throw RemoteError(*self.failure);
  }
  return true;
}

void Process::terminate() { check(core().running().signal(SIGTERM)); }

void Process::kill() { check(core().running().signal(SIGKILL)); }

bool Process::is_alive() {
  detail::ProcessCore& self = core();
  return self.child && !self.wait(os::Deadline::after_ns(0));
}

std::optional<int> Process::exitcode() {
  detail::ProcessCore& self = core();
  if (!self.child || !self.wait(os::Deadline::after_ns(0))) return std::nullopt;
  return self.child->exitcode();
}

pid_t Process::pid() const {
  const detail::ProcessCore& self = core();
  return self.child ? self.child->pid() : 0;
}

int Process::sentinel() const { return core().running().sentinel(); }

const std::string& Process::name() const {
  if (!core_) throw Error({Code::kInvalid, "this Process was moved from"});
  return core_->identity.name;
}

bool Process::daemon() const { return core().daemon; }
int Process::rank() const { return core().identity.rank; }

Process& Process::set_name(std::string name) {
  core().identity.name = std::move(name);
  return *this;
}

Process& Process::set_daemon(bool daemon) {
  core().daemon = daemon;
  return *this;
}

Process& Process::set_rank(int rank) {
  core().identity.rank = rank;
  return *this;
}

}  // namespace forklift
