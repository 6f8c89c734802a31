// A pool's worker, as seen by the child process that runs it.
//
//   Result<Worker> worker = Worker::open(worker_slot);
//   ... make the process ready; if that fails: worker->fail(bytes, codec), and end it
//   worker->ready();
//   channel::Incoming task;
//   while (worker->next(task)) {                            // kClosed: end the process in good order
//     ... run task.bytes(), task.leases()
//     if (worker->worked()) worker->describe("render(5)");    // only a pool with insights asks for it
//     worker->answer(Ending::kValue, {.bytes = result, .codec = codec});
//   }
//
// A Worker knows no programming language: payloads are in the format of the language's layer. Nothing here
// starts a thread, and next() and answer() do only what a message needs, so that a loop over them runs at the
// channels' speed.
//
// Thread safety: none; use it from one thread. Process safety: a Worker is the only one for its worker slot;
// it may be killed at any instruction. Invariant: between next() and answer() the worker slot's claim names
// the task (worker_table.h, P1).
#pragma once

#include <span>
#include <string_view>

#include "workers/worker_table.h"

namespace forklift::inline abi_0_1::workers {

// What a worker gets from its pool. A forked child inherits it; any other child opens the channels and the
// block.
struct WorkerSlot {
  channel::ChannelPtr tasks;
  channel::ChannelPtr answers;
  arena::LeasePtr table;
  std::uint32_t index = 0;
  std::uint64_t most_tasks = 0;   // the worker leaves after this many tasks; 0: never
  std::uint64_t most_memory = 0;  // it leaves when it has grown by more bytes since open(); 0: never
};

class Worker {
 public:
  // kCorrupt, kInvalid: the worker slot is not valid.
  static Result<Worker> open(WorkerSlot worker_slot);

  // Declares that the program's own preparations begin; ready() ends them.
  void initializing() noexcept {
    if (insights_.on()) insights_.enter(Phase::kInitializing);
  }
  // Declares that the worker can take tasks. A spare worker waits here until it is needed; kClosed if it
  // never will be.
  Status ready(channel::WaitHooks* hooks = nullptr);
  // Declares that the worker cannot be made ready; the payload says why. End the process then.
  Status fail(std::span<const std::byte> bytes, std::uint8_t codec);

  // The next task. kClosed: no more tasks for this worker. kInterrupted: the hooks ended the wait; nothing
  // was taken. A message that cannot be used is answered here.
  Status next(channel::Incoming& task, channel::WaitHooks* hooks = nullptr);
  // As next(), but kTimeout instead of waiting.
  Status try_next(channel::Incoming& task);

  // Declares that the task's function has returned; its answer is encoded next. `items`: what the task consisted of;
  // `listed`: they are items of a list. answer() makes the call where the caller has not. True: the task is one of
  // the pool's slowest (EngineOptions::insights), so that describe() with its function and arguments is worth it.
  bool worked(std::uint64_t items = 1, bool listed = false) noexcept {
    return insights_.on() && count_worked(items, listed);
  }
  void describe(std::string_view text) noexcept;
  bool has_insights() const noexcept { return insights_.on(); }

  // Call once for each task: kValue or kError, with the payload. On failure (kOverBudget, ...) nothing was
  // sent: answer with something smaller. kClosed: the task is over its deadline, and this process is about to
  // be killed.
  Status answer(Ending ending, const channel::Outgoing& payload);

  // Is what this worker does traced? Then name the function of each task, once it is known.
  bool is_traced() const noexcept { return task_began_ns_ != 0; }
  void name_task(std::string_view name) noexcept { task_name_ = domain().tracer().name(name); }

  std::uint32_t index() const noexcept { return worker_slot_.index; }
  const WorkerSlot& worker_slot() const noexcept { return worker_slot_; }
  arena::Arena& arena() const noexcept { return worker_slot_.tasks->arena(); }
  domain::Domain& domain() const noexcept { return worker_slot_.tasks->domain(); }

 private:
  explicit Worker(WorkerSlot worker_slot) noexcept;
  WorkerRow& row() const noexcept { return table_.worker_slot(worker_slot_.index); }
  Status take(channel::Incoming& task, os::Deadline deadline, channel::WaitHooks* hooks);
  Status accept(channel::Incoming& task, bool* mine);
  Status refuse_unreadable(const Status& why);
  Status keep_private(channel::Incoming& task);
  Status send(Ending ending, std::uint64_t task, const channel::Outgoing& payload);
  template <class Ready>
  Status sleep_until(Ready&& ready, os::Deadline deadline, channel::WaitHooks* hooks);
  bool count_worked(std::uint64_t items, bool listed) noexcept;
  void tell() noexcept;
  void end_copy() const noexcept;
  std::uint64_t traced_task(std::uint64_t number) const noexcept;
  void trace_begin(std::uint64_t number) noexcept;
  void trace_end(std::uint64_t number) noexcept;
  Status leave() noexcept;
  bool should_leave() noexcept;

  WorkerSlot worker_slot_;
  WorkerTable table_;
  Insights insights_;
  domain::SlotRef slot_;
  std::uint64_t done_ = 0;
  std::uint64_t memory_at_open_ = 0;  // a forked process begins with its parent's memory
  std::int64_t memory_seen_ns_ = 0;
  // Of the task under way: when it began (0: it is not traced), and the number of its function's name.
  std::int64_t task_began_ns_ = 0;
  std::uint32_t task_name_ = 0;
  bool untold_ = false;  // this worker has answered without waking the pool
};

}  // namespace forklift::inline abi_0_1::workers
