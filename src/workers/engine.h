// The engine under every pool: tasks go to workers through one channel and come back through another, each
// ends in exactly one answer, whoever is killed and whenever.
//
//   Result<std::unique_ptr<Engine>> engine = Engine::create(node, {.workers = 4}, start_worker);
//   JobPtr job = (*engine)->make_job();
//   for (...) (*engine)->submit(job, index, {.bytes = task, .codec = codec}, {}, more);
//   std::vector<Answer> answers;
//   while ((*engine)->collect(*job, answers, 64, Deadline::never())) { if (answers.empty()) break; ... }
//
// It knows no language: payloads are bytes and leases, and workers are made by the factory. A *job* is what
// somebody waits for: one task or a million. Answers of a job come in the order in which its tasks ended;
// each says which task it is, so putting them in order, and bounding how far a producer may be ahead, is the
// caller's (forklift/pool.h has both).
//
// Who takes in answers: whoever waits in collect(), for all jobs; there is no hop through another thread. A
// thread that waits when nobody else does exists only once a job has an `on_end`. One more thread per pool
// sleeps until a worker dies, a deadline comes or the pool is told to stop; it starts workers, so the factory
// is called in it (and in create()), one call at a time.
//
// What became of a worker's task is decided by its worker slot's claim (worker_table.h, P1), after all answers
// that were committed before its death have been taken in. A task that may be retried is retained here, and
// what is private in its message is copied by the worker that receives it; so a retry sees what was
// submitted.
//
// Thread safety: all members from any thread, but for the destructor. No lock that guards the engine is held
// while `on_end` or the factory runs, or while a job is destroyed. Process safety: an Engine belongs to the
// process that made it; in a forked child nothing but abandon() may be called.
//
// Errors: kClosed (closed, terminated), kPeerDied (workers cannot be started: health()), and what
// Channel::put answers.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "node/node.h"
#include "os/fd.h"
#include "workers/worker.h"
#include "workers/worker_table.h"

namespace forklift::workers {

// A worker process as its parent has it. Called by one thread at a time.
class WorkerHandle {
 public:
  virtual ~WorkerHandle() = default;
  virtual pid_t pid() const = 0;
  // Becomes readable when the process has ended.
  virtual int sentinel() const = 0;
  // After that: waits for it; the exit code, or minus the signal's number.
  virtual int wait() = 0;
  virtual void signal(int number) = 0;
};
using WorkerFactory = std::function<Result<std::unique_ptr<WorkerHandle>>(const WorkerSlot& worker_slot)>;

struct EngineOptions {
  std::uint32_t workers = 1;
  std::uint32_t spares = 0;       // more, started and ready, that wait to take the place of one that is gone
  std::uint64_t most_tasks = 0;   // a worker is replaced after so many tasks; 0: never
  std::uint64_t most_memory = 0;  // a worker is replaced when it has grown by more bytes; 0: never
};

struct TaskOptions {
  std::int64_t time_ns = 0;   // it may run so long, then its worker is killed; 0: without end
  std::uint32_t retries = 0;  // so often it runs again after a death of its worker
};

struct Answer {
  // Of memory that the payload keeps.
  std::uint64_t bytes() noexcept {
    std::uint64_t sum = payload.bytes().size();
    for (const arena::LeasePtr& lease : payload.leases()) sum += lease->size();
    return sum;
  }
  std::uint64_t index = 0;  // as submitted
  Ending ending = Ending::kValue;
  channel::Incoming payload{};  // kValue, kError
  pid_t pid = 0;                // kDied, kTimedOut: the worker, and how it ended
  int exitcode = 0;
};

// What somebody waits for. Its content belongs to the engine.
class Job {
 public:
  Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

 private:
  friend class Engine;
  std::vector<Answer> answers;
  std::size_t collected = 0;         // so many of them are gone
  std::uint64_t running = 0;         // submitted and not ended
  std::uint64_t ended = 0;           // of all that were submitted
  std::uint64_t answer_bytes = 0;    // of the answers that were not collected
  std::uint64_t all_bytes = 0;       // of all answers
  std::uint32_t waiters = 0;         // threads in a waiting call for this job
  std::vector<std::uint64_t> tasks;  // by index, while cancelling is possible (JobOptions::cancellable)
  std::function<void()> on_end;
  bool bulk = false;
  bool cancellable = false;
  bool sealed = false;
  bool eager = false;        // the collector waits for it
  std::uint32_t wanted = 1;  // how many answers make waking its collector worthwhile, as learnt
};
using JobPtr = std::shared_ptr<Job>;

struct JobOptions {
  bool bulk = false;         // its collector wants all answers, and need not hear of each at once (a map)
  bool cancellable = false;  // Engine::cancel() will be asked
  // Called once, when the job is sealed and every task has ended; one at a time, in the order in which the
  // jobs ended. Whoever took in an answer does it: a thread that waits for something else of this pool, or
  // the one that minds its workers. So it has to be short and wait for nothing; what is a user's goes to a
  // thread of its own. Must not throw.
  std::function<void()> on_end = nullptr;
};

class Engine {
 public:
  // Starts the workers. kInvalid: no workers.
  static Result<std::unique_ptr<Engine>> create(node::Node& node, const EngineOptions& options,
                                                WorkerFactory factory);
  ~Engine();
  // terminate() and join(), and the engine's threads end: within some two seconds. What was collected, and
  // what is still to be, stays. Not in an `on_end`; the destructor does it, too.
  void shut_down();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  // In a forked child, instead of the destructor: nothing here is the child's.
  static void abandon(std::unique_ptr<Engine> engine) noexcept { (void)engine.release(); }

