// What processes and the broker of a domain's pools say to each other: one BrokerRequest and one BrokerAnswer a connection, of
// packets on the socket at broker_address(). A connection without a request asks the broker to look which pools
// are gone.
#pragma once

#include <cstdint>
#include <string>

#include "memory_pool/pool_ref.h"

namespace forklift::inline abi_0_1::memory_pool {

enum class Verb : std::uint32_t {
  kKeep = 1,  // with the pool's descriptor
  kGive = 2   // the answer kDone comes with it
};

struct BrokerRequest {
  Verb verb = Verb::kGive;
  PoolRef pool;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(BrokerRequest) == 16);

enum class BrokerAnswer : std::uint32_t {
  kDone = 1,
  kGone = 2,     // there is no such pool (any more)
  kUnknown = 3,  // nobody has handed in the descriptor of this pool
  kFull = 4      // the broker can have no more descriptors
};

// An abstract address (os/local_socket.h).
std::string broker_address(std::uint64_t domain_id);

// How long from its beginning on the broker waits for somebody to hand in a descriptor that it does not have: longer
// than waiting processes take to notice that it is a new one (Domain::check_deaths).
inline constexpr std::int64_t kPatienceNs = 3'000'000'000;

}  // namespace forklift::inline abi_0_1::memory_pool
