// The manager of a domain's named segments: a program of its own, in a session of its own, that is a member of
// the domain and outlives its last user.
//
// It reaps: a member's death, noticed at once through a pidfd or in the next slice, gives back the leases of
// the dead process, and the last lease on a segment removes its name. So names go although no other member
// lives, or none looks. It keeps segments for clients outside of the domain (shm_manager/clients.h), and what
// was handed over for a moment after its sender's end. When no member, no client and no segment is left, it
// removes the domain's files and ends.
//
// A second process of the same program stands by: it waits for the lock that the manager holds, and becomes
// the manager when that is killed. The manager starts another one when the one that stands by is killed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "node/node.h"
#include "os/fd.h"
#include "segment/owner_lock.h"
#include "segment/start_manager.h"
#include "shm_manager/clients.h"
#include "shm_manager/members.h"

namespace forklift::inline abi_0_1::shm_manager {

// How long a segment that was handed over is kept without a holder.
inline constexpr std::int64_t kMomentNs = 1'000'000'000;

class SegmentManager {
 public:
  // nullptr: another manager lives.
  static Result<std::unique_ptr<SegmentManager>> start(const segment::ManagerArguments& arguments);
  ~SegmentManager();
  SegmentManager(const SegmentManager&) = delete;
  SegmentManager& operator=(const SegmentManager&) = delete;

  // Until nothing is left to manage, or another manager has taken over.
  void serve();

 private:
  explicit SegmentManager(const segment::ManagerArguments& arguments) : arguments_(arguments) {}
  // False: another manager has the lock.
  Result<bool> take_lock();
  // False: another manager has taken over.
  bool look_after_files();
  void look_after_stand_by();
  void stop_stand_by();
  void wait();
  bool finish();

  const segment::ManagerArguments arguments_;
  segment::OwnerLock lock_;
  std::unique_ptr<node::Node> node_;
  std::unique_ptr<Clients> clients_;
  Members members_;
  pid_t stand_by_ = -1;
  os::Fd stand_by_pidfd_;
  std::int64_t stand_by_began_ns_ = 0;
};

// The program's main function: arguments as ManagerArguments say. Its exit code.
int run(const segment::ManagerArguments& arguments);

}  // namespace forklift::inline abi_0_1::shm_manager
