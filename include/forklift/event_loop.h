// EventLoop: a small loop for coroutines that wait for Forklift's objects and for descriptors, and Task, their type.
//
//   forklift::Task<int> sum(forklift::Reactor& loop, forklift::Queue<int> numbers) {
//     int total = 0;
//     while (auto number = co_await numbers.async_try_get(loop, 1s)) total += *number;
//     co_return total;
//   }
//   forklift::Task<> print(forklift::Reactor& loop, forklift::Queue<int> numbers) {
//     std::cout << co_await sum(loop, numbers) << '\n';
//   }
//   forklift::EventLoop loop;
//   loop.spawn(print(loop, numbers));
//   loop.run();                                  // until all coroutines that were spawned have ended
//
// For programs that have no loop yet. In one that has (Asio, libuv, a GUI's), use that one: async.h says how.
//
// Ownership: a Task owns its coroutine, which begins when it is awaited or spawned; a Task that is destroyed destroys it.
// The loop owns what was spawned, and destroys what has not ended.
// Thread safety: run() and what coroutines call belong to one thread; post() and stop() may be called from any. Fork: a
// loop is of the process that made it.
// Errors: an exception that leaves a spawned coroutine ends run(), which throws it. Error (kSystem): there is no epoll.
#pragma once

#include <coroutine>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "forklift/async.h"

namespace forklift::inline abi_0_1 {

template <class T = void>
class Task;

namespace detail {

class TaskPromiseBase {
 public:
  std::suspend_always initial_suspend() noexcept { return {}; }
  // Whoever awaits it goes on.
  auto final_suspend() noexcept {
    struct Final {
      bool await_ready() const noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<>) const noexcept { return next; }
      void await_resume() const noexcept {}
      std::coroutine_handle<> next;
    };
    return Final{next_ ? next_ : std::coroutine_handle<>(std::noop_coroutine())};
  }
  void unhandled_exception() noexcept { failure_ = std::current_exception(); }
  void go_on_with(std::coroutine_handle<> next) noexcept { next_ = next; }

 protected:
  void rethrow() {
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  std::coroutine_handle<> next_;
  std::exception_ptr failure_;
};

template <class T>
class TaskPromise : public TaskPromiseBase {
 public:
  Task<T> get_return_object() noexcept;
  template <class Value>
  void return_value(Value&& value) {
    value_.emplace(std::forward<Value>(value));
  }
  T result() {
    rethrow();
    return *std::move(value_);
  }

 private:
  std::optional<T> value_;
};
template <>
class TaskPromise<void> : public TaskPromiseBase {
 public:
  Task<void> get_return_object() noexcept;
  void return_void() noexcept {}
  void result() { rethrow(); }
};

}  // namespace detail

template <class T>
class [[nodiscard]] Task {
 public:
  // For the compiler.
  using promise_type = detail::TaskPromise<T>;

  Task(Task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    return *this;
  }
  ~Task() {
    if (coroutine_) coroutine_.destroy();
  }

  // Begins it, and answers what it returns, or throws what it threw.
  auto operator co_await() noexcept {
    struct Awaiter {
      bool await_ready() const noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiting) noexcept {
        coroutine.promise().go_on_with(waiting);
        return coroutine;
      }
      T await_resume() { return coroutine.promise().result(); }
      std::coroutine_handle<promise_type> coroutine;
    };
    return Awaiter{coroutine_};
  }

 private:
  friend promise_type;
  friend class EventLoop;
  explicit Task(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}
  std::coroutine_handle<promise_type> coroutine_;
};

namespace detail {
template <class T>
Task<T> TaskPromise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}
inline Task<void> TaskPromise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}
}  // namespace detail

class EventLoop final : public Reactor {
 public:
  EventLoop();
  ~EventLoop() override;
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Begins the coroutine at once, up to its first wait. It is the loop's from here on.
  void spawn(Task<> task);
  // Until every coroutine that was spawned has ended, or stop(). What was not ended goes on with the next run().
  void run();
  // Ends the run() that is under way, or else the next one.
  void stop();

  void watch(int fd, Waiter& waiter) override;
  void forget(int fd, Waiter& waiter) noexcept override;
  void post(std::function<void()> call) override;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace forklift::inline abi_0_1
