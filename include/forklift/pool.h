// Pool: workers that call functions for this process, and the results in order, as they come, or as futures.
//
//   double integrate(double from, double to);
//   static const forklift::Registered<&integrate> registered_integrate{"integrate"};   // forklift/spawn.h
//
//   forklift::Pool pool({.workers = 4});
//   double one = pool.apply(integrate, 0.0, 1.0);
//   std::vector<double> all = pool.starmap(integrate, intervals);   // a range of pairs or tuples
//   for (Image image : pool.imap(load, paths)) show(image);         // a few ahead, in order
//   forklift::Future<double> later = pool.submit(integrate, 1.0, 2.0);
//   pool.with({.timeout = 5s, .retries = 2}).apply(risky, input);
//
// Functions are registered ones, on every start method, since a worker that died is replaced by one that was
// started later. Arguments and results are Sendable: a Tensor is the same memory at both ends. Queues, locks
// and what takes long to set up are handed to an initializer, which each worker runs first:
//
//   forklift::Pool pool({.workers = 2}, open_model, "model.bin", queue);
//
// A task whose worker dies fails with WorkerDiedError, or runs again (`retries`): so give retries to
// functions that may be run twice. What a worker was killed for is replaced; other tasks never notice. A
// worker that is done for good (tasks_per_worker, memory_per_worker) is replaced as well; with spares, by one
// that is ready.
//
// Thread safety: any number of threads may call any member but the destructor. Process safety: a Pool belongs
// to the process that made it; in a forked child its members throw and its destructor does nothing. Workers
// end with that process, however it ends.
//
// Errors: Error (kInvalid: no workers, a function that is not registered; kClosed: closed or terminated; what
// put throws; kTimeout, kInterrupted: CallOptions::wait is over), BrokenPoolError. What becomes of tasks: forklift/future.h.
// Invariants: each task ends exactly once. A pool at rest uses no processor. The destructor terminates: it
// waits for no task.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "forklift/context.h"
#include "forklift/detail/caught.h"
#include "forklift/detail/pool_task.h"
#include "forklift/future.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

namespace mpi {
class Pool;
}  // namespace mpi

// As many as processors that this process may use.
std::size_t default_workers() noexcept;

// How many workers, how they are started, and when they are replaced.
struct PoolOptions {
  std::size_t workers = default_workers();  // at least 1
  Context context = fork_context();         // fork, spawn or forkserver
  std::size_t spares = 0;                   // more, ready to take the place of one that is gone
  std::uint64_t tasks_per_worker = 0;       // a worker is replaced after so many; 0: never
  std::uint64_t memory_per_worker = 0;      // a worker is replaced when it has grown by more bytes; 0: never
  std::string name = "PoolWorker";          // a worker's, before its number
};

// What tasks are given beside their arguments: Pool::with().
struct CallOptions {
  std::chrono::nanoseconds timeout{0};  // a task may run so long, then its worker is killed; 0: without end
  // So often a task runs again when its worker has died; one that was over its time never does.
  unsigned retries = 0;
  std::size_t ahead = 0;  // imap: so many tasks at most are not yet fetched; 0: twice the workers + 16
  // How long apply(), map() and starmap() wait, and a stream altogether. Beyond it they throw Error (kTimeout, or
  // kInterrupted for a stop); their tasks that have not begun are cancelled, and of those that have, the results are
  // dropped. After submit(): Future::try_get(wait).
  Wait wait = Wait::forever();
};

// In a worker: its number in the pool, from 0; a replaced one's goes to the next. Elsewhere -1.
int worker_id() noexcept;

template <class R>
class ResultStream;

// What can be called on a pool, with the options that were given to Pool::with().
class PoolCalls {
 public:
  // function(args...) in a worker: its result, or what it threw.
  template <class R, class... Params, class... Args>
  detail::Returned<R> apply(R (*function)(Params...), Args&&... args) const {
    if (options_.wait.is_forever()) return submit(function, std::forward<Args>(args)...).get();
    if (options_.wait.over()) detail::throw_wait_over(options_.wait);
    auto result = submit(function, std::forward<Args>(args)...);
    if (!result.try_wait(options_.wait)) {
      (void)result.cancel();
      detail::throw_wait_over(options_.wait);
    }
    return result.get();
  }

