#include "node/wait_any.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "node/node.h"
#include "node/wait_set.h"
#include "node/watched.h"

namespace forklift::inline abi_0_1::node {

namespace {

// Ends a sleep on futexes, and with a descriptor a sleep in poll.
class Alarm {
 public:
  Status open() {
    fd_ = os::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return fd_.valid() ? Status() : Status::system("eventfd", errno, "for waiting on several objects");
  }
  void ring() noexcept {
    rung_.store(1, std::memory_order_seq_cst);
    os::futex_wake(rung_, INT_MAX);
    const std::uint64_t one = 1;
    if (fd_.valid()) (void)!::write(fd_.get(), &one, sizeof one);
  }
  os::FutexWord word() const noexcept { return {&rung_, 0}; }
  int fd() const noexcept { return fd_.get(); }

 private:
  std::atomic<std::uint32_t> rung_{0};
  os::Fd fd_;
};

// Few objects in shared memory: one system call on all their events, without a change of shared memory.
class OnEvents {
 public:
  static bool fits(std::span<const Source> sources) {
    return sources.size() < os::kMostFutexWords &&
           std::all_of(
               sources.begin(), sources.end(), [](const Source& each) { return Watched::fits(each); });
  }
  Status prepare(std::span<const Source> sources) {
    for (const Source& source : sources) {
      Result<Watched> watched = Watched::of(source);
      if (!watched) return watched.status();
      watched_.push_back(*std::move(watched));
    }
    return {};
  }
  void wake() noexcept { alarm_.ring(); }

  Status collect(std::vector<std::size_t>& ready) {
    for (std::size_t i = 0; i < watched_.size(); ++i) {
      if (!watched_[i].ready_after_deaths()) continue;
      watched_[i].event().notify(1);  // the wake-up may have been meant for a thread that takes
      ready.push_back(i);
    }
    return {};
  }

  // Until something may be ready, wake(), or a slice of the time is over; the whole wait lasts `until`. False: this kernel
  // has no such call.
  bool sleep(os::Deadline deadline, os::Deadline until, domain::WaitHooks* hooks) {
    std::vector<sync::EventCount::Ticket> tickets;
    std::vector<os::FutexWord> words{alarm_.word()};
    std::vector<const sync::EventCount*> events;
    for (const Watched& watched : watched_) events.push_back(&watched.event());
    const domain::WaitRecord record(watched_.front().domain(), events, until);
    for (const Watched& watched : watched_) {
      tickets.push_back(watched.event().prepare());
      words.push_back(watched.event().word(tickets.back()));
    }
    os::FutexWait how = os::FutexWait::kChanged;
    if (std::none_of(watched_.begin(), watched_.end(), [](const Watched& each) { return each.ready(); }))
      how = os::futex_wait_any(words, deadline.left_ns(sync::lengthened(sync::kSliceNs)));
    for (std::size_t i = 0; i < tickets.size(); ++i) watched_[i].event().cancel(tickets[i]);
    if (how == os::FutexWait::kTimedOut) check_deaths();
    record.goes_on(hooks);
    return how != os::FutexWait::kNoSuchCall;
  }

 private:
  // Of each domain that the objects are in.
  void check_deaths() const {
    domain::Domain* last = nullptr;
    for (const Watched& watched : watched_) {
      domain::Domain& domain = watched.domain();
      if (&domain != last) domain.check_deaths();
      last = &domain;
    }
  }

  std::vector<Watched> watched_;
  Alarm alarm_;
};

// Descriptors alone: one poll, without a domain.
class OnDescriptors {
 public:
  static bool fits(std::span<const Source> sources) {
    return std::none_of(sources.begin(), sources.end(),
                        [](const Source& each) { return Watched::fits(each); });
  }
  Status prepare(std::span<const Source> sources) {
    sources_ = sources;
    for (const Source& source : sources) {
      polled_.push_back({source.pipe != nullptr ? source.pipe->fd() : source.descriptor, POLLIN, 0});
      if (source.pipe == nullptr) continue;
      if (!source.pipe->in()) return {Code::kInvalid, "an end of a pipe that is for writing only"};
      if (Status status = source.pipe->make_selectable(); !status) return status;
    }
    if (Status status = alarm_.open(); !status) return status;
    polled_.push_back({alarm_.fd(), POLLIN, 0});
    return {};
  }
  void wake() noexcept { alarm_.ring(); }

