// The engine under every pool: tasks go to the workers through one channel and their answers come back
// through another. Each task ends in exactly one answer, whichever worker is killed at whatever time.
//
//   Result<std::unique_ptr<Engine>> engine = Engine::create(node, {.workers = 4}, start_worker);
//   JobPtr job = (*engine)->make_job();
//   for (...) (*engine)->submit(job, index, {.bytes = task, .codec = codec}, {}, more);
//   std::vector<Answer> answers;
//   while ((*engine)->collect(*job, answers, 64, Deadline::never())) { if (answers.empty()) break; ... }
//
// The engine knows no programming language: payloads are bytes and leases, and a factory makes the workers. A
// *job* is what a caller waits for: one task or a million. The answers of a job come in the order in which
// its tasks ended, and each says which task it belongs to. Putting them in order, and bounding how far a
// producer may be ahead, is up to the caller (forklift/pool.h does both).
//
// A thread that waits in collect() takes in the answers of all jobs itself; there is no hop through another
// thread. Only once a job has an `on_end` there is a collector thread, which waits when no other thread does.
// One more thread per pool, the supervisor, sleeps until a worker dies, a deadline comes or the pool is told
// to stop. It starts workers, so the factory is called in it (and in create()), one call at a time.
//
// When a worker dies, the claim of its worker slot (worker_table.h, P1) decides which task it had, after all
// answers that were committed before its death have been taken in. The message of a task that may be retried
// is retained here, and the worker that receives it copies the private blocks in it; so a retry sees what was
// submitted.
//
// Thread safety: all members may be called from any thread, except the destructor. No lock that guards the
// engine is held while `on_end` or the factory runs, or while a job is destroyed. Process safety: an Engine
// belongs to the process that made it; in a forked child only abandon() may be called.
//
// Errors: kClosed (closed, terminated), kPeerDied (workers cannot be started: health()), and those of
// Channel::put.
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

namespace forklift::inline abi_0_1::workers {

// The parent's handle on a worker process. Called by one thread at a time.
class WorkerHandle {
 public:
  virtual ~WorkerHandle() = default;
  virtual pid_t pid() const = 0;
  // Becomes readable when the process has ended.
  virtual int sentinel() const = 0;
  // Called after that: waits for the process. Returns the exit code, or minus the signal's number.
  virtual int wait() = 0;
  virtual void signal(int number) = 0;
};
using WorkerFactory = std::function<Result<std::unique_ptr<WorkerHandle>>(const WorkerSlot& worker_slot)>;

// Which workers are replaced when they die. Any other death breaks the pool: every task ends as kStopped, the
// other workers are terminated, and health() says which worker it was. A worker that leaves in good order is
// always replaced.
enum class Replace : std::uint8_t {
  kAll,        // all of them, unless too many die before they are ready
  kUnlessBad,  // those that have not reported by Worker::fail() that they cannot be made ready
  kNone
};

struct EngineOptions {
  std::uint32_t workers = 1;
  std::uint32_t spares = 0;       // more workers, started and ready, each to replace one that is gone
  std::uint64_t most_tasks = 0;   // a worker is replaced after this many tasks; 0: never
  std::uint64_t most_memory = 0;  // a worker is replaced when it has grown by more bytes; 0: never
  // How many workers create() starts; each other one starts when a task finds all started ones busy. 0: all.
  std::uint32_t first = 0;
  Replace replace = Replace::kAll;
  bool insights = false;  // workers record where their time goes: Engine::insights()
};

// What the workers have done since the pool was made, those that are gone included.
struct PoolInsights {
  std::uint64_t elapsed_ns = 0;
  std::vector<Figures> workers;   // by worker slot
  std::vector<SlowTask> slowest;  // kSlowTasks at most, the longest one first
};

struct TaskOptions {
  std::int64_t time_ns = 0;   // the longest run; then the worker is killed; 0: no limit
  std::uint32_t retries = 0;  // how often it runs again after its worker died
};

struct Answer {
  // The memory that the payload keeps.
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

// What a caller waits for. Its content belongs to the engine.
class Job {
 public:
  Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