  // The same, without waiting.
  template <class R, class... Params, class... Args>
  Future<detail::Returned<R>> submit(R (*function)(Params...), Args&&... args) const {
    using Kind = detail::TaskKind<R, Params...>;
    constexpr bool kAsMany = sizeof...(Params) == sizeof...(Args);
    static_assert(kAsMany, "forklift: a task needs as many arguments as its function has parameters");
    static_assert(!kAsMany || detail::Takes<typename Kind::Arguments, Args&&...>::value,
                  "forklift: a task's arguments are not what its function takes");
    const detail::TaskFunction called =
        detail::task_function(detail::address_of(function), Kind::signature());
    detail::TaskPtr task;
    Kind::pack(typename Kind::Arguments(std::forward<Args>(args)...), [&](const detail::TaskInput& input) {
      task = detail::submit_task(core_, options_, called, input);
    });
    return Future<detail::Returned<R>>(std::move(task));
  }

  // Anything but a function does not compile.
  template <detail::CallableObject Callable, class... Args>
  void apply(Callable&&, Args&&...) const {
    detail::refuse_callable<Callable>();
  }
  template <detail::CallableObject Callable, class... Args>
  void submit(Callable&&, Args&&...) const {
    detail::refuse_callable<Callable>();
  }
  template <detail::CallableObject Callable, class Range>
  auto map(Callable&&, Range&&) const {
    return detail::refuse_results<Callable>();
  }
  template <detail::CallableObject Callable, class Range>
  auto starmap(Callable&&, Range&&) const {
    return detail::refuse_results<Callable>();
  }
  template <detail::CallableObject Callable, class Range>
  auto imap(Callable&&, Range&&) const {
    return detail::refuse_results<Callable>();
  }
  template <detail::CallableObject Callable, class Range>
  auto imap_unordered(Callable&&, Range&&) const {
    return detail::refuse_results<Callable>();
  }

  // The results of function(element) for each element, in order; nothing where the function returns nothing.
  // Waits for all; then throws what the first task that has no result ended with.
  template <class R, class Param, class Range>
  auto map(R (*function)(Param), Range&& range) const {
    return map_over(function, range, detail::TakeWhole<typename detail::TaskKind<R, Param>::Arguments>());
  }
  // Of function(std::get<0>(element), ...).
  template <class R, class... Params, class Range>
  auto starmap(R (*function)(Params...), Range&& range) const {
    return map_over(function, range,
                    detail::SpreadOver<typename detail::TaskKind<R, Params...>::Arguments>());
  }

  // As map, one result at a time, in order; tasks are submitted as results are fetched (CallOptions::ahead).
  // An element without a result throws when it is its turn, and the others follow. What ends the feeding (the
  // range throws, the pool was closed) is thrown once, behind the results of all elements before, and by
  // imap() itself for the first one. A range that is no temporary has to outlive the stream.
  template <class R, class Param, class Range>
  ResultStream<detail::Returned<R>> imap(R (*function)(Param), Range&& range) const {
    return stream_over(function, std::forward<Range>(range), true);
  }
  // As they come.
  template <class R, class Param, class Range>
  ResultStream<detail::Returned<R>> imap_unordered(R (*function)(Param), Range&& range) const {
    return stream_over(function, std::forward<Range>(range), false);
  }

 protected:
  PoolCalls(std::shared_ptr<detail::PoolCore> core, const CallOptions& options) noexcept
      : core_(std::move(core)), options_(options) {}
  const std::shared_ptr<detail::PoolCore>& core() const noexcept { return core_; }

