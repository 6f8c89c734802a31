// The broker of a domain's memory pools (memory_pool/pools.h): a program of its own, in a session of its own, that
// has a duplicate of each pool's descriptor and gives it to every member that asks.
//
// It is a member of the domain and reaps, so that what a killed process held goes although nobody else looks. It
// drops a descriptor when the pool's row is free, and ends when no member is left but those that serve. It accepts
// members of the same user only.
//
// A second process, its fork, stands by: it has all descriptors too, gets each one that comes before the answer
// does, and serves when the first one is gone. It inherits the listening socket, so nobody meets a closed one. Who
// serves makes another one when it is gone or does not take what it is sent.
//
// Thread safety: one thread.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "memory_pool/protocol.h"
#include "node/node.h"
#include "os/clock.h"
#include "os/fd.h"
#include "segment/start_manager.h"
#include "shm_manager/members.h"

namespace forklift::inline abi_0_1::shm_manager {

class PoolBroker {
 public:
  // nullptr: another broker lives.
  static Result<std::unique_ptr<PoolBroker>> start(const segment::ManagerArguments& arguments);
  ~PoolBroker();
  PoolBroker(const PoolBroker&) = delete;
  PoolBroker& operator=(const PoolBroker&) = delete;

  // Until the domain has no users any more. In the process that stands by it returns as well, later.
  void serve();

 private:
  // A member that came since the last slice is not watched yet: its death is noticed a slice later at most.
  static constexpr int kSliceMs = 500;
  // One that stands by and ends sooner is not replaced before the next slice.
  static constexpr std::int64_t kSoonNs = 100'000'000;

  struct Client {
    os::Fd socket;
    std::optional<memory_pool::PoolRef> wants;  // nobody has handed it in yet
    os::Deadline until = os::Deadline::never();
  };
  PoolBroker() = default;
  memory_pool::Pools& pools() const noexcept { return node_->memory_pools(); }

  void drop_gone();
  void wait();
  void accept_all();
  // False: it has its answer, or is gone.
  bool serve_client(Client& client, bool readable);
  bool give(const Client& client, memory_pool::PoolRef pool);
  memory_pool::BrokerAnswer keep(memory_pool::PoolRef pool, std::vector<os::Fd> files);

  // True in the process that has stood by, when it has to serve.
  bool look_after_stand_by();
  void stop_stand_by();
  // In the child: returns when it has to serve.
  void stand_by(os::Fd channel);
  bool send_to_stand_by(memory_pool::PoolRef pool, const os::Fd& file);

  std::unique_ptr<node::Node> node_;
  os::Fd listener_;
  std::map<memory_pool::PoolRef, os::Fd> kept_;
  std::vector<Client> clients_;
  Members members_;
  pid_t stand_by_ = -1;
  os::Fd stand_by_channel_;  // where it gets descriptors, and sees our end
  std::int64_t stand_by_began_ns_ = 0;
  // When this process began to serve: those that hold descriptors hand them in within kPatienceNs of it. A pool that
  // nobody has handed in by then is one whose processes are gone.
  std::int64_t began_ns_ = 0;
  bool full_ = false;  // no descriptor was left for a client; the next slice tries again
};

// The program's main function in this role. Its exit code.
int run_broker(const segment::ManagerArguments& arguments);

}  // namespace forklift::inline abi_0_1::shm_manager