  static JobPtr make_job(JobOptions options = {});
  // `index` is what the answer will carry. `more`: another one follows at once, or flush(); the workers are
  // then woken for several together. The tag of `message` is not used; its leases are taken when it succeeds.
  Status submit(const JobPtr& job, std::uint64_t index, const channel::Outgoing& message,
                const TaskOptions& options = {}, bool more = false);
  void flush() noexcept;
  // No more tasks for this job: on_end may come.
  void seal(const JobPtr& job);
  // Seals the job and has it call `on_end` then: at once, in this thread, if all its tasks have ended.
  // Instead of JobOptions::on_end. When it fails, nothing will be called.
  Status after(const JobPtr& job, std::function<void()> on_end);

  // Moves up to `most` answers of the job into `into` (which is emptied first), waiting for the first one;
  // none behind that which makes them `most_bytes` together. Ok with none: no task of the job is left.
  // kTimeout, kInterrupted.
  Status collect(Job& job, std::vector<Answer>& into, std::size_t most, os::Deadline deadline,
                 channel::WaitHooks* hooks = nullptr, std::uint64_t most_bytes = UINT64_MAX);
  // What has come of a job so far, collected or not.
  struct Progress {
    std::uint64_t ended = 0;    // tasks
    std::uint64_t waiting = 0;  // bytes of answers that were not collected
    std::uint64_t bytes = 0;    // of all answers
  };
  Progress progress(Job& job);
  // Waits until more than `seen` tasks of the job have ended, or none is left.
  Status wait_progress(Job& job, std::uint64_t seen, os::Deadline deadline,
                       channel::WaitHooks* hooks = nullptr);
  // Waits until no task of the job is left, and leaves the answers to collect().
  Status wait(Job& job, os::Deadline deadline, channel::WaitHooks* hooks = nullptr);
  // Waits until the job is sealed, no task of it is left, and its `on_end` has returned.
  Status wait_end(Job& job, os::Deadline deadline, channel::WaitHooks* hooks = nullptr);
  // Waits until at most `most` tasks have not been taken by a worker. kClosed, or why the pool cannot work.
  Status wait_for_room(std::uint32_t most, os::Deadline deadline, channel::WaitHooks* hooks = nullptr);
  // How many of the job's tasks have ended, whether they were collected or not; for who watches a job grow.
  // Of a job with an `on_end` always up to date, of others as far as somebody has taken answers in.
  std::uint64_t ended(const Job& job);
  // Ends the task as cancelled if it has not begun. False: it has begun, or ended, or there were more than
  // kCancelPlaces tasks when it was submitted.
  bool cancel(Job& job, std::uint64_t index);
  // So all tasks of the job, those that were submitted last first: no worker is quicker.
  void cancel_all(Job& job);

  // No more tasks: workers leave when all have ended.
  void close();
  // All tasks end at once (kStopped), workers are terminated: SIGTERM, after a second SIGKILL.
  void terminate();
  // After close() or terminate(): until every worker is gone. Takes in answers meanwhile.
  Status join(os::Deadline deadline, channel::WaitHooks* hooks = nullptr);

  // kPeerDied when workers cannot be started or made ready; then every task ends as kStopped. What the last
  // of them said is in `last_words`, as it was sent (empty: nothing).
  Status health(channel::Incoming* last_words = nullptr);
  std::vector<pid_t> pids();
  std::uint64_t outstanding();
  node::Node& node() const noexcept { return node_; }
  // Where no waiter sees it: wakes those in the waiting calls, which ask their hooks.
  void wake() noexcept;

