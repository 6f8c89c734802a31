// What a Job is made of: the communicators, who is who, the lock over all MPI calls, signs of life, and the job's end.
//
//   const std::unique_lock lock = core.serialized();
//   core.check(MPI_Isend(..., &request), "MPI_Isend");          // every MPI call holds the lock
//   lock.unlock();
//   throw_if_failed(core.await({&request, 1}, Polling::kSleeps, Wait::forever()));
//
// No call blocks in MPI, whose waits keep a processor busy and would keep the lock from the thread that looks for signs
// of life: requests are begun, and polled.
//
// Signs of life go round: each rank sends one to the next rank every two seconds, and aborts the job when the one before it
// has been silent for too long. The time is counted in looks of this process, half a second at most each, so that one which was
// stopped itself, or did not get the processor, blames nobody.
//
// Errors: Error (kSystem) with MPI's own words. Thread safety: as Job. Process safety: as Job.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "forklift/mpi/job.h"
#include "forklift/wait.h"
#include "mpi/node_layout.h"

namespace forklift::inline abi_0_1::mpi {

// Of the communicator of all ranks, which is this library's own.
enum Tag : int {
  kLeaveTag = 1,   // from the driver: its Job goes
  kBeatTag = 2,    // a sign of life
  kHeadTag = 3,    // messages of pools (messenger.h)
  kBufferTag = 4,  // memory that belongs to the message before
};

// MPI counts in ints, so larger memory goes in pieces.
inline constexpr std::size_t kPiece = std::size_t{1} << 30;

// How a thread waits for MPI. MPI moves data only while it is called.
enum class Polling {
  kSleeps,  // for other ranks to come: it sleeps for a fiftieth of the time waited, 5 ms at most
  kYields,  // for data that is on its way: it sleeps 50 us at most, and not at all in the first second
};
// For how long to sleep after so many polls in vain, and so much time in which nothing came; 0: yield.
std::chrono::duration<double> sleep_between(Polling polling, std::chrono::duration<double> quiet,
                                            unsigned polls);
// Between two polls; `since`: when the wait began, `polls`: how many there were.
void pause_between(Polling polling, std::chrono::steady_clock::time_point since, unsigned polls);

class Exchange;

class JobCore {
 public:
  // Waits for all ranks. Throws Error.
  JobCore(int argc, char** argv);
  ~JobCore();
  JobCore(const JobCore&) = delete;
  JobCore& operator=(const JobCore&) = delete;

  int rank() const noexcept { return me().rank; }
  int size() const noexcept { return static_cast<int>(ranks_.size()); }
  const RankInfo& me() const noexcept { return ranks_[own_]; }
  const std::vector<RankInfo>& ranks() const noexcept { return ranks_; }
  const std::vector<Node>& nodes() const noexcept { return nodes_; }
  // This rank's node, and its place among that node's ranks.
  std::size_t node_number() const noexcept { return node_number_; }
  const Node& node() const noexcept { return nodes_[node_number_]; }
  int local_rank() const noexcept { return local_rank_; }

  // All ranks; those of this node; and those with the same place in their nodes, in the order of the nodes.
  MPI_Comm world() const noexcept { return world_; }
  MPI_Comm local() const noexcept { return local_; }
  MPI_Comm lane() const noexcept { return lane_; }

  std::unique_lock<std::mutex> serialized() { return std::unique_lock(mutex_); }
  static void check(int code, const char* call);
  // Until all requests are complete. kTimeout, kInterrupted: they are not, and go on. kSystem: MPI failed.
  Status await(std::span<MPI_Request> requests, Polling polling, const Wait& wait);
  // A communicator like another one, for calls whose order is their own. All ranks of `of` call it.
  MPI_Comm duplicate(MPI_Comm of);
  void release(MPI_Comm& communicator) noexcept;

  // What pools need, from the first one on (exchange.h).
  std::shared_ptr<Exchange> exchange;

  // Whether the driver's Job has gone. Not in the driver.
  bool has_left();
  // The ranks cannot be waited for any more: the job is aborted when this process exits.
  void doom(const std::string& why) noexcept;
  bool is_doomed() const noexcept { return doomed_.load(std::memory_order_acquire); }
  // In good order: waits for all ranks.
  void end();
  [[noreturn]] void abort(const std::string& why, int status);
  // What ends this process before its Job was gone.
  void process_exits(int status);

 private:
  void begin_mpi(int argc, char** argv);
  void meet();
  void beat(const std::stop_token& stop);
  void send_beat();
  bool hear_beats();

  std::mutex mutex_;  // held while MPI is called
  bool owns_mpi_ = false;
  MPI_Comm world_ = MPI_COMM_NULL;
  MPI_Comm local_ = MPI_COMM_NULL;
  MPI_Comm lane_ = MPI_COMM_NULL;
  std::vector<RankInfo> ranks_;
  std::vector<Node> nodes_;
  std::size_t own_ = 0;
  std::size_t node_number_ = 0;
  int local_rank_ = 0;
  double silence_ = 0;
  int parent_ = 0;
  MPI_Request leaving_ = MPI_REQUEST_NULL;
  bool left_ = false;
  std::atomic<bool> doomed_{false};
  std::string doom_;  // why; set before doomed_
  bool ended_ = false;
  MPI_Request beat_ = MPI_REQUEST_NULL;
  std::mutex pulse_mutex_;
  std::condition_variable_any pulse_;
  std::jthread heart_;
};

}  // namespace forklift::inline abi_0_1::mpi
