// A thread that gives old memory back while the program goes on: the kernel takes 0.3 us for each page. It
// does that some milliseconds later, since most tensors that are sent die soon, and then there is nothing left
// to do.
//
//   OldMemoryWorker::get().add([=] { return more_after_one_step(); });
//
// It starts with the first job, and ends when there was none for a moment. A fork waits until all jobs are done
// and the thread has ended: Python warns of forks beside threads, and the child would have the memory twice.
// Jobs are short steps, need no interpreter lock, and take locks only whose fork handlers were registered
// before the first job: the fork takes those afterwards.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace forklift::py::torch {

class OldMemoryWorker {
 public:
  // One step; true: there is more to do.
  using Job = std::function<bool()>;

  static OldMemoryWorker& get();
  OldMemoryWorker(const OldMemoryWorker&) = delete;
  OldMemoryWorker& operator=(const OldMemoryWorker&) = delete;

  // Where no thread can be started, the job is done here.
  void add(Job job);
  // Waits until all jobs are done, and has them done at once.
  void finish();

 private:
  OldMemoryWorker();
  struct Entry {
    std::chrono::steady_clock::time_point due;
    Job job;
  };
  void start(std::unique_lock<std::mutex>& lock);
  void run();
  // False: the thread shall end. True: there is a job, and it is due.
  bool wait_for_job(std::unique_lock<std::mutex>& lock);
  // The lock is free meanwhile.
  void work_on_one(std::unique_lock<std::mutex>& lock);
  void before_fork();
  void after_fork(bool child);

  std::mutex forking_;  // held across a fork, taken before mutex_
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> jobs_;
  std::thread thread_;
  bool running_ = false;
  bool working_ = false;
  int hurries_ = 0;         // who waits for all jobs
  bool shall_end_ = false;  // when all jobs are done
};

}  // namespace forklift::py::torch