 private:
  friend class Pool;
  friend class mpi::Pool;
  template <class R, class... Params, class Range, class Spread>
  auto map_over(R (*function)(Params...), Range& range, Spread spread) const {
    using Kind = detail::TaskKind<R, Params...>;
    using Returned = detail::Returned<R>;
    std::vector<detail::Item<Returned>> items;
    const detail::Batch batch(core_, options_,
                              detail::task_function(detail::address_of(function), Kind::signature()), true);
    const detail::Deliver deliver = [](void* into, std::uint64_t index, detail::Outcome& outcome) {
      (*static_cast<std::vector<detail::Item<Returned>>*>(into))[index].take(outcome);
    };
    for (auto&& element : range) {
      batch.make_room(deliver, &items);
      items.emplace_back();
      Kind::pack(spread(std::forward<decltype(element)>(element)),
                 [&](const detail::TaskInput& input) { batch.submit(items.size() - 1, input); });
      if (items.size() % 256 == 0) batch.collect(deliver, &items, 0);
    }
    batch.flush();
    while (batch.collect_in_time(deliver, &items)) {
    }
    return detail::results_of(items);
  }

  template <class R, class Param, class Range>
  ResultStream<detail::Returned<R>> stream_over(R (*function)(Param), Range&& range, bool ordered) const {
    using Kind = detail::TaskKind<R, Param>;
    static_assert(!std::is_void_v<R>, "forklift: imap() of a function that returns nothing; use map()");
    auto batch = std::make_shared<detail::Batch>(
        core_, options_, detail::task_function(detail::address_of(function), Kind::signature()), false);
    auto source = std::make_shared<detail::Source<Range>>(std::forward<Range>(range));
    auto feed = [batch, source](std::uint64_t index) {
      return source->next([&](auto&& element) {
        Kind::pack(detail::TakeWhole<typename Kind::Arguments>()(std::forward<decltype(element)>(element)),
                   [&](const detail::TaskInput& input) { batch->submit(index, input); });
      });
    };
    return ResultStream<detail::Returned<R>>(batch, std::move(feed), ordered);
  }

  std::shared_ptr<detail::PoolCore> core_;
  CallOptions options_;
};

// The results of imap(): a range, or one by one with get() until it throws Closed.
template <class R>
class ResultStream {
 public:
  using Feed = std::function<bool(std::uint64_t index)>;  // submits the next task; false: there is none
  ResultStream(std::shared_ptr<detail::Batch> batch, Feed feed, bool ordered)
      : batch_(std::move(batch)), feed_(std::move(feed)), ordered_(ordered) {
    top_up();
    if (fed_ == 0) rethrow_feeding();
  }
  ResultStream(ResultStream&&) noexcept = default;
  ResultStream& operator=(ResultStream&&) noexcept = default;

  // The next result; waits for it. Throws Closed behind the last one, and what the task ended with where it has no
  // result; the next call gives the next one. After a wait of CallOptions was over there is none.
  R get() {
    std::optional<R> result = next();
    if (!result) detail::throw_no_more_results();
    return *std::move(result);
  }
  // Nothing: there was none before the wait was over; the stream goes on with the next call.
  [[nodiscard]] std::optional<R> try_get(const Wait& wait = Wait::now()) {
    if (!try_wait(wait)) return std::nullopt;
    return get();
  }
  // Whether get() would return, or throw, at once. False: it would not before the wait was over.
  [[nodiscard]] bool try_wait(const Wait& wait = Wait::now()) {
    (void)batch();
    const Wait begun = wait.begun();
    while (!has_next() && fetched_ != fed_) {
      if (!batch_->collect(deliver, &arrived_, begun)) return has_next();
    }
    return true;
  }

  // A std::input_iterator: each step is a get(). Copies are at the same result, which is the stream's.
  class Iterator {
   public:
    using iterator_concept = std::input_iterator_tag;
    using iterator_category = std::input_iterator_tag;
    using value_type = R;
    using difference_type = std::ptrdiff_t;
    using pointer = R*;
    using reference = R&;
    Iterator() noexcept = default;
    explicit Iterator(ResultStream& stream) : stream_(&stream) { ++*this; }
    R& operator*() const noexcept { return *stream_->now_; }
    R* operator->() const noexcept { return &*stream_->now_; }
    Iterator& operator++() {
      stream_->now_ = stream_->next();
      if (!stream_->now_) stream_ = nullptr;
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(const Iterator& other) const noexcept { return stream_ == other.stream_; }

   private:
    ResultStream* stream_ = nullptr;  // null: behind the last one
  };
  Iterator begin() { return Iterator(*this); }
  Iterator end() noexcept { return {}; }

