// Workers for tests of the pool engine: forked children that do what a task's text says.
//
//   PoolWorkers factory;
//   auto engine = must(workers::Engine::create(node, {.workers = 2}, factory.factory()));
//   const std::vector<Ended> ended = run(*engine, {"echo a", "kill", "echo b"});
//
// The tasks, by their text:
//
//   echo TEXT   answers TEXT
//   fail TEXT   answers TEXT as an error
//   pid         answers its pid
//   tell        counts itself in factory.told() and answers nothing
//   sleep MS    sleeps, then answers "slept"
//   grow MB     keeps so much more memory, then answers "grown"
//   exit N      _exit(N)
//   stop        SIGSTOP to itself, then answers "again"
//   kill        SIGKILL to itself
//   once        as kill at the first time, then answers "again"
//   lease       answers the sum of its lease's bytes and overwrites them; at the first time, as kill after it
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "process/child.h"
#include "workers/engine.h"

namespace forklift::test {

using workers::Ending;
using workers::Engine;

// What a worker does before it takes tasks; it may end the process, or call Worker::fail and return false.
using MakeReady = std::function<bool(workers::Worker&)>;

class WorkerFactory {
 public:
  explicit WorkerFactory(MakeReady make_ready = {});
  WorkerFactory(const WorkerFactory&) = delete;
  WorkerFactory& operator=(const WorkerFactory&) = delete;
  ~WorkerFactory();

  workers::WorkerFactory factory();
  // Of all workers together, in memory of its own.
  unsigned told() const { return counters_->told; }
  unsigned started() const { return counters_->started; }
  void fail_to_start(bool fail) { fail_ = fail; }

 private:
  struct Counters {
    std::atomic<unsigned> told, once, started;
  };
  [[noreturn]] void work(const workers::WorkerSlot& worker_slot);
  void obey(workers::Worker& worker, channel::Incoming& task);
  void use_lease(workers::Worker& worker, channel::Incoming& task);

  MakeReady make_ready_;
  Counters* counters_;
  std::atomic<bool> fail_{false};
};

// A child of this process as a worker.
class ForkedWorker : public workers::WorkerHandle {
 public:
  explicit ForkedWorker(process::Child child) : child_(std::move(child)) {}
  pid_t pid() const override { return child_.pid(); }
  int sentinel() const override { return child_.sentinel(); }
  int wait() override;
  void signal(int number) override { (void)child_.signal(number); }

 private:
  process::Child child_;
};

// How a task ended: "a" for a value, otherwise "error: a", "died: -9", "timed out", "cancelled", "stopped".
std::string text_of(const workers::Answer& answer);
// Submits the texts and waits for all; in the order in which they were given.
std::vector<std::string> run(Engine& engine, const std::vector<std::string>& tasks,
                             const workers::TaskOptions& options = {});
// What is left to be collected of a job, by index; at most 20 s.
std::vector<std::string> rest_of(Engine& engine, workers::Job& job, std::size_t tasks);
Status submit(Engine& engine, const workers::JobPtr& job, std::uint64_t index, const std::string& text,
              const workers::TaskOptions& options = {});

}  // namespace forklift::test
