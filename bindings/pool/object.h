// The classes of a pool and its jobs, for the files that implement their methods.
#pragma once

#include <nanobind/nanobind.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bindings/pool/task.h"
#include "bindings/pool/worker_factory.h"

namespace forklift::py {

namespace nb = nanobind;

// The numbers of watched jobs that have ended, in that order. The pool's callback thread waits for them.
struct Ended {
  std::mutex mutex;
  std::condition_variable bell;
  std::deque<std::uint64_t> jobs;
  bool over = false;
};

class PoolCore {
 public:
  // `failures`: the module whose functions make the exceptions of tasks that have no value.
  PoolCore(nb::object factory, const workers::EngineOptions& options, std::string failures);
  ~PoolCore();
  PoolCore(const PoolCore&) = delete;
  PoolCore& operator=(const PoolCore&) = delete;

  // Raises ValueError in any process but the one that made the pool.
  workers::Engine& engine() const;
  channel::Channel& tasks() const noexcept { return *factory_->tasks; }
  const std::shared_ptr<Ended>& ended() const noexcept { return ended_; }
  // `bytes`: of the blocks of the next task's message.
  bool full(std::uint64_t bytes) const noexcept;
  // Waits, if the pool is full, until the workers have taken half of the tasks that make it full.
  Status wait_for_room(std::uint64_t bytes, PyHooks& hooks) const;

  // The outcome of a task: (true, its value) or (false, its exception). Takes the payload out of `answer`.
  std::pair<bool, nb::object> outcome(workers::Answer& answer, nb::handle label);
  nb::object stopped(nb::handle label, std::uint64_t index);
  // Calls a function of the module `failures`.
  nb::object failure(const char* function, nb::tuple arguments) const;

  void close();
  void terminate();
  bool join(nb::handle timeout);
  // Waits until the workers that the tasks so far need have been started. True: no more will be needed.
  bool wait_started() const;
  bool is_broken() const { return !engine().health().ok(); }
  nb::object next_ended();
  void end_notices();
  nb::list pids() const;
  std::uint64_t outstanding() const;
  // ns since the pool was made, the figures of each worker slot (in the order of workers::Figures), and the slowest
  // tasks: (ns, pid, text). None: the pool has no insights.
  nb::object insights() const;
  // Of a wait for a result whose time is over: adds to the exception what the workers do, where the program asks for
  // explanations. Returns the exception.
  nb::object explained(nb::object error) const;

 private:
  std::unique_ptr<WorkerFactory> factory_;
  std::shared_ptr<Ended> ended_ = std::make_shared<Ended>();
  std::unique_ptr<workers::Engine> engine_;
  std::uint32_t workers_;
  pid_t owner_;
  nb::object last_words_;
  std::string failures_;
};

// Sends the task whose message `writer` has. `full`: nothing was sent, since the pool is full and the caller
// is not `patient`. For kInterrupted an exception is set.
struct Sent {
  Status status;
  bool full = false;
};
Sent send_task(PoolCore& core, const workers::JobPtr& job, MessageWriter& writer, std::uint64_t index,
               const workers::TaskOptions& options, bool patient);

// One job of the engine: a call, a map, an iteration.
class PoolJob {
 public:
  // `eager`: the engine receives the job's answers even when no thread waits for them, so that has_ended()
  // and wait() work without collect().
  // `cancellable`: cancel_all() has an effect.
  PoolJob(nb::object core, nb::object label, std::uint64_t number, bool eager, bool cancellable);

  // Sends one task. Returns None, or False if the pool is full and the caller is not `patient`. A task that
  // cannot be sent ends with the exception that says why, as by fail().
  nb::object submit(nb::handle function, nb::handle arguments, unsigned style, std::uint64_t index,
                    double seconds, std::uint32_t retries, bool patient);
  // Sends up to `most` tasks of `chunk` items each, from task `next` on. Returns the first task that was not
  // sent. Stops early when the pool is full, unless the caller is `patient`.
  std::uint64_t feed(nb::handle function, nb::handle items, bool starred, std::size_t chunk,
                     std::uint64_t next, std::uint64_t most, double seconds, std::uint32_t retries,
                     bool patient);
  void fail(std::uint64_t index, nb::object exception) {
    early_.emplace_back(index, std::move(exception));
    ++refused_;
  }
  void seal();
  // Ends the tasks that have not begun as cancelled.
  void cancel_all();
  // Sends all tasks and receives their results into `values`, all in the calling thread. Returns the first
  // error or None.
  nb::object map(nb::handle function, nb::handle items, bool starred, std::size_t chunk, double seconds,
                 std::uint32_t retries, nb::list values, nb::object progress);
  nb::object call(nb::handle function, nb::handle arguments, unsigned style, double seconds,
                  std::uint32_t retries);

  // How many tasks have ended so far, including those that could not be sent.
  std::uint64_t ended() const;
  bool has_ended() const { return state_->ended.load(std::memory_order_acquire); }
  bool wait(nb::handle timeout);
  // From now on PoolCore::next_ended() returns this job's number when the job has ended.
  void watch();
  // (tasks that have ended or could not be sent, bytes of results that were not taken yet, bytes of all
  // results)
  nb::tuple progress() const;
  // Waits until more than `seen` tasks have ended or could not be sent, or until no task is left.
  void wait_progress(std::uint64_t seen) const;
  // Waits for the first result and takes those that have arrived, up to a few megabytes: [(index, ok,
  // value)]. None: no task is left. []: the time is over.
  nb::object take(std::size_t most, nb::handle timeout);
  // Takes all results that have arrived into `values`. Returns the first error or None.
  nb::object gather(nb::list values, std::size_t chunk);
  nb::object explained(nb::object error) const { return core_.explained(std::move(error)); }

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
  bool open(Callee& callee, nb::handle function) {
    const bool opened = last_.open(function.ptr(), callee);
    callee.carry(context_);
    return opened;
  }
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
  std::string context_ = task_context();                     // of the thread that made the job
  std::vector<std::pair<std::uint64_t, nb::object>> early_;  // tasks that could not be sent: index, exception
  std::uint64_t refused_ = 0;                                // how many tasks could not be sent
  LastCallee last_;
  nb::object stop_error_;  // one for all tasks that a stopped pool refuses
};

workers::TaskOptions task_options(double seconds, std::uint32_t retries);
os::Deadline deadline_of(nb::handle timeout);

}  // namespace forklift::py
