// forklift::Process over the parts of this folder.
#include "forklift/process.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <exception>

#include "api/attached.h"
#include "api/children.h"
#include "api/rank.h"
#include "api/stop.h"
#include "base/log.h"
#include "collective/tables.h"
#include "guard/rest.h"
#include "node/node.h"
#include "process/child.h"
#include "process/report.h"
#include "process/start.h"
#include "runtime/executor.h"

namespace forklift::inline abi_0_1 {

namespace detail {

class ProcessCore {
 public:
  ProcessCore() = default;
  ProcessCore(const ProcessCore&) = delete;
  ProcessCore& operator=(const ProcessCore&) = delete;
  ~ProcessCore() { process::children().remove(this); }

  Entry entry;          // a copy of this process
  PrepareCall prepare;  // a registered function, on `method`
  StartMethod method = StartMethod::kSpawn;
  process::Identity identity;
  std::vector<std::string> argv;     // program
  std::optional<GroupHandle> group;  // in which it has its rank
  Channels channels;
  pid_t owner = ::getpid();
  int exceptions = std::uncaught_exceptions();

  std::optional<process::Child> child;
  channel::ChannelPtr reports;
  std::optional<RemoteError> failure;
  bool told = false;  // somebody has seen the failure
  bool settled = false;

  void start() {
    if (child) throw Error({Code::kInvalid, identity.name + " was started already"});
    node::Node& node = home_node();
    if (entry || prepare) reports = value_or_throw(channel::Channel::create(node.channels(), {}));
    child = launch(node);
    entry = nullptr;  // what it captured lives in the child now
    group.reset();
    process::children().add(
        this, {identity.name, child->pid(), identity.rank, identity.daemon, identity.world_size},
        child->sentinel());
  }

  bool wait(os::Deadline deadline, const std::stop_token& stop = {}) {
    const bool ended = value_or_throw(running().wait(deadline, stop));
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
      throw_if_failed(child->signal(SIGTERM));
      if (!wait(os::Deadline::after_seconds(1))) {
        throw_if_failed(child->signal(SIGKILL));
        wait(os::Deadline::never());
      }
    } catch (const std::exception& error) {
      log(Severity::kError, identity.name + " cannot be stopped: " + error.what());
    }
  }

 private:
  // After the end, once: what the child held goes back now, not when somebody next looks for dead processes.
  void settle() {
    if (settled) return;
    settled = true;
    process::children().remove(this);
    node::Node::reap_all();
    prepare = nullptr;
    channels.clear();
    if (!reports) return;
    if (std::optional<RemoteError::Details> details = process::take_report(*reports))
      failure.emplace(*std::move(details));
    reports.reset();
  }

  process::Child launch(node::Node& node) {
    if (entry || (prepare && method == StartMethod::kFork)) {
      throw_if_failed(runtime::Executor::prepare_fork());
      throw_if_failed(guard::prepare_fork());
    }
    if (entry) {
      const auto whole = [this] {
        if (group) become_rank(*group, identity.rank);
        return entry();
      };
      return value_or_throw(process::start_forked(whole, reports, identity));
    }
    if (prepare) {
      process::Order order{method, prepare(), reports, identity};
      if (group) {
        order.offer_group = offer_rank(*group, identity.rank);
        order.begin = [this] { become_rank(*group, identity.rank); };
      }
      return value_or_throw(process::start_registered(node, order));
    }
    process::NamedChannels named;
    for (const auto& [name, queue] : channels) named.emplace_back(name, queue.get());
    return value_or_throw(process::start_named(node, argv, named, identity.daemon));
  }
};

}  // namespace detail

namespace {
// How long a destructor waits without a word.
constexpr int kSilentSeconds = 5;

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
  if (core_->identity.daemon || std::uncaught_exceptions() > core_->exceptions) {
    core_->stop();
    return;
  }
  try {
    if (!core_->wait(os::Deadline::after_seconds(kSilentSeconds))) {
      log(Severity::kWarning, core_->identity.name + " (pid " + std::to_string(core_->child->pid()) +
                                  ") still runs, and the destructor of its Process waits for it: join() or "
                                  "terminate() it before");
      core_->wait(os::Deadline::never());
    }
  } catch (const std::exception& error) {
    log(Severity::kError, core_->identity.name + " cannot be waited for: " + error.what());
  }
  if (core_->failure && !core_->told) log(Severity::kError, core_->failure->what());
}

Process Process::from_entry(detail::Entry entry) {
  auto core = std::make_unique<detail::ProcessCore>();
  core->identity.name = next_name();
  core->entry = std::move(entry);
  return Process(std::move(core));
}

Process Process::from_call(StartMethod method, detail::PrepareCall prepare) {
  auto core = std::make_unique<detail::ProcessCore>();
  core->identity.name = next_name();
  core->method = method;
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

bool Process::join_within(detail::Limit limit) {
  detail::ProcessCore& self = core();
  if (!self.wait(detail::deadline_of(limit), detail::stop_of(limit))) return false;
  if (self.failure) {
    self.told = true;
    throw RemoteError(*self.failure);
  }
  return true;
}

void Process::terminate() { throw_if_failed(core().running().signal(SIGTERM)); }

void Process::kill() { throw_if_failed(core().running().signal(SIGKILL)); }

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

bool Process::daemon() const { return core().identity.daemon; }
int Process::rank() const { return core().identity.rank; }

Process& Process::set_name(std::string name) & {
  core().identity.name = std::move(name);
  return *this;
}
Process Process::set_name(std::string name) && {
  set_name(std::move(name));
  return std::move(*this);
}

Process& Process::set_daemon(bool daemon) & {
  core().identity.daemon = daemon;
  return *this;
}
Process Process::set_daemon(bool daemon) && {
  set_daemon(daemon);
  return std::move(*this);
}

Process& Process::set_rank(int rank) & {
  core().identity.rank = rank;
  return *this;
}
Process Process::set_rank(int rank) && {
  set_rank(rank);
  return std::move(*this);
}

void detail::make_ranks(std::vector<Process>& members) {
  const node::MakeIn at_home(home_node());
  std::optional<GroupHandle> group;
  if (!members.empty() && members.size() <= static_cast<std::size_t>(collective::kMostRanks))
    group = Group::create(static_cast<int>(members.size()));
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    ProcessCore& core = members[rank].core();
    core.identity.rank = static_cast<int>(rank);
    core.identity.world_size = static_cast<int>(members.size());
    core.group = group;
  }
}

}  // namespace forklift::inline abi_0_1
