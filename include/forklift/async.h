// Coroutines that wait for queues, subscriptions, events and futures, on any event loop.
//
//   forklift::Task<> serve(forklift::Reactor& loop, forklift::Queue<Job> jobs, forklift::Queue<Result> results) {
//     for (;;) co_await results.async_put(loop, work(co_await jobs.async_get(loop)));
//   }
//   std::optional<Job> job = co_await jobs.async_try_get(loop, {5s, stop});   // a Wait, as try_get() takes
//
// Awaitables: Queue, SimpleQueue: async_get, async_try_get, async_put, async_try_put; Subscription, Latest: async_get,
// async_try_get; Event: async_wait, async_try_wait; Future: async_get, async_try_get. They answer and throw what the calls
// without async_ do. One that can be answered at once does not suspend.
//
// The loop is a Reactor: a hook of three functions. EventLoop (event_loop.h) is one, AsioReactor (asio.h) another, and one
// for your own loop is some twenty lines. A coroutine is resumed in the loop's thread, by on_readable() or a posted call.
//
// GCC 12 miscompiles a loop whose condition is a co_await, while (co_await x): name the answer, as in
// while (auto job = co_await x).
//
// Ownership: an awaitable refers to its object and to the reactor, which must outlive it; the item of async_put is its own.
// Destroying a coroutine that waits ends its wait: nothing is taken or put.
// Cancellation: a Wait with a time or a std::stop_token, which may be stopped from any thread.
// Thread safety: an awaitable is its loop's thread's. Several coroutines, of several threads, may wait for one object.
// Errors: those of the calls; Error (kSystem, kNoSpace) where there is no descriptor to wait on.
// Invariant: what a cancelled or destroyed wait did not answer is still there for others.
#pragma once

#include <coroutine>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "forklift/broadcast.h"
#include "forklift/detail/caught.h"
#include "forklift/event.h"
#include "forklift/future.h"
#include "forklift/latest.h"
#include "forklift/queue.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

// What an event loop must be able to do.
class Reactor {
 public:
  // What waits for a descriptor.
  class Waiter {
   public:
    // It is readable. May watch and forget, also for this waiter.
    virtual void on_readable() = 0;

   protected:
    ~Waiter() = default;
  };

  virtual ~Reactor() = default;
  // From here on calls waiter.on_readable() in the loop's thread whenever the descriptor is readable (level-triggered),
  // until forget(). Several waiters may wait for one descriptor. In the loop's thread.
  virtual void watch(int fd, Waiter& waiter) = 0;
  // No call to this waiter begins from here on; it may be the one that runs. In the loop's thread.
  virtual void forget(int fd, Waiter& waiter) noexcept = 0;
  // Has the call made in the loop's thread, soon. From any thread.
  virtual void post(std::function<void()> call) = 0;
};

namespace detail {

// The timer of a wait that time ends: a descriptor, so that a Reactor needs no timers. -1: time does not end it.
class WaitTimer {
 public:
  explicit WaitTimer(Limit limit);
  ~WaitTimer();
  WaitTimer(const WaitTimer&) = delete;
  WaitTimer& operator=(const WaitTimer&) = delete;
  int fd() const noexcept { return fd_; }

 private:
  int fd_ = -1;
};

// An awaitable that tries again each time its object's descriptor is readable. Attempt has
//   using Result = ...;                   // what co_await answers
//   bool operator()();                    // try once; true: there is an answer
//   int fd();                             // readable when it is worth another try
//   Result answer();                      // after success, once
//   Result over();                        // the wait ended before
template <class Attempt>
class Awaiting final : Reactor::Waiter {
 public:
  using Result = typename Attempt::Result;

  Awaiting(Reactor& reactor, Attempt attempt, const Wait& wait)
      : reactor_(&reactor), attempt_(std::move(attempt)), wait_(wait.begun()), ringing_(*this) {}
  ~Awaiting() { end(); }
  Awaiting(const Awaiting&) = delete;
  Awaiting& operator=(const Awaiting&) = delete;

  bool await_ready() { return (done_ = attempt_()) || wait_.over(); }
  void await_suspend(std::coroutine_handle<> waiting) {
    waiting_ = waiting;
    const int fd = attempt_.fd();
    timer_.emplace(wait_);
    reactor_->watch(fd, *this);
    fd_ = fd;
    if (timer_->fd() >= 0) reactor_->watch(timer_->fd(), ringing_);
    if (!wait_.stop().stop_possible()) return;
    // The stop comes from any thread, and may come when this is gone.
    self_ = std::make_shared<Awaiting*>(this);
    on_stop_.emplace(wait_.stop(), Stop{reactor_, self_});
  }
  Result await_resume() {
    if (failure_) std::rethrow_exception(failure_);
    return done_ ? attempt_.answer() : attempt_.over();
  }

