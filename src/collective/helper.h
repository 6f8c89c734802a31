// Calls that go on while their thread does something else: a helper thread of the group runs them in the order of
// issue. It starts with the first such call.
//
//   Result<PendingPtr> call = helper.start(request);
//   if (Status status = (*call)->wait(limits); !status) ...      // kTimeout: it goes on
//
// Fork: an idle thread is ended before it, and starts again with the next call. A call that is under way goes on in the
// parent; in the child it ends with kBrokenByFork.
//
// Thread safety: yes. Destruction: gives up what is under way, so that no thread is left.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "collective/communicator.h"

namespace forklift::inline abi_0_1::collective {

class Pending {
 public:
  Pending(Request request, std::uint64_t turn);

  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  // What became of the call. kTimeout: it goes on; the hooks' status. kBrokenByFork: it is the parent's.
  Status wait(const WaitLimits& limits);
  const Request& request() const noexcept { return request_; }

 private:
  friend class Helper;
  void end(Status status);

  const Request request_;
  const std::uint64_t turn_;
  const pid_t process_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::atomic<bool> done_{false};
  Status status_;
};
using PendingPtr = std::shared_ptr<Pending>;

class Helper {
 public:
  explicit Helper(Communicator& communicator);
  ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  // kSystem: there is no thread; the errors of Transport::check().
  Result<PendingPtr> start(Request request);

 private:
  void work(std::uint64_t era);
  friend class Helpers;
  void before_fork();
  void after_fork(bool in_child);

  Communicator& communicator_;
  std::mutex mutex_;  // held across a fork
  std::condition_variable changed_;
  std::deque<PendingPtr> queue_;
  PendingPtr running_;
  bool busy_ = false;  // with a call, or with dropping its tensors, which may want locks of the program's
  bool ending_ = false;
  std::uint64_t era_ = 0;  // a thread of an earlier era ends: a fork was waiting for that
  std::unique_ptr<std::thread> thread_;
};

}  // namespace forklift::inline abi_0_1::collective
