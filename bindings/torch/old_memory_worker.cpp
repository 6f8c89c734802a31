#include "bindings/torch/old_memory_worker.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <system_error>
#include <utility>

namespace forklift::py::torch {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kDelay{5};
// How long the thread waits for another job: starting one costs 30 us, and tensors are sent in a row.
constexpr std::chrono::milliseconds kMoment{50};

// Threads of a library take none of the program's signals.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

OldMemoryWorker& OldMemoryWorker::get() {
  static auto* const worker = new OldMemoryWorker;
  return *worker;
}

OldMemoryWorker::OldMemoryWorker() {
  ::pthread_atfork([] { get().before_fork(); }, [] { get().after_fork(false); },
                   [] { get().after_fork(true); });
}

void OldMemoryWorker::add(Job job) {
  std::unique_lock<std::mutex> lock(mutex_);
  jobs_.push_back({Clock::now() + kDelay, std::move(job)});
  if (shall_end_) return;  // before_fork() waits for the thread
  if (!running_) {
    start(lock);
  } else if (jobs_.size() == 1) {
    changed_.notify_all();
  }
}

void OldMemoryWorker::finish() {
  std::unique_lock<std::mutex> lock(mutex_);
  ++hurries_;
  changed_.notify_all();
  changed_.wait(lock, [this] { return jobs_.empty() && !working_; });
  --hurries_;
}

void OldMemoryWorker::start(std::unique_lock<std::mutex>& lock) {
  if (thread_.joinable()) thread_.join();  // it has let go of the lock for the last time
  running_ = true;
  try {
    const SignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    running_ = false;
    while (!jobs_.empty()) work_on_one(lock);
  }
}

void OldMemoryWorker::run() {
  ::pthread_setname_np(::pthread_self(), "forklift-memory");
  std::unique_lock<std::mutex> lock(mutex_);
  while (wait_for_job(lock)) work_on_one(lock);
  running_ = false;
}

bool OldMemoryWorker::wait_for_job(std::unique_lock<std::mutex>& lock) {
  changed_.wait_for(lock, kMoment, [this] { return shall_end_ || !jobs_.empty(); });
  if (jobs_.empty()) return false;
  while (hurries_ == 0 && Clock::now() < jobs_.front().due) changed_.wait_until(lock, jobs_.front().due);
  return true;
}

void OldMemoryWorker::work_on_one(std::unique_lock<std::mutex>& lock) {
  Entry entry = std::move(jobs_.front());
  jobs_.pop_front();
  working_ = true;
  lock.unlock();
  while (entry.job()) continue;
  lock.lock();
  working_ = false;
  changed_.notify_all();
}

void OldMemoryWorker::before_fork() {
  forking_.lock();
  std::unique_lock<std::mutex> lock(mutex_);
  if (thread_.joinable()) {
    shall_end_ = true;
    ++hurries_;
    changed_.notify_all();
    std::thread ending = std::move(thread_);
    lock.unlock();
    ending.join();
    lock.lock();
    shall_end_ = false;
    --hurries_;
  }
  lock.release();
}

void OldMemoryWorker::after_fork(bool child) {
  std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
  // Of threads that sent while this one waited.
  if (child) jobs_.clear();
  if (!jobs_.empty()) start(lock);
  lock.unlock();
  forking_.unlock();
}

}  // namespace forklift::py::torch