 private:
  using Arrived = std::map<std::uint64_t, detail::Item<R>>;
  static void deliver(void* into, std::uint64_t index, detail::Outcome& outcome) {
    (*static_cast<Arrived*>(into))[index].take(outcome);
  }
  bool has_next() const { return ordered_ ? arrived_.count(fetched_) != 0 : !arrived_.empty(); }
  detail::Batch& batch() const {
    if (!batch_) detail::throw_moved_stream();
    return *batch_;
  }
  // Nothing behind the last one.
  std::optional<R> next() {
    detail::Batch& batch = this->batch();
    while (!has_next()) {
      if (fetched_ == fed_) break;
      if (std::exception_ptr failure = detail::caught([&] { batch.collect_in_time(deliver, &arrived_); })) {
        if (batch.over()) finish();
        detail::rethrow(failure);
      }
    }
    return take();
  }
  std::optional<R> take() {
    if (!has_next()) {
      rethrow_feeding();
      return std::nullopt;
    }
    const auto at = ordered_ ? arrived_.find(fetched_) : arrived_.begin();
    detail::Item<R> item = std::move(at->second);
    arrived_.erase(at);
    ++fetched_;
    // A few at once: so workers are woken for several.
    if (fed_ - fetched_ <= batch_->ahead() - batch_->ahead() / 4) top_up();
    return std::move(item).get();
  }
  // Throws nothing: what is there already comes first.
  void top_up() {
    const std::exception_ptr failure = detail::caught([this] {
      while (feed_ && fed_ - fetched_ < batch_->ahead()) {
        if (!feed_(fed_)) {
          feed_ = nullptr;
          break;
        }
        ++fed_;
      }
    });
    if (failure) {
      fed_badly_ = failure;
      feed_ = nullptr;
    }
    batch_->flush();
  }
  void rethrow_feeding() {
    if (fed_badly_) std::rethrow_exception(std::exchange(fed_badly_, nullptr));
  }
  void finish() noexcept {
    feed_ = nullptr;
    fed_badly_ = nullptr;
    arrived_.clear();
    fetched_ = fed_;
  }

  std::shared_ptr<detail::Batch> batch_;
  Feed feed_;
  std::exception_ptr fed_badly_;  // what ended the feeding; thrown once
  bool ordered_;
  std::uint64_t fed_ = 0;
  std::uint64_t fetched_ = 0;
  Arrived arrived_;
  std::optional<R> now_;  // what its iterators are at
};

class Pool : public PoolCalls {
 public:
  // Starts the workers, without waiting for them. Error (kInvalid): none are wanted; kSystem: none can be
  // started.
  explicit Pool(const PoolOptions& options = {}) : PoolCalls(detail::make_pool(options, {}), {}) {}
  // Each worker calls initializer(args...) first. One that throws cannot work; if none can, the pool is
  // broken.
  template <class R, class... Params, class... Args>
  Pool(const PoolOptions& options, R (*initializer)(Params...), Args&&... args)
      : PoolCalls(detail::make_pool(options, detail::prepare_call(initializer, std::forward<Args>(args)...)),
                  {}) {}
  template <detail::CallableObject Callable, class... Args>
  Pool(const PoolOptions& options, Callable&&, Args&&...) : Pool(options) {
    detail::refuse_callable<Callable>();
  }
  ~Pool() { detail::end_pool(core()); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // The same calls, with a deadline, retries or another look-ahead.
  PoolCalls with(const CallOptions& options) const noexcept { return PoolCalls(core(), options); }

  // No more tasks; workers leave when all have ended.
  void close() { detail::close_pool(*core()); }
  // Every task ends now, as stopped; workers get SIGTERM, after a second SIGKILL.
  void terminate() { detail::terminate_pool(*core()); }
  // After one of these two: until all workers are gone.
  void join() { (void)detail::join_pool(*core(), detail::kForever); }
  // False: some were left when the wait was over.
  [[nodiscard]] bool try_join(const Wait& wait = Wait::now()) { return detail::join_pool(*core(), wait); }

  // Of the workers that live now.
  std::vector<pid_t> pids() const { return detail::pool_pids(*core()); }
};

}  // namespace forklift::inline abi_0_1
