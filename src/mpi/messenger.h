// Sends and receives node messages: the one thread that steps it makes the MPI calls of pools.
//
//   Messenger messenger(job, [&](int from, NodeMessage packet) { ... });   // called in the thread that steps
//   messenger.post(2, std::move(packet));                              // from any thread; returns at once
//   while (...) messenger.step();                                      // polls once, and sleeps if nothing came or went
//
// A packet to this rank itself comes without MPI. Each other one is a head and its buffers; MPI keeps the order of messages
// between two ranks, so the receives of buffers are begun when their head has been read. A buffer is received into a fresh
// block of the arena, or on the heap if that has no room: the reader of the packet then says so.
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
#include "mpi/node_message.h"
#include "node/node.h"

namespace forklift::inline abi_0_1::mpi {

class Messenger {
 public:
  using Came = std::function<void(int from, NodeMessage packet)>;
  Messenger(JobCore& job, Came came)
      : job_(job), came_(std::move(came)), active_(std::chrono::steady_clock::now()) {}

  void post(int to, NodeMessage packet);
  // Ends a sleep.
  void wake();
  void step();
  bool is_sending();

 private:
  struct Posted {
    int to;
    NodeMessage packet;
  };
  struct Leaving {
    std::vector<MPI_Request> requests;
    std::vector<std::byte> head;
    NodeMessage packet;  // its buffers are being sent
  };
  struct Coming {
    std::vector<MPI_Request> requests;
    std::vector<std::byte> head;
    NodeMessage packet;
    bool has_head = false;
  };

  bool send();
  bool receive(std::vector<std::pair<int, NodeMessage>>& came);
  bool go_on(int from, std::deque<Coming>& several, std::vector<std::pair<int, NodeMessage>>& came);
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
