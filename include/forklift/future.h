// Future<R>: the result of a task that a Pool was given, before it is there.
//
//   forklift::Future<double> area = pool.submit(integrate, 0.0, 1.0);
//   if (auto value = area.try_get(20ms)) use(*value);
//   std::move(area).then([](forklift::Future<double> done) { log(done.get()); });
//
// get() throws what became of a task that has no result:
//   RemoteError        its function threw
//   WorkerDiedError    its worker died: killed, aborted, left by exit()
//   TaskTimeoutError   it was over its time (CallOptions::timeout), and its worker was killed
//   CancelledError     cancel() came before it began
//   BrokenPoolError    the pool's workers cannot be started or made ready
//   Error (kClosed)    the pool was terminated, or destroyed
// Each task ends in exactly one of these or a result, whoever is killed and whenever.
//
// A future that is dropped leaves its task alone. then() has its function called in a thread of the pool's
// own, one call after the other; what it throws is said on stderr, and the pool goes on. It may wait for
// other tasks of the pool, and join or destroy the pool. Pool::join() returns when all have returned.
//
// Thread safety: one thread at a time per object. Process safety: a Future belongs to the process that made
// it. Invariant: valid() until get() or then() has been called; a moved-from Future is not.
#pragma once

#include <sys/types.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "forklift/detail/async_ref.h"
#include "forklift/detail/transfer.h"
#include "forklift/error.h"
#include "forklift/remote_error.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

// The worker of a task died, and there were no retries left.
class WorkerDiedError : public Error {
 public:
  // As the pool throws it.
  WorkerDiedError(std::string task, pid_t pid, int exitcode);
  const std::string& task() const noexcept { return task_; }  // the registered name of its function
  pid_t pid() const noexcept { return pid_; }                 // the worker's
  int exitcode() const noexcept { return exitcode_; }         // as Process::exitcode: negative for a signal
  int signal() const noexcept { return exitcode_ < 0 ? -exitcode_ : 0; }  // that ended it; 0: none

 private:
  std::string task_;
  pid_t pid_;
  int exitcode_;
};

// A task was over its time, and its worker was killed.
class TaskTimeoutError : public Error {
 public:
  using Error::Error;
};

// A task was cancelled before it had begun.
class CancelledError : public Error {
 public:
  using Error::Error;
};

// Workers cannot be made ready: what the last one said.
class BrokenPoolError : public Error {
 public:
  using Error::Error;
};

namespace detail {

// A task of a pool, and how it ended.
class TaskState;
using TaskPtr = std::shared_ptr<TaskState>;
class Outcome;

// False: the wait is over.
bool wait_task(TaskState& task, Limit limit);
bool cancel_task(TaskState& task);
int task_descriptor(TaskState& task);
void after_task(const TaskPtr& task, std::function<void()> call);
// Waits, then calls `use(into, outcome)`.
void take_outcome(TaskState& task, void (*use)(void* into, Outcome& outcome), void* into);

// These throw how the task ended, where that is no result, and TypeMismatch.
void expect_result(Outcome& outcome);
void result_bytes(Outcome& outcome, std::span<std::byte> out);
void result_sequence(Outcome& outcome, Sink sink, void* into);
Value result_value(Outcome& outcome);

template <class R>
inline constexpr bool kReturnable = Sendable<std::remove_cvref_t<R>>;
template <>
inline constexpr bool kReturnable<void> = true;

template <class R>
R result_of(Outcome& outcome) {
  if constexpr (std::is_void_v<R>) {
    expect_result(outcome);
  } else if constexpr (Bytewise<R>) {
    return made_of_bytes<R>([&](std::byte* memory) { result_bytes(outcome, {memory, sizeof(R)}); });
  } else if constexpr (Sequence<R>) {
    R sequence;
    result_sequence(outcome, assign_sequence<R>, &sequence);
    return sequence;
  } else {
    return result_value(outcome).template as<R>();
  }
}

}  // namespace detail

template <class R>
class Future {
  using NonVoid = std::conditional_t<std::is_void_v<R>, std::nullptr_t, R>;

 public:
  Future() noexcept = default;
  explicit Future(detail::TaskPtr task) noexcept : task_(std::move(task)) {}
  Future(Future&&) noexcept = default;
  Future& operator=(Future&&) noexcept = default;

  // Whether there is a task behind it: not after get(), then(), or being moved from.
  bool valid() const noexcept { return task_ != nullptr; }

  // Waits for the result, and hands it over.
  R get() {
    (void)state();
    const detail::TaskPtr task = std::move(task_);
    if constexpr (std::is_void_v<R>) {
      detail::take_outcome(
          *task, [](void*, detail::Outcome& outcome) { detail::expect_result(outcome); }, nullptr);
    } else {
      std::optional<R> result;
      detail::take_outcome(
          *task,
          [](void* into, detail::Outcome& outcome) {
            static_cast<std::optional<R>*>(into)->emplace(detail::result_of<R>(outcome));
          },
          &result);
      return *std::move(result);
    }
  }

  // As get(), within limits: nothing (false where R is void) if the task had not ended before the wait was over.
  [[nodiscard]] auto try_get(const Wait& wait = Wait::now()) {
    using Got = std::conditional_t<std::is_void_v<R>, bool, std::optional<NonVoid>>;
    if (!try_wait(wait)) return Got();
    if constexpr (std::is_void_v<R>) {
      get();
      return true;
    } else {
      return Got(get());
    }
  }

  // Until the task has ended, in whatever way. False: it had not before the wait was over.
  void wait() const { detail::wait_task(state(), detail::kForever); }
  [[nodiscard]] bool try_wait(const Wait& wait = Wait::now()) const {
    return detail::wait_task(state(), wait);
  }
  bool ready() const { return detail::wait_task(state(), 0); }
  // A descriptor for poll(), epoll or an event loop: readable once the task has ended, in whatever way, and from then
  // on. Made by the first call (Error, kSystem, where that fails); it belongs to this object, so take it out of the loop
  // before get(), and do not read from it.
  int fileno() const { return detail::task_descriptor(state()); }

  // As coroutines, on an event loop: co_await future.async_get(loop). Include forklift/async.h.
  auto async_get(Reactor& loop) {
    return detail::Async<Future>::template get<false>(*this, loop, Wait::forever());
  }
  auto async_try_get(Reactor& loop, const Wait& wait) {
    return detail::Async<Future>::template get<true>(*this, loop, wait);
  }

  // True: it has not begun, and never will. False: it has begun, or ended.
  bool cancel() { return detail::cancel_task(state()); }

  // Has `function(Future<R>)` called, which is ready, once the task has ended; in this thread if the pool
  // itself has.
  template <class Function>
    requires std::invocable<Function&, Future<R>>
  void then(Function function) && {
    (void)state();
    detail::TaskPtr task = std::move(task_);
    auto held = std::make_shared<Function>(std::move(function));
    detail::after_task(task, [held, task] { (*held)(Future<R>(task)); });
  }

 private:
  detail::TaskState& state() const {
    if (!task_) detail::throw_status({Code::kInvalid, "this Future was used up, or moved from"});
    return *task_;
  }

  detail::TaskPtr task_;
};

}  // namespace forklift::inline abi_0_1
