#include "runtime/executor.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "guard/rest.h"
#include "node/node.h"
#include "os/limits.h"
#include "os/proc.h"
#include "os/thread.h"

namespace forklift::inline abi_0_1::runtime {
namespace {

std::atomic<Executor*> made{nullptr};
std::atomic<std::uint64_t> forks_prepared{0};
std::atomic<std::uint64_t> forks_in_parent{0};
std::atomic<std::uint64_t> forks_in_child{0};

// How long a worker looks for the next job before it sleeps: a chain of operations comes as fast as it is computed,
// and being woken takes longer than most operations.
constexpr int kLooks = 2000;

std::size_t threads_wanted(std::size_t count) {
  if (count != 0) return count;
  if (const char* text = std::getenv("FORKLIFT_NUM_THREADS"); text != nullptr) {
    const long number = std::strtol(text, nullptr, 10);
    if (number > 0) return static_cast<std::size_t>(number);
  }
  return static_cast<std::size_t>(os::usable_cpus());
}

// Keeps a worker off the processor of the thread that submits and computes, too. The kernel wakes a thread where it ran
// last, or where the waker runs if no processor seems idle, and takes milliseconds to part two threads that share one:
// longer than most operations.
class Distance {
 public:
  void keep_from(int cpu) noexcept {
    if (cpu < 0 || os::current_cpu() != cpu) return;
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return;
    next_ = now + kPause;
    os::leave_cpu(cpu);
  }

