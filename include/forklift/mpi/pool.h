// Pool: forklift::Pool over all nodes of an MPI job.
//
//   double integrate(double from, double to);
//   static const forklift::Registered<&integrate> registered_integrate{"integrate"};   // forklift/spawn.h
//
//   int main(int argc, char** argv) {
//     forklift::mpi::Job job(argc, argv);
//     if (!job.is_driver()) return job.serve();
//     forklift::mpi::Pool pool(job);
//     std::vector<double> all = pool.starmap(integrate, intervals);
//     pool.with({.timeout = 5s, .retries = 2}).apply(risky, input);
//   }
//
//   mpirun -n 4 ./integrate
//
// The calls, their options, exceptions and futures are those of forklift/pool.h. Every node has the workers that Job's
// nodes() say, as processes of their own, forked by a process of this program that is no rank. The driver keeps the tasks: a
// node has as many as its workers run, and some 30 ms of work more by the rate at which it answers. Tasks that wait on a
// node for 50 ms while another one has free workers go there.
//
// Arguments and results travel as bytes, with a tensor's memory as a message of its own: from where it lies in the arena into
// the arena of the receiving node. So a Tensor is a copy at the other end, not the same memory, on every node. A small part
// of a large block is copied out first. What is an object in shared memory (SharedArray, SharedMap, ...) is refused (kInvalid).
//
// What is local: retries, time-outs and the replacement of workers happen on the task's node. An initializer runs in each
// worker; its arguments are Sendable, since queues and locks do not go between nodes. A node whose workers cannot be made
// ready is not used any more, with a warning; if no other node is left, tasks end with BrokenPoolError.
//
// A rank that dies ends the job (forklift/mpi/job.h), and the tasks with it.
//
// Ownership: the pool keeps what it needs of the job, and has to be gone before it. Thread safety: any number of threads may
// call any member but the destructor; a thread of the job's makes the MPI calls. Process safety: as forklift::Pool.
// Errors: as forklift::Pool; Error (kInvalid) in a rank that is not the driver.
// Invariants: each task ends exactly once. At rest, the driver and a node's agent take less than 1 % of a CPU each. The
// destructor terminates.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "forklift/mpi/job.h"
#include "forklift/pool.h"

namespace forklift::inline abi_0_1::mpi {

// How many workers, and when they are replaced.
struct PoolOptions {
  std::size_t workers = 0;  // on all nodes together, spread by Node::workers; 0: as many as those say
  std::size_t spares = 0;   // on each node: more, ready to take the place of one that is gone
  std::uint64_t tasks_per_worker = 0;   // a worker is replaced after so many; 0: never
  std::uint64_t memory_per_worker = 0;  // a worker is replaced when it has grown by more bytes; 0: never
  std::string name = "PoolWorker";      // a worker's, before its number
};

// A node as a pool sees it.
struct PoolNode {
  std::string host;         // the machine's name
  int agent = 0;            // the rank that hosts the workers
  std::size_t workers = 0;  // how many it has
  std::size_t running = 0;  // tasks that were sent there and can be running
  std::size_t waiting = 0;  // tasks that wait there for a worker
  std::uint64_t ended = 0;  // tasks that have ended there
  std::vector<pid_t> pids;  // of the workers that live now; empty where the node did not answer in time
  bool usable = true;       // false: its workers cannot be made ready
};

// The library's own: the initializer of a pool, and the pool behind the calls.
struct Prepare {
  std::string function;
  Value::List arguments;
};
std::shared_ptr<forklift::detail::PoolCore> make_pool(Job& job, const PoolOptions& options,
                                                      const Prepare& prepare);
std::vector<PoolNode> nodes_of(forklift::detail::PoolCore& pool);
// The same: what the initializer's arguments are sent as.
template <class R, class... Params, class... Args>
Prepare prepare_by(R (*function)(Params...), Args&&... args) {
  static_assert((Sendable<std::remove_cvref_t<Params>> && ...),
                "forklift: a parameter of this initializer cannot be sent to another node: queues, locks and "
                "the like are "
                "of one machine");
  const auto held = forklift::detail::hold_arguments(function, std::forward<Args>(args)...);
  Prepare prepare{forklift::detail::registered_name(forklift::detail::address_of(function)), {}};
  forklift::detail::Call unused;
  std::apply(
      [&](const auto&... each) {
        (prepare.arguments.push_back(forklift::detail::pack_argument(each, unused)), ...);
      },
      *held);
  return prepare;
}

class Pool : public PoolCalls {
 public:
  // Has the workers started on all nodes, without waiting for them.
  explicit Pool(Job& job, const PoolOptions& options = {}) : PoolCalls(make_pool(job, options, {}), {}) {}
  // Each worker calls initializer(args...) first. One that throws cannot work.
  template <class R, class... Params, class... Args>
  Pool(Job& job, const PoolOptions& options, R (*initializer)(Params...), Args&&... args)
      : PoolCalls(make_pool(job, options, prepare_by(initializer, std::forward<Args>(args)...)), {}) {}
  ~Pool() { forklift::detail::end_pool(core()); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // The same calls, with a deadline, retries or another look-ahead.
  PoolCalls with(const CallOptions& options) const noexcept { return PoolCalls(core(), options); }

  // No more tasks; workers leave when all have ended.
  void close() { forklift::detail::close_pool(*core()); }
  // Every task ends now, as stopped; workers get SIGTERM, after a second SIGKILL.
  void terminate() { forklift::detail::terminate_pool(*core()); }
  // After one of these two: until all workers are gone.
  void join() { (void)forklift::detail::join_pool(*core(), forklift::detail::kForever); }
  // False: some were left when the wait was over.
  [[nodiscard]] bool try_join(const Wait& wait = Wait::now()) {
    return forklift::detail::join_pool(*core(), wait);
  }

  // Where tasks are, and which processes the workers are. Asks the nodes, for five seconds at most.
  std::vector<PoolNode> nodes() const { return nodes_of(*core()); }
};

}  // namespace forklift::inline abi_0_1::mpi