  Status collect(std::vector<std::size_t>& ready) {
    ::poll(polled_.data(), polled_.size(), 0);
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      if (polled_[i].revents == 0) continue;
      if (sources_[i].pipe != nullptr) {
        Status there = sources_[i].pipe->wait_readable(os::Deadline::after_ns(0));
        if (there.code() == Code::kTimeout) continue;
        if (!there) return there;
      }
      ready.push_back(i);
    }
    return {};
  }

  bool sleep(os::Deadline deadline, os::Deadline /*until*/, domain::WaitHooks* /*hooks*/) {
    const std::int64_t left = deadline.left_ns(std::int64_t{1} << 60);
    const timespec timeout{static_cast<time_t>(left / 1'000'000'000),
                           static_cast<long>(left % 1'000'000'000)};
    ::ppoll(polled_.data(), polled_.size(), deadline.is_never() ? nullptr : &timeout, nullptr);
    return true;
  }

 private:
  std::span<const Source> sources_;
  std::vector<pollfd> polled_;  // of the sources, then the alarm's
  Alarm alarm_;
};

// kUnsupported: this kernel cannot sleep like that.
template <class Waiter>
Status wait_with(Waiter& waiter, std::span<const Source> sources, os::Deadline deadline,
                 const std::stop_token& stop, std::vector<std::size_t>& ready, domain::WaitHooks* hooks) {
  if (Status status = waiter.prepare(sources); !status) return status;
  const std::stop_callback on_stop(stop, [&] { waiter.wake(); });
  for (;;) {
    if (Status status = waiter.collect(ready); !status || !ready.empty()) return status;
    if (stop.stop_requested()) return {Code::kInterrupted, "a stop was requested"};
    if (hooks) {
      if (Status status = hooks->poll(); !status) return status;
    }
    if (deadline.passed()) return {Code::kTimeout, "the deadline passed"};
    const os::Deadline next = hooks ? os::Deadline::after_ns(deadline.left_ns(hooks->slice_ns)) : deadline;
    if (!waiter.sleep(next, deadline, hooks)) return {Code::kUnsupported, "futex_waitv"};
  }
}

Node* node_of(std::span<const Source> sources) {
  for (const Source& source : sources) {
    if (source.channel != nullptr) return Node::of(source.channel->arena());
    if (source.reader != nullptr) return Node::of(source.reader->topic()->arena());
    if (source.lock != nullptr) return Node::of(source.lock->table().arena());
  }
  return nullptr;
}

// Everything else: a wait set that lives as long as the call.
Status wait_with_set(std::span<const Source> sources, os::Deadline deadline, const std::stop_token& stop,
                     std::vector<std::size_t>& ready, domain::WaitHooks* hooks) {
  Node* const node = node_of(sources);
  if (node == nullptr) return {Code::kNotAttached, "this process is not in the objects' domain"};
  WaitSet set(*node);
  for (const Source& source : sources) {
    if (Result<WaitSet::Key> key = set.add(source); !key) return key.status();
  }
  std::vector<WaitSet::Key> keys;
  Status status = set.wait(keys, deadline, stop, hooks);
  ready.assign(keys.begin(), keys.end());  // keys count from 0
  return status;
}

}  // namespace

Status wait_any(std::span<const Source> sources, os::Deadline deadline, const std::stop_token& stop,
                std::vector<std::size_t>& ready, domain::WaitHooks* hooks, bool in_one_call) {
  static std::atomic<bool> no_such_call{false};
  ready.clear();
  if (OnDescriptors::fits(sources)) {
    OnDescriptors waiter;
    return wait_with(waiter, sources, deadline, stop, ready, hooks);
  }
  if (OnEvents::fits(sources) && in_one_call && !no_such_call.load(std::memory_order_relaxed)) {
    OnEvents waiter;
    Status status = wait_with(waiter, sources, deadline, stop, ready, hooks);
    if (status.code() != Code::kUnsupported) return status;
    no_such_call.store(true, std::memory_order_relaxed);
  }
  return wait_with_set(sources, deadline, stop, ready, hooks);
}

}  // namespace forklift::inline abi_0_1::node