 private:
  static constexpr std::chrono::milliseconds kPause{10};  // it costs two system calls and a migration
  std::chrono::steady_clock::time_point next_;
};

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Status Job::wait() noexcept { return done() ? Status() : Executor::instance().wait_for(*this); }

Executor::Executor() : queue_(new Queue) { threads_.store(threads_wanted(0), std::memory_order_relaxed); }

Executor& Executor::instance() {
  static Executor* const executor = [] {
    // Handlers that run before a fork do so in the reverse order of their registration. While ours waits for the
    // jobs, these must be able to give memory back: no lock of the arena or of tensors may be held yet.
    static_cast<void>(node::Node::home());
    detail::StorageAccess::prepare_for_forks();
    made.store(new Executor, std::memory_order_release);
    ::pthread_atfork([] { made.load()->before_fork(); }, [] { made.load()->after_fork_in_parent(); },
                     [] { made.load()->after_fork_in_child(); });
    return made.load();
  }();
  return *executor;
}

Executor* Executor::existing() noexcept { return made.load(std::memory_order_acquire); }

void Executor::set_threads(std::size_t count) {
  Queue& queue = *queue_;
  std::unique_lock held(queue.mutex);
  queue.done.wait(held, [&] { return !queue.forking; });
  queue.forking = true;  // as for a fork: nothing is submitted while the threads end
  stop_threads(held);
  threads_.store(threads_wanted(count), std::memory_order_relaxed);
  queue.forking = false;
  held.unlock();
  queue.done.notify_all();
}

ForkCounts Executor::fork_counts() noexcept { return {forks_prepared, forks_in_parent, forks_in_child}; }

std::size_t Executor::in_flight() const {
  const std::lock_guard held(queue_->mutex);
  return queue_->jobs.size();
}

void Executor::submit(const std::shared_ptr<Job>& job) {
  Queue& queue = *queue_;
  std::shared_ptr<Job> first;
  std::unique_lock held(queue.mutex);
  for (;;) {
    queue.done.wait(held, [&] { return !queue.forking; });
    if (queue.jobs.empty() || (queue.bytes < kMostBytes && queue.jobs.size() < kMostJobs)) break;
    first = queue.jobs.front();
    held.unlock();
    static_cast<void>(wait_for(*first));
    first.reset();
    held.lock();
  }
  job->generation_ = generation_.load(std::memory_order_relaxed);
  job->number_ = ++queue.submitted;
  job->enter();
  queue.jobs.push_back(job);
  queue.bytes += job->bytes_;
  queue.submitter_cpu = os::current_cpu();
  news_.fetch_add(1, std::memory_order_release);
  if (threads() > 1) {
    start_threads();
    if (queue.workers.empty()) {  // no thread can be had: the caller is the only one
      held.unlock();
      static_cast<void>(wait_for(*job));
      return;
    }
    held.unlock();
    queue.work.notify_all();
    return;
  }
  held.unlock();
  static_cast<void>(wait_for(*job));
}

void Executor::start_threads() {
  Queue& queue = *queue_;
  while (queue.workers.size() + 1 < threads()) {
    std::thread thread;
    const std::string name = "fl-compute-" + std::to_string(queue.workers.size());
    const auto body = [this, name] {
      static_cast<void>(os::set_thread_name(name));
      work();
    };
    if (!os::start_thread(thread, body, "a thread of the executor")) return;  // fewer will do
    queue.workers.push_back(std::move(thread));
  }
}

void Executor::stop_threads(std::unique_lock<std::mutex>& held) {
  Queue& queue = *queue_;
  if (queue.workers.empty()) return;
  std::vector<std::thread> ending;
  ending.swap(queue.workers);
  queue.stopping = true;
  news_.fetch_add(1, std::memory_order_release);
  held.unlock();
  queue.work.notify_all();
  for (std::thread& thread : ending) thread.join();
  held.lock();
  queue.stopping = false;
}

void Executor::work() {
  Queue& queue = *queue_;
  Distance distance;
  std::uint64_t served = 0;  // the number of the job that this thread has helped with last
  const auto has_work = [&] { return !queue.jobs.empty() && queue.jobs.front()->number_ != served; };
  // Jobs behind one that others complete are still to be done: nobody else may ever wait for them.
  const auto must_end = [&] { return queue.stopping && queue.jobs.empty(); };
  std::unique_lock held(queue.mutex);
  for (;;) {
    if (has_work()) {
      std::shared_ptr<Job> job = queue.jobs.front();
      served = job->number_;
      const int submitter_cpu = queue.submitter_cpu;
      held.unlock();
      distance.keep_from(submitter_cpu);
      help(job);
      held.lock();
      continue;
    }
    // The end of a job is news, too, and the next job often comes soon after it.
    for (int looks = 0; looks < kLooks && !must_end() && !has_work();) {
      const std::uint64_t seen = news_.load(std::memory_order_acquire);
      held.unlock();
      for (; looks < kLooks && news_.load(std::memory_order_acquire) == seen; ++looks) pause();
      held.lock();
    }
    if (must_end()) return;
    queue.work.wait(held, [&] { return must_end() || has_work(); });
  }
}

void Executor::help(const std::shared_ptr<Job>& job) noexcept {
  std::int64_t mine = 0;
  while (job->next_.load(std::memory_order_relaxed) < job->pieces_) {
    const std::int64_t piece = job->next_.fetch_add(1, std::memory_order_relaxed);
    if (piece >= job->pieces_) break;
    job->run(piece);
    ++mine;
  }
  if (mine == 0 || job->finished_.fetch_add(mine, std::memory_order_acq_rel) + mine != job->pieces_) return;
  job->finish();
  Queue& queue = *queue_;
  std::shared_ptr<Job> keep;
  {
    const std::lock_guard held(queue.mutex);
    keep = std::move(queue.jobs.front());
    queue.jobs.pop_front();
    queue.bytes -= keep->bytes_;
    ++queue.completed;
    keep->done_.store(true, std::memory_order_release);
    news_.fetch_add(1, std::memory_order_release);
  }
  queue.done.notify_all();
  queue.work.notify_all();
  keep->release();
}

Status Executor::wait_for(Job& job) noexcept {
  Queue& queue = *queue_;
  const std::uint64_t generation = generation_.load(std::memory_order_acquire);
  if (job.generation_ != generation) {
    if (job.done()) return {};
    return {Code::kBrokenByFork,
            job.describe() + " was being computed in the parent when this process was forked"};
  }
  while (!job.done()) {
    std::shared_ptr<Job> front;
    {
      const std::lock_guard held(queue.mutex);
      if (!queue.jobs.empty()) front = queue.jobs.front();
    }
    if (!front) continue;  // done meanwhile
    help(front);
    if (job.done()) break;
    // Others compute the last pieces of the front job.
    for (int i = 0; i < kLooks && !front->done(); ++i) pause();
    if (front->done()) continue;
    std::unique_lock held(queue.mutex);
    queue.done.wait(held, [&] { return front->done(); });
  }
  return {};
}

bool Executor::drained(std::unique_lock<std::mutex>& held, std::uint64_t until,
                       std::chrono::nanoseconds timeout) {
  Queue& queue = *queue_;
  return queue.done.wait_for(held, timeout, [&] { return queue.completed >= until; });
}

Status Executor::drain(std::chrono::nanoseconds timeout) {
  std::unique_lock held(queue_->mutex);
  if (drained(held, queue_->submitted, timeout)) return {};
  const std::shared_ptr<Job> first = queue_->jobs.front();
  const std::size_t left = queue_->jobs.size();
  held.unlock();
  return {Code::kTimeout, std::to_string(left) + " operations are still being computed, the first of them " +
                              first->describe()};
}

Status Executor::prepare_fork() {
  Executor* const executor = existing();
  if (executor == nullptr || executor->in_flight() == 0) return {};
  Status status = executor->drain(guard::fork_timeout());
  return status ? status : guard::refuse_fork(std::string(status.what()));
}

void Executor::before_fork() {
  forks_prepared.fetch_add(1, std::memory_order_relaxed);
  Queue& queue = *queue_;
  std::unique_lock held(queue.mutex);
  queue.done.wait(held, [&] { return !queue.forking; });  // forks of one process come one after the other
  queue.forking = true;
  if (drained(held, queue.submitted, guard::fork_timeout())) {
    stop_threads(held);
  }
  held.release();  // held across the fork
}

void Executor::after_fork_in_parent() {
  forks_in_parent.fetch_add(1, std::memory_order_relaxed);
  Queue& queue = *queue_;
  queue.forking = false;
  queue.mutex.unlock();
  queue.done.notify_all();
}

// The parent's queue, its threads and its jobs are left alone: a thread that is not here may have been about to change
// them, and nothing that belongs to it can be joined or destroyed.
void Executor::after_fork_in_child() {
  forks_in_child.fetch_add(1, std::memory_order_relaxed);
  queue_ = new Queue;
  generation_.fetch_add(1, std::memory_order_release);
}

}  // namespace forklift::inline abi_0_1::runtime
