#include "rendezvous/named_domain.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "node/node.h"
#include "os/thread.h"
#include "rendezvous/join.h"

namespace forklift::inline abi_0_1::rendezvous {

// This process's named domains, for the fork handlers and for the end of the program. The mutex is held
// across a fork.
struct NamedDomains {
  std::mutex mutex;
  std::vector<NamedDomain*> open;
  std::vector<NameLock*> beginning;  // roles taken by serve(); a child must have no copy

  // Registers the NameLock of a serve() that is running, for the fork handlers.
  class Beginning {
   public:
    explicit Beginning(NameLock& name_lock) : name_lock_(name_lock) {
      const std::lock_guard<std::mutex> lock(all().mutex);
      all().beginning.push_back(&name_lock);
    }
    ~Beginning() {
      const std::lock_guard<std::mutex> lock(all().mutex);
      std::erase(all().beginning, &name_lock_);
    }
    Beginning(const Beginning&) = delete;
    Beginning& operator=(const Beginning&) = delete;
    // Runs a step that makes or closes descriptors; no fork can happen in between.
    template <class Step>
    auto step(Step&& take) const {
      const std::lock_guard<std::mutex> lock(all().mutex);
      return take(name_lock_);
    }

   private:
    NameLock& name_lock_;
  };

  // Also one that it does not answer for any more: programs know the home by it.
  static bool home_has_a_name() {
    const node::Node* const home = node::Node::existing();
    return home != nullptr && home->domain().has_a_name();
  }

  static NamedDomains& all() {
    static NamedDomains* const domains = new NamedDomains;  // at-fork handlers outlive main
    return *domains;
  }
  static void before_fork() {
    all().mutex.lock();
    for (NamedDomain* served : all().open) served->stop();
  }
  static void after_fork_in_parent() {
    for (NamedDomain* served : all().open) {
      // No thread could be started: the name goes to a process that can.
      if (served->threaded_ && !served->start()) served->abandon();
    }
    all().mutex.unlock();
  }
  static void after_fork_in_child() {
    for (NamedDomain* served : all().open) served->abandon();
    all().open.clear();
    for (NameLock* name_lock : all().beginning) name_lock->abandon();
    all().beginning.clear();
    all().mutex.unlock();
  }
  static void at_exit() {
    for (;;) {
      NamedDomain* last = nullptr;
      {
        const std::lock_guard<std::mutex> lock(all().mutex);
        if (all().open.empty()) return;
        last = all().open.back();
      }
      last->close();
    }
  }
  static void install() {
    // Installed after the domain's own handlers, so that this thread is stopped before they run.
    static std::once_flag installed;
    std::call_once(installed, [] {
      ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
      std::atexit(at_exit);
    });
  }
};

namespace {

Status served_already(const NameLock& name_lock) {
  const pid_t pid = name_lock.server();
  return {Code::kExists, "\"" + name_lock.name() + "\" is served already" +
                             (pid > 0 ? " by process " + std::to_string(pid) : std::string())};
}

}  // namespace

Result<NamedDomainPtr> NamedDomain::serve(std::string_view name, const NamedDomainOptions& options) {
  Result<NameLock> name_lock = NameLock::find(name);
  if (!name_lock) return name_lock.status();
  RetryPause pause(options);
  NamedDomains::install();
  const NamedDomains::Beginning beginning(*name_lock);
  for (;;) {
    const Result<bool> mine = beginning.step([](NameLock& here) { return here.begin(); });
    if (!mine) return mine.status();
    if (*mine) break;
    const Result<bool> served = name_lock->taken(Role::kServer);
    if (served && *served) return served_already(*name_lock);
    beginning.step([](NameLock& here) { here.forget_lock(); });
    // The name's server has just gone and another member takes over, or a process checks whether the name is
    // served.
    Status waited = pause.wait();
    if (!waited) return waited.code() == Code::kTimeout ? does_not_answer(*name_lock) : waited;
  }
  // Not before: a process that finds the name served must still be able to attach.
  Result<node::Node*> node = options.apart ? node::Node::make_another() : node::Node::current();
  if (!node) {
    name_lock->clear();
    return node.status();
  }
  Result<os::Fd> listener = name_lock->open_socket();
  if (!listener) return listener.status();
  if (Status settled = beginning.step([](NameLock& here) { return here.settle(); }); !settled) return settled;
  return make(**node, *std::move(name_lock), *std::move(listener), os::Fd(), true);
}

Result<NamedDomainPtr> NamedDomain::attach(std::string_view name, const NamedDomainOptions& options) {
  Result<NameLock> name_lock = NameLock::find(name);
  if (!name_lock) return name_lock.status();
  Result<Joined> joined = join_at(*name_lock, options);
  if (!joined) return joined.status();
  return make(*joined->node, *std::move(name_lock), os::Fd(), std::move(joined->connection),
              options.stand_by);
}

Result<NamedDomainPtr> NamedDomain::meet(std::string_view name, const NamedDomainOptions& options) {
  RetryPause pause(options);
  for (;;) {
    Result<NamedDomainPtr> attached = attach(name, options);
    if (attached || attached.code() != Code::kNotFound) return attached;
    NamedDomainOptions as_server = options;
    as_server.apart = !options.home_only && NamedDomains::home_has_a_name();
    Result<NamedDomainPtr> served = serve(name, as_server);
    if (served || served.code() != Code::kExists) return served;
    if (Status waited = pause.wait(); !waited) return waited;
  }
}

NamedDomain::NamedDomain(node::Node& node, NameLock name_lock, os::Fd listener, os::Fd connection)
    : node_(node),
      name_(name_lock.name()),
      name_lock_(std::move(name_lock)),
      connection_(std::move(connection)) {
  if (listener.valid()) {
    join_server_ = std::make_unique<JoinServer>(node_, std::move(listener));
    serving_.store(true, std::memory_order_release);
  }
}

Result<NamedDomainPtr> NamedDomain::make(node::Node& node, NameLock name_lock, os::Fd listener,
                                         os::Fd connection, bool threaded) {
  NamedDomains::install();
  node.domain().call_it(name_lock.name());
  NamedDomainPtr served(
      new NamedDomain(node, std::move(name_lock), std::move(listener), std::move(connection)));
  NamedDomains& domains = NamedDomains::all();
  const std::lock_guard<std::mutex> lock(domains.mutex);
  served->threaded_ = threaded;
  if (threaded) {
    if (Status started = served->start(); !started) {
      served->abandon();
      return started;
    }
  }
  domains.open.push_back(served.get());
  return served;
}

NamedDomain::~NamedDomain() { close(); }

void NamedDomain::close() noexcept {
  NamedDomains& domains = NamedDomains::all();
  const std::lock_guard<std::mutex> lock(domains.mutex);
  // Closed before, or this is a forked child, which has no part in the name.
  if (std::erase(domains.open, this) == 0) return;
  stop();
  serving_.store(false, std::memory_order_release);
  join_server_.reset();
  connection_.close();
  name_lock_.clear();
  name_lock_.abandon();
  stop_.close();
}

void NamedDomain::abandon() noexcept {
  serving_.store(false, std::memory_order_release);
  join_server_.reset();
  connection_.close();
  name_lock_.abandon();
  stop_.close();
}

Status NamedDomain::start() {
  if (!stop_.valid()) stop_ = os::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_.valid()) return Status::system("eventfd", errno, "the thread of a named domain");
  std::uint64_t rung = 0;
  (void)!::read(stop_.get(), &rung, sizeof rung);
  return os::start_thread(thread_, [this] { run(); }, "the thread of a named domain");
}