 private:
  friend class Engine;
  std::vector<Answer> answers;
  std::size_t collected = 0;         // how many of them collect() has moved out
  std::uint64_t running = 0;         // tasks submitted and not ended
  std::uint64_t ended = 0;           // tasks ended
  std::uint64_t answer_bytes = 0;    // of the answers that are not collected yet
  std::uint64_t all_bytes = 0;       // of all answers
  std::uint32_t waiters = 0;         // threads in a waiting call for this job
  std::vector<std::uint64_t> tasks;  // by index, while cancelling is possible (JobOptions::cancellable)
  std::function<void()> on_end;
  bool bulk = false;
  bool cancellable = false;
  bool sealed = false;
  bool eager = false;        // the collector thread waits for it
  std::uint32_t wanted = 1;  // how many answers are worth a wake-up of the waiting thread, as learnt
};
using JobPtr = std::shared_ptr<Job>;

struct JobOptions {
  bool bulk = false;         // the caller wants all answers and need not get each at once (a map)
  bool cancellable = false;  // Engine::cancel() may be called
  // Called once, when the job is sealed and every task has ended; one call at a time, in the order in which
  // the jobs ended. The thread that took in the last answer makes the call: a thread that waits for something
  // else of this pool, the collector, or the supervisor. So the call has to be short and wait for nothing;
  // user code goes to a thread of its own. Must not throw.
  std::function<void()> on_end = nullptr;
};

class Engine {
 public:
  // Starts the workers. kInvalid: `workers` is 0, or there are too many.
  static Result<std::unique_ptr<Engine>> create(node::Node& node, const EngineOptions& options,
                                                WorkerFactory factory);
  ~Engine();
  // terminate() and join(), then ends the engine's threads: within some two seconds. Answers that were taken
  // in can still be collected. Must not be called in an `on_end`. The destructor does the same.
  void shut_down();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  // For a forked child, instead of the destructor: nothing of the engine belongs to the child.
  static void abandon(std::unique_ptr<Engine> engine) noexcept { (void)engine.release(); }

  static JobPtr make_job(JobOptions options = {});
  // `index` is what the answer will carry. `more`: another submit() follows at once, or flush(); the workers
  // are then woken for several tasks together. The tag of `message` is not used; its leases are taken on
  // success.
  Status submit(const JobPtr& job, std::uint64_t index, const channel::Outgoing& message,
                const TaskOptions& options = {}, bool more = false);
  void flush() noexcept;
  // Declares that the job gets no more tasks, so that its `on_end` may be called.
  void seal(const JobPtr& job);
  // Seals the job and sets its `on_end`, instead of JobOptions::on_end; it is called at once, in this thread,
  // if all tasks of the job have ended. On failure it is never called.
  Status after(const JobPtr& job, std::function<void()> on_end);

