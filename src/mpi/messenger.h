// Sends and receives parcels: the one thread that steps it makes the MPI calls of pools.
//
//   Messenger messenger(job, [&](int from, Parcel parcel) { ... });   // called in the thread that steps
//   messenger.post(2, std::move(parcel));                              // from any thread; returns at once
//   while (...) messenger.step();                                      // polls once, and sleeps if nothing came or went
//
// A parcel to this rank itself comes without MPI. Each other one is a head and its buffers; MPI keeps the order of messages
// between two ranks, so the receives of buffers are begun when their head has been read. A buffer is received into a fresh
// block of the arena, or on the heap if that has no room: the reader of the parcel then says so.
//
// Errors: step() throws Error (kSystem, kCorrupt), after which nothing can be exchanged any more.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "mpi/job_core.h"
#include "mpi/parcel.h"
#include "node/node.h"

namespace forklift::inline abi_0_1::mpi {

class Messenger {
 public:
  using Came = std::function<void(int from, Parcel parcel)>;
  Messenger(JobCore& job, Came came)
      : job_(job), came_(std::move(came)), active_(std::chrono::steady_clock::now()) {}

  void post(int to, Parcel parcel);
  // Ends a sleep.
  void wake();
  void step();
  bool is_sending();

 private:
  struct Posted {
    int to;
    Parcel parcel;
  };
  struct Leaving {
    std::vector<MPI_Request> requests;
    std::vector<std::byte> head;
    Parcel parcel;  // its buffers are being sent
  };
  struct Coming {
    std::vector<MPI_Request> requests;
    std::vector<std::byte> head;
    Parcel parcel;
    bool has_head = false;
  };

  bool send();
  bool receive(std::vector<std::pair<int, Parcel>>& came);
  bool go_on(int from, std::deque<Coming>& several, std::vector<std::pair<int, Parcel>>& came);
  void receive_buffers(int from, Coming& coming);
  static bool is_complete(std::vector<MPI_Request>& requests);
  void sleep();

  JobCore& job_;
  const Came came_;
  std::mutex mutex_;  // guards posted_ and woken_
  std::condition_variable waking_;
  std::deque<Posted> posted_;
  bool woken_ = false;
  std::deque<Leaving> leaving_;
  std::map<int, std::deque<Coming>> coming_;
  std::chrono::steady_clock::time_point active_;
  unsigned polls_ = 0;
};

}  // namespace forklift::inline abi_0_1::mpi
