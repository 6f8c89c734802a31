// Job: this process's part in an MPI job, for programs that mpirun, srun or another launcher starts.
//
//   int main(int argc, char** argv) {
//     forklift::mpi::Job job(argc, argv);            // the first line of main, instead of forklift::init
//     if (!job.is_driver()) return job.serve();      // for a pool: the other ranks host its workers
//     forklift::mpi::Pool pool(job);                 // forklift/mpi/pool.h
//     ...
//   }
//
//   int main(int argc, char** argv) {                // or all ranks do the same work:
//     forklift::mpi::Job job(argc, argv);
//     forklift::mpi::Group group(job);               // forklift/mpi/group.h
//     ...
//   }
//
//   mpirun -n 4 ./program        # or: srun -n 4 ./program
//
// The program links forklift::mpi: find_package(forklift COMPONENTS mpi). Without a launcher it is a job of one rank.
//
// Rank 0 is the driver. The ranks of a machine are a node; FORKLIFT_MPI_NODE_RANKS=2 makes each two ranks of a machine a
// node of their own, to try out several nodes on one machine. A node's agent hosts its workers: the lowest rank that is
// not the driver, or the driver where it is alone. A node with several ranks has as many workers as ranks, on the
// processors of all of them; one with a single rank as many as CPUs that the rank may use, so give it all of them
// (mpirun --bind-to none --map-by node, srun -c).
//
// The end. The destructor waits for all ranks, and ends MPI where the constructor has begun it. Where an exception
// passes it, or a collective has failed, the other ranks cannot be waited for: the job is aborted when this process exits,
// so that main can still say what happened. A rank that dies ends the job: the launcher does it and says which rank it was.
// Where it does not, other ranks do after 60 s without a sign of life (FORKLIFT_MPI_SILENCE, in seconds): they name rank,
// process and host, and abort the job.
//
// MPI beside it. All that makes MPI calls holds a lock meanwhile, so MPI_THREAD_SERIALIZED is enough. A thread looks
// twice a second for signs of life. The program's own MPI calls, while a Job lives, either hold serialized(), and are
// none that wait for other ranks, or the program has called MPI_Init_thread for MPI_THREAD_MULTIPLE itself before.
// The launcher's variables (OMPI_..., PMI_..., ...) are taken out of the environment: this process's children are no ranks.
//
// Ownership: Group and Pool keep what they need of the job; they have to be gone before the Job goes. Thread safety: all
// but constructor, destructor and serve() from any thread. Process safety: a Job belongs to the process that made it; a
// forked child must not use it. Workers that start in fresh processes of this program end inside of the constructor.
//
// Errors: Error. kInvalid: a second Job at a time. kUnsupported: MPI was begun with less than MPI_THREAD_SERIALIZED. kSystem:
// MPI fails. What the ranks cannot go on with together aborts the job, and says why: FORKLIFT_MPI_... variables that are no
// numbers, ranks with different versions of Forklift.
// Invariants: one thread at a time makes MPI calls. No wait of a rank outlives a dead rank by more than the silence.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "forklift/init.h"

namespace forklift::inline abi_0_1::mpi {

// What a Job is made of; the library's own.
class JobCore;

// Ranks of one machine that share memory.
struct Node {
  std::string host;        // the machine's name
  std::vector<int> ranks;  // its ranks, in order
  int agent = 0;           // the rank that hosts its workers
  int workers = 0;         // as many as a pool has on it
};

class Job {
 public:
  // forklift::init(), then MPI_Init_thread, unless MPI has begun already. Waits for all ranks. In a pool's worker it runs
  // the worker, and does not return.
  Job(int argc, char** argv);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Which rank this is, and of how many. Rank 0 is the driver.
  int rank() const noexcept;
  int size() const noexcept;
  bool is_driver() const noexcept { return rank() == 0; }
  // All nodes, the driver's first.
  const std::vector<Node>& nodes() const noexcept;

  // Of a rank that is not the driver: hosts workers of the driver's pools, or sleeps, until the driver's Job goes. Returns
  // the exit status, 0.
  int serve();

  // For the program's own MPI calls: while it is held, the library makes none.
  [[nodiscard]] std::unique_lock<std::mutex> serialized();
  // Writes `why` to stderr and ends all ranks (MPI_Abort), with this exit status where the launcher passes it on.
  [[noreturn]] void abort(const std::string& why, int status = 1);

  // For the library's own parts.
  const std::shared_ptr<JobCore>& core() const noexcept { return core_; }

 private:
  std::shared_ptr<JobCore> core_;
};

}  // namespace forklift::inline abi_0_1::mpi
