#include "node/wait_any.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <optional>
#include <thread>

#include "locks/observed.h"
#include "os/thread.h"

namespace forklift::node {

namespace {

// Ends a sleep on futexes and a sleep in poll.
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
  bool rung() const noexcept { return rung_.load(std::memory_order_acquire) != 0; }
  os::FutexWord word() const noexcept { return {&rung_, 0}; }
  int fd() const noexcept { return fd_.get(); }

 private:
  std::atomic<std::uint32_t> rung_{0};
  os::Fd fd_;
};

// A source that is waited for by an event in shared memory.
class Watched {
 public:
  static bool fits(const Source& source) noexcept {
    return source.channel != nullptr || source.reader != nullptr || source.lock != nullptr;
  }
  static Result<Watched> of(const Source& source) {
    Watched made(source);
    if (source.lock == nullptr) return made;
    Result<locks::Observed> observed = locks::Observed::of(*source.lock);
    if (!observed) return observed.status();
    made.lock_ = *observed;
    return made;
  }

  sync::EventCount& event() const {
    if (lock_) return lock_->event();
    return source_->channel != nullptr ? source_->channel->items() : source_->reader->topic()->items();
  }
  domain::Domain& domain() const {
    if (lock_) return lock_->domain();
    return source_->channel != nullptr ? source_->channel->domain() : source_->reader->topic()->domain();
  }
  bool ready() const {
    if (lock_) return lock_->ready();
    if (source_->channel != nullptr) return !source_->channel->empty() || source_->channel->at_end();
    return source_->reader->ready();
  }
  bool ready_after_deaths() const { return lock_ ? lock_->ready_after_deaths() : ready(); }

 private:
  explicit Watched(const Source& source) noexcept : source_(&source) {}
  const Source* source_;
  std::optional<locks::Observed> lock_;
};

class Waiter {
 public:
  Waiter(std::span<const Source> sources, bool in_one_call) : sources_(sources), in_one_call_(in_one_call) {}

  Status prepare() {
    for (const Source& source : sources_) {
      if (Watched::fits(source)) {
        Result<Watched> watched = Watched::of(source);
        if (!watched) return watched.status();
        watched_.push_back(*std::move(watched));
        continue;
      }
      polled_.push_back({source.pipe != nullptr ? source.pipe->fd() : source.descriptor, POLLIN, 0});
      if (source.pipe == nullptr) continue;
      if (!source.pipe->in()) return {Code::kInvalid, "an end of a pipe that is for writing only"};
      if (Status status = source.pipe->make_selectable(); !status) return status;
    }
    return polled_.empty() ? Status() : alarm_.open();
  }
  Alarm& alarm() noexcept { return alarm_; }

  Status collect(std::vector<std::size_t>& ready) {
    ready.clear();
    if (!polled_.empty()) ::poll(polled_.data(), polled_.size(), 0);
    std::size_t at = 0;
    auto watched = watched_.begin();
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const Source& source = sources_[i];
      if (Watched::fits(source)) {
        const Watched& here = *watched++;
        if (!here.ready_after_deaths()) continue;
        here.event().notify(1);  // the wake-up may have been meant for a thread that takes
        ready.push_back(i);
        continue;
      }
      if (polled_[at++].revents == 0) continue;
      if (source.pipe != nullptr) {
        Status there = source.pipe->wait_readable(os::Deadline::after_ns(0));
        if (there.code() == Code::kTimeout) continue;
        if (!there) return there;
      }
      ready.push_back(i);
    }
    return {};
  }

  // Until something may be ready, the alarm rings, or a slice of the time is over.
  Status sleep(os::Deadline deadline) {
    if (polled_.empty()) {
      sleep_on_events(deadline.left_ns(sync::lengthened(sync::kSliceNs)), alarm_);
      return {};
    }
    if (watched_.empty()) {
      sleep_on_descriptors(deadline, alarm_.fd());
      return {};
    }
    Alarm rung_by_event;
    Alarm no_more_needed;
    if (Status status = rung_by_event.open(); !status) return status;
    const auto watch_events = [&] {
      while (!no_more_needed.rung() && !any_ready())
        sleep_on_events(sync::lengthened(sync::kSliceNs), no_more_needed);
      rung_by_event.ring();
    };
    std::jthread bridge;
    if (Status status = os::start_thread(bridge, watch_events, "for waiting on several objects"); !status)
      return status;
    sleep_on_descriptors(deadline, rung_by_event.fd());
    no_more_needed.ring();
    return {};
  }

 private:
  bool any_ready() const {
    return std::any_of(watched_.begin(), watched_.end(), [](const Watched& each) { return each.ready(); });
  }

  void sleep_on_events(std::int64_t timeout_ns, const Alarm& alarm) {
    std::vector<sync::EventCount::Ticket> tickets;
    std::vector<os::FutexWord> words{alarm.word()};
    for (const Watched& watched : watched_) {
      tickets.push_back(watched.event().prepare());
      words.push_back(watched.event().word(tickets.back()));
    }
    os::FutexWait how = os::FutexWait::kChanged;
    if (!any_ready()) how = os::futex_wait_any(words, timeout_ns, in_one_call_);
    for (std::size_t i = 0; i < tickets.size(); ++i) watched_[i].event().cancel(tickets[i]);
    if (how == os::FutexWait::kTimedOut && !watched_.empty()) watched_.front().domain().check_deaths();
  }

  void sleep_on_descriptors(os::Deadline deadline, int alarm) {
    std::vector<pollfd> items = polled_;
    items.push_back({alarm, POLLIN, 0});
    if (alarm != alarm_.fd()) items.push_back({alarm_.fd(), POLLIN, 0});
    const std::int64_t left = deadline.left_ns(std::int64_t{1} << 60);
    const timespec timeout{static_cast<time_t>(left / 1'000'000'000),
                           static_cast<long>(left % 1'000'000'000)};
    ::ppoll(items.data(), items.size(), deadline.is_never() ? nullptr : &timeout, nullptr);
  }

  std::span<const Source> sources_;
  bool in_one_call_;
  std::vector<Watched> watched_;  // those with an event, in the order of the sources
  std::vector<pollfd> polled_;    // the others
  Alarm alarm_;
};

}  // namespace

Status wait_any(std::span<const Source> sources, os::Deadline deadline, const std::stop_token& stop,
                std::vector<std::size_t>& ready, bool in_one_call, domain::WaitHooks* hooks) {
  Waiter waiter(sources, in_one_call);
  if (Status status = waiter.prepare(); !status) return status;
  const std::stop_callback on_stop(stop, [&] { waiter.alarm().ring(); });
  for (;;) {
    if (Status status = waiter.collect(ready); !status || !ready.empty()) return status;
    if (stop.stop_requested()) return {Code::kInterrupted, "a stop was requested"};
    if (hooks) {
      if (Status status = hooks->poll(); !status) return status;
    }
    if (deadline.passed()) return {Code::kTimeout, "the deadline passed"};
    const os::Deadline until = hooks ? os::Deadline::after_ns(deadline.left_ns(hooks->slice_ns)) : deadline;
    if (Status status = waiter.sleep(until); !status) return status;
  }
}

}  // namespace forklift::node
