// A rank's side of all pools of the job: the messenger, the host of this node's workers, and in the driver the pools' engines
// with the thread that exchanges their messages.
//
//   std::shared_ptr<Exchange> exchange = Exchange::of(core);     // one for a job
//   exchange->serve();                                           // an agent: until the driver's Job goes
//   std::uint64_t pool = exchange->enter(engine);                // the driver
//
// Thread safety: post(), enter() and leave() from any thread. An engine's came() and deal() are called in the thread.
// Errors: what goes wrong with messages aborts the job, with the rank's name.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "mpi/host.h"
#include "mpi/job_core.h"
#include "mpi/messenger.h"

namespace forklift::inline abi_0_1::mpi {

// An engine of the driver, as the thread sees it.
class Dealer {
 public:
  virtual ~Dealer() = default;
  virtual void came(int from, Kind kind, Reader& reader) = 0;
  // Sends tasks to nodes that have room.
  virtual void deal() = 0;
};

class Exchange {
 public:
  explicit Exchange(JobCore& job);
  ~Exchange() { end(); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  static std::shared_ptr<Exchange> of(JobCore& job);

  void serve();
  // The number of a new pool, whose messages go to the dealer until it leaves.
  std::uint64_t enter(Dealer& dealer);
  void leave(std::uint64_t pool);
  void post(int to, NodeMessage packet) { messenger_.post(to, std::move(packet)); }
  void wake() { messenger_.wake(); }
  // Before the job's end: ends the pools of this node, and the thread.
  void end();

 private:
  void came(int from, NodeMessage packet);
  void run();

  JobCore& job_;
  Messenger messenger_;
  Host host_;
  std::mutex mutex_;  // guards dealers_: held while one is called, so that leave() waits for it
  std::map<std::uint64_t, Dealer*> dealers_;
  std::uint64_t pools_ = 0;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace forklift::inline abi_0_1::mpi
