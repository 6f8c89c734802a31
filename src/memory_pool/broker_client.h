// Asking the broker of a domain's pools (shm_manager/pool_broker.h).
//
//   BrokerClient broker(domain);
//   Status kept = broker.keep(pool, descriptor);          // starts the broker if there is none
//   Result<os::Fd> file = broker.give(pool);              // in another process
//
// Every call ends within kAskSeconds and the time that starting takes. kStalled: the broker is stopped or does not
// answer, kPeerDied: it dies again and again; kNotFound, kSystem, kTimeout: it cannot be started; kInvalid: the pool
// is gone.
//
// Thread safety: one thread of a process at a time, and no fork meanwhile (segment/start_manager.h).
#pragma once

#include <optional>

#include "domain/domain.h"
#include "memory_pool/protocol.h"
#include "os/clock.h"
#include "os/fd.h"

namespace forklift::inline abi_0_1::memory_pool {

class BrokerClient {
 public:
  static constexpr double kAskSeconds = 5;  // more than kPatienceNs

  explicit BrokerClient(const domain::Domain& domain)
      : domain_(domain), address_(broker_address(domain.header().domain_id)) {}

  // kNoSpace: the broker can have no more descriptors.
  Status keep(PoolRef pool, const os::Fd& descriptor) const;
  // As keep(), but starts nothing, and waits for `seconds` at most.
  Status keep_if_there(PoolRef pool, const os::Fd& descriptor, double seconds) const;
  // kNotFound: nobody has handed it in, not within kPatienceNs either.
  Result<os::Fd> give(PoolRef pool) const;
  // Some pool is gone. Waits for nothing; the broker looks by itself now and then.
  void tell_gone() const noexcept;

 private:
  Result<os::Fd> ask(const BrokerRequest& request, const os::Fd* descriptor, os::Deadline deadline,
                     bool start) const;
  // nullopt: the broker is gone.
  Result<std::optional<os::Fd>> ask_once(const BrokerRequest& request, const os::Fd* descriptor,
                                         os::Deadline deadline) const;

  const domain::Domain& domain_;
  std::string address_;
};

}  // namespace forklift::inline abi_0_1::memory_pool