 private:
  struct Ringing final : Reactor::Waiter {
    explicit Ringing(Awaiting& awaiting) noexcept : awaiting_(awaiting) {}
    void on_readable() override { awaiting_.resume(); }
    Awaiting& awaiting_;
  };
  struct Stop {
    Reactor* reactor;
    std::weak_ptr<Awaiting*> self;
    void operator()() const {
      reactor->post([self = self] {
        if (const std::shared_ptr<Awaiting*> awaiting = self.lock()) (*awaiting)->resume();
      });
    }
  };

  void on_readable() override {
    failure_ = caught([this] { done_ = attempt_(); });
    if (done_ || failure_) resume();
  }
  void resume() {
    end();
    waiting_.resume();
  }
  void end() noexcept {
    if (fd_ < 0) return;
    self_.reset();
    on_stop_.reset();
    reactor_->forget(fd_, *this);
    if (timer_->fd() >= 0) reactor_->forget(timer_->fd(), ringing_);
    fd_ = -1;
  }

  Reactor* reactor_;
  Attempt attempt_;
  Wait wait_;
  Ringing ringing_;
  std::coroutine_handle<> waiting_;
  int fd_ = -1;  // while it waits
  bool done_ = false;
  std::exception_ptr failure_;
  std::optional<WaitTimer> timer_;
  std::shared_ptr<Awaiting*> self_;
  std::optional<std::stop_callback<Stop>> on_stop_;
};

// One attempt to get. `Optional`: what co_await answers may be missing.
template <class Source, bool Optional>
class GetAttempt {
  using Got = decltype(std::declval<Source&>().try_get());

 public:
  using Result = std::conditional_t<Optional, Got, std::remove_cvref_t<decltype(*std::declval<Got&>())>>;

  explicit GetAttempt(Source& source) noexcept : source_(&source) {}
  bool operator()() { return (got_ = source_->try_get()).has_value(); }
  int fd() { return source_->fileno(); }
  Result answer() {
    if constexpr (Optional) {
      return std::move(got_);
    } else {
      return *std::move(got_);
    }
  }
  Result over() {
    if constexpr (Optional) {
      return std::nullopt;
    } else {
      detail::throw_status({Code::kInterrupted, "a wait without limits was ended"});
    }
  }

 private:
  Source* source_;
  Got got_;
};

template <class Source, bool Optional>
class PutAttempt {
 public:
  using Result = std::conditional_t<Optional, bool, void>;

  PutAttempt(Source& source, typename Source::value_type item) : source_(&source), item_(std::move(item)) {}
  bool operator()() { return source_->try_put(item_); }
  int fd() { return source_->room_fileno(); }
  Result answer() { return Result(true); }
  Result over() { return Result(false); }

 private:
  Source* source_;
  typename Source::value_type item_;
};

// Of what has try_wait(): an Event.
template <class Source, bool Optional>
class WaitAttempt {
 public:
  using Result = std::conditional_t<Optional, bool, void>;

  explicit WaitAttempt(Source& source) noexcept : source_(&source) {}
  bool operator()() { return source_->try_wait(); }
  int fd() { return source_->fileno(); }
  Result answer() { return Result(true); }
  Result over() { return Result(false); }

 private:
  Source* source_;
};

// A future is used up by its answer, which may be an exception.
template <class R, bool Optional>
class FutureAttempt {
 public:
  using Result = std::conditional_t<Optional, decltype(std::declval<Future<R>&>().try_get()), R>;

  explicit FutureAttempt(Future<R>& future) noexcept : future_(&future) {}
  bool operator()() { return future_->ready(); }
  int fd() { return future_->fileno(); }
  Result answer() {
    if constexpr (Optional) {
      return future_->try_get();
    } else {
      return future_->get();
    }
  }
  Result over() {
    if constexpr (Optional) {
      return Result();
    } else {
      detail::throw_status({Code::kInterrupted, "a wait without limits was ended"});
    }
  }

 private:
  Future<R>* future_;
};

// What the async_ members of the classes call; declared beside them.
template <class Source>
struct Async {
  template <bool Optional>
  static auto get(Source& source, Reactor& reactor, const Wait& wait) {
    return Awaiting(reactor, GetAttempt<Source, Optional>(source), wait);
  }
  template <bool Optional, class Item>
  static auto put(Source& source, Reactor& reactor, Item&& item, const Wait& wait) {
    return Awaiting(reactor, PutAttempt<Source, Optional>(source, std::forward<Item>(item)), wait);
  }
  template <bool Optional>
  static auto wait(Source& source, Reactor& reactor, const Wait& wait) {
    return Awaiting(reactor, WaitAttempt<Source, Optional>(source), wait);
  }
};
template <class R>
struct Async<Future<R>> {
  template <bool Optional>
  static auto get(Future<R>& future, Reactor& reactor, const Wait& wait) {
    return Awaiting(reactor, FutureAttempt<R, Optional>(future), wait);
  }
};

}  // namespace detail
}  // namespace forklift::inline abi_0_1
