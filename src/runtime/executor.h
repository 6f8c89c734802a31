// The executor: threads that compute what operations on tensors queue.
//
//   auto job = std::make_shared<MyJob>(pieces);
//   Executor::instance().submit(job);                       // returns at once; the job's tensors know it
//   ...
//   if (Status status = job->wait(); !status) ...           // the caller computes, too, while it waits
//
// Jobs run in the order in which they were submitted, each by all threads at once: its pieces are independent of each
// other. So whoever waits for a job knows that those before it are done, and operations on the same memory need no
// other order.
//
// There are as many computing threads as processors that this process may use (its affinity and its control group's
// quota), the waiting thread included. They start with the first job, and jobs never need Python's interpreter lock.
//
// Fork: prepare waits until the queue is empty, at most guard::fork_timeout(), while other threads' submissions wait; then it
// ends the threads, so that a process that forks has none of ours. They start again with the next job, in the parent
// and in the child. Jobs that were not done in time never will be in the child: waiting for one is kBrokenByFork.
//
// Thread safety: yes.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "forklift/runtime.h"
#include "forklift/status.h"
#include "tensor/pending.h"

namespace forklift::inline abi_0_1::runtime {

class Executor;

// One operation's work. The object must be owned by a shared_ptr.
class Job : public detail::Work, public std::enable_shared_from_this<Job> {
 public:
  // `pieces`: how many independent parts it has, at least one. `bytes`: of memory that it keeps from being freed.
  Job(std::int64_t pieces, std::size_t bytes) noexcept : pieces_(pieces), bytes_(bytes) {}

  bool done() const noexcept final { return done_.load(std::memory_order_acquire); }
  Status wait() noexcept final;

 protected:
  // Computes one piece. Any thread, several pieces at once.
  virtual void run(std::int64_t piece) noexcept = 0;
  // After the last piece, by one thread, before anybody sees the job done: what must come after all of them.
  virtual void finish() noexcept {}
  // After that, no lock being held: drops the tensors.
  virtual void release() noexcept {}
  // When it has its place in the queue, under the queue's lock: where it is noted must show the same order.
  virtual void enter() {}
  // For messages: "log(float32(3, 4))". Any thread at any time, also after release().
  virtual std::string describe() const = 0;

 private:
  friend class Executor;

  const std::int64_t pieces_;
  const std::size_t bytes_;
  std::uint64_t generation_ = 0;
  std::uint64_t number_ = 0;  // in the order of submission, from 1
  std::atomic<std::int64_t> next_{0};
  std::atomic<std::int64_t> finished_{0};
  std::atomic<bool> done_{false};
};

class Executor {
 public:
  // This process's, made by the first call and never destroyed.
  static Executor& instance();
  // The same if it was made; else null.
  static Executor* existing() noexcept;

  // How many threads compute, the waiting one included; 1: jobs run in the thread that submits them.
  std::size_t threads() const noexcept { return threads_.load(std::memory_order_relaxed); }
  // From the next job on. 0: as many as there are processors. FORKLIFT_NUM_THREADS sets the number at the start.
  void set_threads(std::size_t count);

  // Drains for a fork that can still be refused. kTimeout: as drain().
  static Status prepare_fork();

  // Queues a job. Waits only while there is too much in flight (kMostBytes, kMostJobs).
  void submit(const std::shared_ptr<Job>& job);

  // Waits until all jobs that were submitted before are done. kTimeout, naming the first of those that are not.
  Status drain(std::chrono::nanoseconds timeout);
  // Jobs that are not done.
  std::size_t in_flight() const;

  static ForkCounts fork_counts() noexcept;

  static constexpr std::size_t kMostBytes = std::size_t{256} << 20;
  static constexpr std::size_t kMostJobs = 4096;

 private:
  friend class Job;

  Executor();
  void work();
  // Computes pieces of `job` until there are none left to begin.
  void help(const std::shared_ptr<Job>& job) noexcept;
  Status wait_for(Job& job) noexcept;
  void start_threads();  // with the lock
  void stop_threads(std::unique_lock<std::mutex>& held);
  bool drained(std::unique_lock<std::mutex>& held, std::uint64_t until, std::chrono::nanoseconds timeout);

  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();

  // Replaced in a forked child, where nobody can say what state they are in.
  struct Queue {
    std::mutex mutex;
    std::condition_variable work;  // a job came, or the threads must end
    std::condition_variable done;  // a job is done, or a fork is over
    std::deque<std::shared_ptr<Job>> jobs;
    std::size_t bytes = 0;
    std::uint64_t submitted = 0;
    std::uint64_t completed = 0;
    std::vector<std::thread> workers;
    int submitter_cpu = -1;  // where the last job was submitted
    bool stopping = false;
    bool forking = false;  // a fork is under way, or a new number of threads: submissions wait
  };

  Queue* queue_;
  std::atomic<std::size_t> threads_{1};
  std::atomic<std::uint64_t> generation_{1};
  // Of the job at the front, for workers that look before they sleep.
  std::atomic<std::uint64_t> news_{0};
};

}  // namespace forklift::inline abi_0_1::runtime
