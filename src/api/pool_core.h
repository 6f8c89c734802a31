// What Pool, Future and Batch are made of: the engine with the C++ face's own words around it.
//
// Thread safety: as the engine's. Fork: a child drops it without touching it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/pool_callbacks.h"
#include "api/pool_engine.h"
#include "forklift/pool.h"
#include "message/transport.h"
#include "os/fd.h"

namespace forklift::inline abi_0_1::detail {

// A task's message begins with this, then come the arguments' bytes or the list.
struct TaskHeader {
  std::uint64_t key;
  std::uint64_t signature;
};

// How a task ended, and whose it is.
class Outcome {
 public:
  Outcome(PoolCore& pool, const TaskFunction& function, workers::Answer& answer) noexcept
      : pool_(pool), function_(function), answer_(answer) {}
  // The payload of a result; throws what the task ended with otherwise.
  channel::Incoming& result();

 private:
  [[noreturn]] void fail();

  PoolCore& pool_;
  const TaskFunction& function_;
  workers::Answer& answer_;
};

class PoolCore {
 public:
  PoolCore(const PoolOptions& options, PrepareCall initializer);
  ~PoolCore();
  PoolCore(const PoolCore&) = delete;
  PoolCore& operator=(const PoolCore&) = delete;

  // Throws in a process that is not the pool's.
  PoolEngine& engine() const;
  bool is_mine() const noexcept;
  void start();
  // The same with an engine that runs the tasks elsewhere.
  void start(std::unique_ptr<PoolEngine> engine);
  void submit(const workers::JobPtr& job, std::uint64_t index, const CallOptions& options,
              const TaskFunction& function, const TaskInput& input, bool more);
  // `wait(deadline, hooks)`. False: the wait is over.
  template <class Call>
  bool wait(Limit limit, Call&& wait);
  // Why its workers cannot work; ok: they can.
  Status trouble();
  Callbacks& callbacks() const noexcept { return *callbacks_; }
  std::size_t workers() const noexcept { return options_.workers; }

 private:
  Result<std::unique_ptr<workers::WorkerHandle>> start_worker(const workers::WorkerSlot& worker_slot) const;

  const PoolOptions options_;
  const PrepareCall initializer_;
  const pid_t owner_;
  // a child has another one, or none; asking the kernel for our pid is a call each
  domain::SlotRef owner_slot_;
  std::unique_ptr<Callbacks> callbacks_ = std::make_unique<Callbacks>();
  std::unique_ptr<PoolEngine> engine_;
  std::mutex mutex_;
  std::string last_words_;  // of a worker that could not be made ready
};

// The descriptor of a Future: readable from the end of its task on.
class TaskBell {
 public:
  static Result<std::shared_ptr<TaskBell>> make();
  int fd() const noexcept { return fd_.get(); }
  void ring() const noexcept;

 private:
  os::Fd fd_;
};

class TaskState {
 public:
  std::shared_ptr<PoolCore> pool;
  workers::JobPtr job;
  TaskFunction function{};
  std::shared_ptr<TaskBell> bell;  // null until the descriptor is asked for
};

// What a worker's process runs.
struct WorkerSetup {
  std::uint32_t index;
  std::uint32_t unused;
  std::uint64_t most_tasks;
  std::uint64_t most_memory;
};
int run_pool_worker(const Queue<Value>& tasks, const Queue<Value>& answers, const Tensor& table,
                    const WorkerSetup& setup, const std::string& initializer,
                    const Queue<Value>& initializer_arguments);

}  // namespace forklift::inline abi_0_1::detail