void NamedDomain::stop() noexcept {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

bool NamedDomain::wait_for(int fd, std::int64_t ns) const {
  std::array<pollfd, 2> items{pollfd{stop_.get(), POLLIN, 0}, pollfd{fd, POLLIN, 0}};
  timespec time{};
  time.tv_sec = static_cast<time_t>(ns / 1'000'000'000);
  time.tv_nsec = static_cast<long>(ns % 1'000'000'000);
  (void)!::ppoll(items.data(), items.size(), ns < 0 ? nullptr : &time, nullptr);
  return items[1].revents != 0;
}

bool NamedDomain::stopping() const noexcept {
  pollfd item{stop_.get(), POLLIN, 0};
  return ::poll(&item, 1, 0) > 0;
}

void NamedDomain::run() {
  while (!stopping()) {
    if (join_server_) {
      join_server_->turn(stop_.get());
    } else if (lost_) {
      (void)wait_for(-1, -1);
    } else {
      stand_by();
    }
  }
}

void NamedDomain::stand_by() {
  constexpr std::int64_t kLongestPauseNs = 200'000'000;
  if (connection_.valid()) {
    // The server sends nothing to its members: a readable connection means that the server is gone.
    if (wait_for(connection_.get(), -1)) connection_.close();
    pause_ns_ = 500'000;
    return;
  }
  if (take_over() || find_server()) return;
  if (lost_) return;
  // Another member took over and does not listen yet.
  (void)wait_for(-1, pause_ns_);
  pause_ns_ = std::min(pause_ns_ * 2, kLongestPauseNs);
}

bool NamedDomain::take_over() {
  const Result<bool> mine = name_lock_.take(Role::kServer);
  if (!mine || !*mine) return false;
  Result<os::Fd> listener = name_lock_.open_socket();
  if (!listener) {
    lost_ = true;
    return false;
  }
  join_server_ = std::make_unique<JoinServer>(node_, *std::move(listener));
  serving_.store(true, std::memory_order_release);
  join_server_->expect_death();  // of the former server
  return true;
}

bool NamedDomain::find_server() {
  Result<os::Fd> connection = report_at(name_lock_, node_, stop_.get(), 1'000'000'000);
  lost_ = connection.code() == Code::kInvalid;
  if (!connection) return false;
  connection_ = *std::move(connection);
  return true;
}

}  // namespace forklift::inline abi_0_1::rendezvous