  // Moves up to `most` answers of the job into `into` (which is emptied first), waiting for the first one,
  // and stops after the answer that brings their sum to `most_bytes`. Ok without answers: no task of the job
  // is left. kTimeout, kInterrupted.
  Status collect(Job& job, std::vector<Answer>& into, std::size_t most, os::Deadline deadline,
                 channel::WaitHooks* hooks = nullptr, std::uint64_t most_bytes = UINT64_MAX);
  // How far a job has come, whether its answers were collected or not.
  struct Progress {
    std::uint64_t ended = 0;    // tasks that have ended
    std::uint64_t waiting = 0;  // bytes of answers that are not collected yet
    std::uint64_t bytes = 0;    // bytes of all answers
  };
  Progress progress(Job& job);
  // Waits until more than `seen` tasks of the job have ended, or none is left.
  Status wait_progress(Job& job, std::uint64_t seen, os::Deadline deadline,
                       channel::WaitHooks* hooks = nullptr);
  // Waits until no task of the job is left, and leaves the answers to collect().
  Status wait(Job& job, os::Deadline deadline, channel::WaitHooks* hooks = nullptr);
  // Waits until the job is sealed, no task of it is left, and its `on_end` has returned.
  Status wait_end(Job& job, os::Deadline deadline, channel::WaitHooks* hooks = nullptr);
  // Waits until at most `most` tasks are left that no worker has taken. kClosed, or the reason why the pool
  // cannot work.
  Status wait_for_room(std::uint32_t most, os::Deadline deadline, channel::WaitHooks* hooks = nullptr);
  // How many of the job's tasks have ended, whether their answers were collected or not. Always up to date
  // for a job with an `on_end`; for others it covers the answers that some thread has taken in.
  std::uint64_t ended(const Job& job);
  // Ends the task as cancelled if it has not begun. False: it has begun or ended, or there were more than
  // kCancelPlaces tasks when it was submitted.
  bool cancel(Job& job, std::uint64_t index);
  // Does so for all tasks of the job, beginning with the one that was submitted last, which workers reach
  // last.
  void cancel_all(Job& job);
  // Whether a worker has taken the task, which is of a cancellable job, and the task has not ended.
  bool has_begun(Job& job, std::uint64_t index);

  // Accepts no more tasks; the workers leave when all tasks have ended.
  void close();
  // Ends all tasks at once (kStopped) and terminates the workers: SIGTERM, and after one second SIGKILL.
  void terminate();
  // Call after close() or terminate(): waits until every worker is gone. Takes in answers meanwhile.
  Status join(os::Deadline deadline, channel::WaitHooks* hooks = nullptr);

  // kPeerDied when workers cannot be started or made ready; then every task ends as kStopped. `last_words`
  // gets what the last such worker sent by Worker::fail() (empty: nothing).
  Status health(channel::Incoming* last_words = nullptr);
  std::vector<pid_t> pids();
  // Starts one more worker, if not all have been started, as if a task had found the others busy.
  void want_worker();
  // Waits until all workers that the tasks so far need have been started, or cannot be.
  Status wait_started(os::Deadline deadline, channel::WaitHooks* hooks = nullptr);
  std::uint64_t outstanding();
  // kInvalid: EngineOptions::insights is off.
  Result<PoolInsights> insights() const;
  node::Node& node() const noexcept { return node_; }
  const channel::Channel& answers() const noexcept { return *answers_; }
  // For events that no waiter notices by itself: wakes the threads in the waiting calls, which then poll
  // their hooks.
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
    bool cancelled = false;  // has ended, but its message is still in the channel
    std::unique_ptr<Retained> retained;
    std::uint32_t next_free = 0;
  };
  // A worker slot as the supervisor sees it.
  struct Place {
    std::unique_ptr<WorkerHandle> worker;
    pid_t pid = 0;
    bool spare = false;
    bool told_to_leave = false;
    std::uint64_t condemned = 0;     // the task for whose deadline the worker was killed
    std::uint64_t watched = 0;       // a task with a deadline whose start the worker has not recorded,
    std::int64_t watched_since = 0;  // and since when
  };
  enum class Mode {
    kRunning,
    kLeaving,     // workers are told to leave: closed, and all tasks have ended
    kTerminating  // workers are being killed
  };
  // What finish() does once the lock is no longer held.
  struct After {
    std::vector<JobPtr> dropped;
    bool calls = false;   // `calls_` is not empty
    bool others = false;  // answers came that another thread waits for
    bool mind = false;    // the supervisor has work
  };

  Engine(node::Node& node, const EngineOptions& options, WorkerFactory factory);
  Status open();

