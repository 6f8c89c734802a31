#include "forklift/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "forklift/error.h"
#include "os/fd.h"

namespace forklift::inline abi_0_1 {

namespace detail {

// The coroutine around one that was spawned: begins at once, and tells the loop when it has ended.
class Root {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;
  using Ended = std::function<void(Handle, std::exception_ptr)>;

  struct promise_type {
    // The coroutine's parameters.
    promise_type(Ended& on_ended, Task<>&) : ended(on_ended) {}
    Root get_return_object() noexcept { return Root(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept {
      struct Final {
        bool await_ready() const noexcept { return false; }
        void await_suspend(Handle self) const noexcept { self.promise().ended(self, self.promise().failure); }
        void await_resume() const noexcept {}
      };
      return Final();
    }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { failure = std::current_exception(); }

    Ended& ended;
    std::exception_ptr failure;
  };

  Handle handle() const noexcept { return handle_; }

 private:
  explicit Root(Handle handle) noexcept : handle_(handle) {}
  Handle handle_;
};

static Root run_to_its_end(Root::Ended&, Task<> task) { co_await task; }

}  // namespace detail

class EventLoop::State {
 public:
  State() : epoll_(::epoll_create1(EPOLL_CLOEXEC)), alarm_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!epoll_.valid()) throw Error(Status::system("epoll_create1", errno, "for an event loop"));
    if (!alarm_.valid()) throw Error(Status::system("eventfd", errno, "for an event loop"));
    change(EPOLL_CTL_ADD, alarm_.get());
  }
  ~State() {
    // A coroutine that is destroyed forgets its descriptors, and may destroy others.
    while (!running_.empty()) {
      const detail::Root::Handle last = running_.back();
      running_.pop_back();
      last.destroy();
    }
    drop_ended();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void spawn(Task<> task) {
    const detail::Root::Handle root = detail::run_to_its_end(on_ended_, std::move(task)).handle();
    running_.push_back(root);
    root.resume();
    drop_ended();
  }

  void run() {
    while (!running_.empty() && !failure_) {
      if (stopped_.exchange(false)) return;
      turn();
      drop_ended();
    }
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  void stop() {
    stopped_ = true;
    ring();
  }

  void watch(int fd, Waiter& waiter) {
    std::vector<Waiter*>& waiters = waiters_[fd];
    if (waiters.empty()) change(EPOLL_CTL_ADD, fd);
    waiters.push_back(&waiter);
  }
  void forget(int fd, Waiter& waiter) noexcept {
    const auto found = waiters_.find(fd);
    if (found == waiters_.end() || std::erase(found->second, &waiter) == 0 || !found->second.empty()) return;
    waiters_.erase(found);
    (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  }
  void post(std::function<void()> call) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      posted_.push_back(std::move(call));
    }
    ring();
  }

 private:
  void change(int what, int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (::epoll_ctl(epoll_.get(), what, fd, &event) == 0) return;
    const int error = errno;
    waiters_.erase(fd);
    throw Error(Status::system("epoll_ctl", error, "descriptor " + std::to_string(fd) + " in an event loop"));
  }

  void ring() noexcept {
    const std::uint64_t one = 1;
    (void)!::write(alarm_.get(), &one, sizeof one);
  }

  void turn() {
    std::array<epoll_event, 64> events;
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == alarm_.get()) {
        call_posted();
      } else {
        tell(fd);
      }
    }
  }

  // What is called may watch and forget, for itself and others.
  void tell(int fd) {
    const auto found = waiters_.find(fd);
    if (found == waiters_.end()) return;
    for (Waiter* const waiter : std::vector<Waiter*>(found->second)) {
      const auto now = waiters_.find(fd);
      if (now == waiters_.end()) return;
      if (std::find(now->second.begin(), now->second.end(), waiter) != now->second.end())
        waiter->on_readable();
    }
  }

  void call_posted() {
    std::uint64_t rung = 0;
    (void)!::read(alarm_.get(), &rung, sizeof rung);
    std::vector<std::function<void()>> calls;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      calls.swap(posted_);
    }
    for (const std::function<void()>& call : calls) call();
  }

  void drop_ended() {
    for (const detail::Root::Handle root : std::exchange(ended_, {})) root.destroy();
  }

  os::Fd epoll_;
  os::Fd alarm_;
  std::map<int, std::vector<Waiter*>> waiters_;
  std::vector<detail::Root::Handle> running_;
  std::vector<detail::Root::Handle> ended_;  // to be destroyed outside of their own calls
  std::exception_ptr failure_;
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;  // under the lock
  detail::Root::Ended on_ended_ = [this](detail::Root::Handle root, const std::exception_ptr& failure) {
    std::erase(running_, root);
    ended_.push_back(root);
    if (failure && !failure_) failure_ = failure;
  };
};

EventLoop::EventLoop() : state_(std::make_unique<State>()) {}
EventLoop::~EventLoop() = default;
void EventLoop::spawn(Task<> task) { state_->spawn(std::move(task)); }
void EventLoop::run() { state_->run(); }
void EventLoop::stop() { state_->stop(); }
void EventLoop::watch(int fd, Waiter& waiter) { state_->watch(fd, waiter); }
void EventLoop::forget(int fd, Waiter& waiter) noexcept { state_->forget(fd, waiter); }
void EventLoop::post(std::function<void()> call) { state_->post(std::move(call)); }

}  // namespace forklift::inline abi_0_1