 private:
  // A message that may be sent again.
  struct Retained {
    std::vector<std::byte> bytes;
    std::vector<arena::LeasePtr> leases;
    std::uint8_t codec = 0;
  };
  struct Task {
    JobPtr job;
    std::uint64_t index = 0;
    std::uint32_t generation = 0;
    std::uint32_t retries = 0;
    std::int64_t time_ns = 0;
    bool cancelled = false;  // has ended, its message is still on the way
    std::unique_ptr<Retained> retained;
    std::uint32_t next_free = 0;
  };
  // A worker slot as the thread that minds it sees it.
  struct Place {
    std::unique_ptr<WorkerHandle> worker;
    pid_t pid = 0;
    bool spare = false;
    bool told_to_leave = false;
    std::uint64_t condemned = 0;     // the task for whose deadline it was killed
    std::uint64_t watched = 0;       // a task with a deadline of which it has not said when it began,
    std::int64_t watched_since = 0;  // and since when
  };
  enum class Mode {
    kRunning,
    kLeaving,     // told to leave: closed, and all tasks have ended
    kTerminating  // being killed
  };
  // What is to be done when the lock is not held any more.
  struct After {
    std::vector<JobPtr> dropped;
    bool calls = false;   // there is something in `calls_`
    bool others = false;  // somebody else's answers came
    bool mind = false;    // the supervisor has something to do
  };

  Engine(node::Node& node, const EngineOptions& options, WorkerFactory factory);
  Status open();

  // pool_engine.cpp; `_locked`: with mutex_ held
  Task* find_locked(std::uint64_t task) noexcept;
  Result<std::uint64_t> enter_locked(const JobPtr& job, std::uint64_t index, const TaskOptions& options);
  void end_locked(std::uint64_t task, Answer answer, After& after);
  void end_job_locked(Job& job, After& after);
  void free_locked(std::uint64_t task, After& after);
  void drain_locked(const Job* mine, After& after);
  void take_in_locked(const Job* mine, After& after);
  void end_all_locked(Ending ending, After& after);
  Status admit_locked() const;
  void finish(After& after);
  void make_calls();
  class Waiting;
  template <class Done>
  Status await(Done&& done_locked, Job* job, os::Deadline deadline, channel::WaitHooks* hooks);

  // pool_collect.cpp
  Status retain(const channel::Outgoing& message, std::unique_ptr<Retained>& into) const;
  bool send_again_locked(std::uint64_t task, Task& entry);
  std::uint32_t pace_locked(const Job* job) const noexcept;
  static void learn_pace(Job& job, std::uint32_t least, bool came, std::int64_t waited_ns) noexcept;
  // pool_minder.cpp: all in the supervisor's thread, but for mind() and the first fill_seats()
  void mind() noexcept;
  void run_supervisor();
  void fill_seats();
  bool start(std::size_t worker_slot, bool spare);
  bool promote_spare();
  void collect_dead();
  void settle_death_locked(std::size_t worker_slot, int exitcode, After& after);
  void note_failure_locked(unsigned weight, const std::string& why, After& after);
  std::int64_t enforce_deadlines();
  std::int64_t check_deadline_locked(std::size_t worker_slot, std::int64_t now);
  void tell_to_leave();
  void put_down();
  bool anybody_left() const noexcept;
  // pool_collect.cpp
  void run_collector();
  Status need_collector_locked(Job& job);

  node::Node& node_;
  const EngineOptions options_;
  const WorkerFactory factory_;
  channel::ChannelPtr tasks_;
  channel::ChannelPtr answers_;
  WorkerTable table_;

  std::mutex mutex_;  // guards what follows; taken before a channel's own locks
  std::vector<Task> entries_;
  std::uint32_t free_ = 0;  // entry + 1
  std::uint64_t outstanding_ = 0;
  std::uint64_t urgent_ = 0;                     // of these, not bulk
  std::uint64_t eager_ = 0;                      // jobs with an on_end that has not come
  std::map<std::int64_t, std::uint64_t> times_;  // deadlines of outstanding tasks
  std::int64_t check_ns_;                        // when deadlines are looked at next
  channel::Incoming incoming_;
  std::unique_ptr<channel::Incoming> last_words_;
  Status broken_;
  unsigned failures_ = 0;
  bool closing_ = false;
  Mode mode_ = Mode::kRunning;
  bool supervisor_ended_ = false;
  bool collector_ends_ = false;
  std::deque<std::function<void()>> calls_;  // each `on_end` that is to be called, as the jobs ended
  std::condition_variable collector_bell_;
  std::vector<pid_t> pids_;
  sigset_t signals_;  // the mask with which workers start

  // Held while `on_end`s are called, so that they come in order whoever took in the answers. Taken before
  // mutex_; an on_end may come back here.
  std::recursive_mutex calling_;

  std::atomic<std::uint32_t> news_{0};   // changed when waiters should look again
  std::atomic<std::uint32_t> quiet_{0};  // tasks that no worker was woken for

  std::vector<Place> places_;  // the supervisor's
  std::int64_t kill_ns_ = 0;
  std::int64_t retry_ns_ = 0;
  Status start_failure_;
  os::Fd supervisor_bell_;
  std::thread supervisor_;
  std::thread collector_;
};

}  // namespace forklift::workers
