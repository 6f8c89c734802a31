// What a pool and its jobs are, for the files that implement their methods.
#pragma once

#include <nanobind/nanobind.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "bindings/pool/task.h"
#include "bindings/pool/worker_factory.h"

namespace forklift::py {

namespace nb = nanobind;

// Jobs that somebody in Python is to be told of: their numbers, as they end.
struct Ended {
  std::mutex mutex;
  std::condition_variable bell;
  std::deque<std::uint64_t> jobs;
  bool over = false;
};

class PoolCore {
 public:
  PoolCore(nb::object factory, std::uint32_t workers, std::uint32_t spares, std::uint64_t most_tasks,
           std::uint64_t most_memory);
  ~PoolCore();
  PoolCore(const PoolCore&) = delete;
  PoolCore& operator=(const PoolCore&) = delete;

  // Raises where this is another process than the one that made the pool.
  workers::Engine& engine() const;
  channel::Channel& tasks() const noexcept { return *factory_->tasks; }
  const std::shared_ptr<Ended>& ended() const noexcept { return ended_; }
  bool full(bool large) const noexcept;
  // Where it is full: waits until the workers have taken so much that more tasks make sense.
  Status wait_for_room(bool large, PyHooks& hooks) const;

  // What became of a task: (is it a value, the value or the exception). Steals nothing.
  std::pair<bool, nb::object> outcome(workers::Answer& answer, nb::handle label);
  nb::object stopped(nb::handle label, std::uint64_t index);

  void close();
  void terminate();
  bool join(nb::handle timeout);
  nb::object next_ended();
  void end_notices();
  nb::list pids() const;
  std::uint64_t outstanding() const;

 private:
  std::unique_ptr<WorkerFactory> factory_;
  std::shared_ptr<Ended> ended_ = std::make_shared<Ended>();
  std::unique_ptr<workers::Engine> engine_;
  std::uint32_t workers_;
  pid_t owner_;
  nb::object last_words_;
};

// One job of the engine: a call, a map, an iteration.
class PoolJob {
 public:
  // `eager`: taken in without anybody waiting, so that wait() and has_ended() need none who collects.
  PoolJob(nb::object core, nb::object label, std::uint64_t number, bool eager);

  // None; False where the workers have enough to do (unless patient); or the exception that keeps the task
  // from being sent.
  nb::object submit(nb::handle function, nb::handle arguments, unsigned style, std::uint64_t index,
                    double seconds, std::uint32_t retries, bool patient);
  // `most` tasks of `chunk` items each, from task `next` on; the task that would come next. Stops early where
  // the workers have enough to do (unless patient).
  std::uint64_t feed(nb::handle function, nb::handle items, bool starred, std::size_t chunk,
                     std::uint64_t next, std::uint64_t most, double seconds, std::uint32_t retries,
                     bool patient);
  void fail(std::uint64_t index, nb::object exception) {
    early_.emplace_back(index, std::move(exception));
    ++refused_;
  }
  void seal();
  // In the calling thread from begin to end: the results in `values`. The first error, or None.
  nb::object map(nb::handle function, nb::handle items, bool starred, std::size_t chunk, double seconds,
                 std::uint32_t retries, nb::list values, nb::object progress);
  nb::object call(nb::handle function, nb::handle arguments, unsigned style, double seconds,
                  std::uint32_t retries);

  // How many tasks have ended so far, those that could not be sent included.
  std::uint64_t ended() const;
  bool has_ended() const { return state_->ended.load(std::memory_order_acquire); }
  bool wait(nb::handle timeout);
  // Is to be told when it ends: its number comes out of PoolCore::next_ended().
  void watch();
  // What has come: (tasks that ended or could not be sent, bytes of results that were not taken, bytes of all
  // results).
  nb::tuple progress() const;
  // Waits until there are more of the former than `seen`, or no task is left.
  void wait_progress(std::uint64_t seen) const;
  // What has come, as many as fit into a few megabytes, waiting for the first: [(index, ok, value)]; None: no
  // task is left; []: time is up.
  nb::object take(std::size_t most, nb::handle timeout);
  // All that has come into `values`: the first error, or None.
  nb::object gather(nb::list values, std::size_t chunk);

  // For the garbage collector: exceptions refer to the frames that raised them, and so to this object.
  int visit(visitproc visitor, void* argument) const;
  void clear();

 private:
  struct State {
    std::atomic<bool> ended{false};
    bool watched = false;  // under Ended::mutex
  };
  enum class Fed : std::uint8_t {
    kSent,
    kFull,
    kFailed
  };
  Fed send(Callee& callee, PyObject* arguments, Style style, std::uint64_t index,
           const workers::TaskOptions& options, bool patient);
  struct Batch;
  void flush(Batch& batch);
  nb::object failure(const Status& status, std::uint64_t index);
  void put_in_place(nb::list& values, std::size_t chunk, std::uint64_t index, bool ok, nb::object value,
                    nb::object& error);
  Status collect(std::vector<workers::Answer>& answers, std::size_t most, os::Deadline deadline,
                 std::uint64_t most_bytes = UINT64_MAX);
  std::uint64_t feed_some(Callee& callee, PyObject* items, bool starred, std::size_t chunk,
                          std::uint64_t next, std::uint64_t last, const workers::TaskOptions& options,
                          bool patient);

  nb::object keeper_;
  PoolCore& core_;
  nb::object label_;
  workers::JobPtr job_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::uint64_t number_;
  std::vector<std::pair<std::uint64_t, nb::object>> early_;  // those that could not be sent
  std::uint64_t refused_ = 0;                                // how many there have been of them
  nb::object stop_error_;                                    // one for all tasks that a stopped pool refuses
};

workers::TaskOptions task_options(double seconds, std::uint32_t retries);
os::Deadline deadline_of(nb::handle timeout);

}  // namespace forklift::py