  // engine.cpp; `_locked`: with mutex_ held
  Task* find_locked(std::uint64_t task) noexcept;
  Result<std::uint64_t> enter_locked(const JobPtr& job, std::uint64_t index, const TaskOptions& options);
  void end_locked(std::uint64_t task, Answer answer, After& after);
  void end_job_locked(Job& job, After& after);
  void free_locked(std::uint64_t task, After& after);
  void drain_locked(const Job* mine, After& after);
  void take_in_locked(const Job* mine, After& after);
  void end_all_locked(Ending ending, After& after);
  Status admit_locked() const;
  bool is_claimed(std::uint64_t task) const noexcept;
  void finish(After& after);
  void make_calls();
  class Waiting;
  template <class Done>
  Status await(Done&& done_locked, Job* job, os::Deadline deadline, channel::WaitHooks* hooks);

  // collect.cpp
  Status retain(const channel::Outgoing& message, std::unique_ptr<Retained>& into) const;
  bool send_again_locked(std::uint64_t task, Task& entry);
  std::uint32_t pace_locked(const Job* job) const noexcept;
  static void learn_pace(Job& job, std::uint32_t least, bool came, std::int64_t waited_ns) noexcept;
  // engine_insights.cpp
  void note_start(std::size_t worker_slot) const noexcept;
  void note_end(std::size_t worker_slot, bool with_task) const;
  // supervisor.cpp: all in the supervisor's thread, except mind() and the first fill_slots()
  void mind() noexcept;
  void run_supervisor();
  void fill_slots();
  bool start(std::size_t worker_slot, bool spare);
  bool promote_spare();
  void collect_dead();
  void settle_death_locked(std::size_t worker_slot, int exitcode, After& after);
  void note_failure_locked(unsigned weight, const std::string& why, After& after);
  bool breaks_locked(WorkerState state) const noexcept;
  void break_locked(const std::string& why, After& after);
  std::int64_t enforce_deadlines();
  std::int64_t check_deadline_locked(std::size_t worker_slot, std::int64_t now);
  void tell_to_leave();
  void put_down();
  bool anybody_left() const noexcept;
  // collect.cpp
  void run_collector();
  Status need_collector_locked(Job& job);

  node::Node& node_;
  const EngineOptions options_;
  const std::int64_t made_ns_;
  const WorkerFactory factory_;
  channel::ChannelPtr tasks_;
  channel::ChannelPtr answers_;
  WorkerTable table_;

  std::mutex mutex_;  // guards the members below; locked before a channel's own locks
  std::vector<Task> entries_;
  std::uint32_t free_ = 0;  // entry + 1
  std::uint64_t outstanding_ = 0;
  std::uint64_t urgent_ = 0;                     // of these, the ones of jobs that are not bulk
  std::uint64_t eager_ = 0;                      // jobs whose on_end has not been called yet
  std::map<std::int64_t, std::uint64_t> times_;  // time limits of outstanding tasks, with how many have each
  std::int64_t check_ns_;                        // when deadlines are checked next
  channel::Incoming incoming_;
  std::unique_ptr<channel::Incoming> last_words_;
  Status broken_;
  unsigned failures_ = 0;
  std::uint32_t wanted_;  // how many workers are to be there, without spares
  bool closing_ = false;
  Mode mode_ = Mode::kRunning;
  bool supervisor_ended_ = false;
  bool collector_ends_ = false;
  std::deque<std::function<void()>> calls_;  // `on_end`s to be called, in the order in which the jobs ended
  std::condition_variable collector_bell_;
  std::vector<pid_t> pids_;
  sigset_t signals_;  // the mask with which workers start

  // Held while `on_end`s are called, so that they come in order whichever thread took in the answers. Locked
  // before mutex_. Recursive, since an on_end may call the engine.
  std::recursive_mutex calling_;

  std::atomic<std::uint32_t> news_{0};   // changed when waiters should check again
  std::atomic<std::uint32_t> quiet_{0};  // tasks for which no worker was woken yet

  std::vector<Place> places_;  // used by the supervisor only
  std::int64_t kill_ns_ = 0;
  std::int64_t retry_ns_ = 0;
  Status start_failure_;
  os::Fd supervisor_bell_;
  std::thread supervisor_;
  std::thread collector_;
};

}  // namespace forklift::inline abi_0_1::workers
