// Tests of memory pools over a domain of their own, with memory files as pools. After each of them the broker has
// ended, and its address is free.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memory_pool/pools.h"
#include "os/mapping.h"
#include "os/memfd.h"
#include "support/node_fixture.h"
#include "support/shm_files.h"

namespace forklift::test {

inline constexpr std::uint64_t kPoolBytes = std::uint64_t{1} << 20;
inline constexpr memory_pool::DeviceUuid kDevice{std::byte{1}, std::byte{2}, std::byte{15}};

// How many pools' descriptors a process has.
std::size_t pool_files_of(pid_t process);
// Does the broker's address exist?
bool has_broker_address(std::uint64_t token);
// No broker of the domain is left. Waits for that; a failure otherwise.
void expect_no_broker(std::uint64_t token, int timeout_ms = 5000);
// At the same time: one of them alone would be replaced. Waits until they are gone.
void kill_both_brokers(std::uint64_t token);

// A memory file mapped: what a Pools::Import makes.
struct Mapped {
  os::Mapping mapping;
  std::byte* at(std::uint64_t offset) const { return mapping.data() + offset; }
};
// nullptr and a failure when it cannot be mapped.
std::shared_ptr<const Mapped> map_pool(const os::Fd& file, std::uint64_t bytes = kPoolBytes);
const Mapped& mapped(const memory_pool::Pools::Memory& memory);

// A pool of memory that `node`'s process owns.
struct TestPool {
  memory_pool::PoolRef ref;
  std::shared_ptr<const Mapped> memory;
};
std::optional<TestPool> enter_pool(node::Node& node, std::uint64_t bytes = kPoolBytes);

// Opens a received piece; how often memory was imported is counted. nullptr and a failure when that fails.
std::byte* open_piece(node::Node& node, arena::Lease& lease, int* imports = nullptr);

class PoolFixture : public NodeFixture {
 protected:
  explicit PoolFixture(const domain::Options& options = {}) : NodeFixture(options) {}
  void SetUp() override {
    NodeFixture::SetUp();
    if (node_) token_ = domain().header().domain_id;
  }
  void TearDown() override;

  memory_pool::Pools& pools() { return node_->memory_pools(); }
  // nullptr and a failure when there is none.
  arena::LeasePtr share(const TestPool& pool, std::uint64_t offset, std::uint64_t bytes);
  void send(const channel::ChannelPtr& through, arena::LeasePtr lease);
  // The piece of the next message.
  arena::LeasePtr receive(const channel::ChannelPtr& through, double seconds = 10);
  // What came back to the owner since, as "offset+bytes" in ascending order.
  std::vector<std::string> returned(const TestPool& pool);

  std::uint64_t token_ = 0;
};

// With owners that are other processes.
class PoolKillFixture : public PoolFixture {
 protected:
  // A process that enters a pool, writes `value` at the beginning of each of `count` pieces, sends them and opens
  // `sent`; then it does `then`.
  Child make_owner(const channel::ChannelPtr& queue, std::byte value, unsigned count, Gate& sent,
                   const std::function<void()>& then = pause_for_ever);
  // Of all processes, and the broker's descriptors with it.
  void expect_pool_gone();

 private:
  static void pause_for_ever();
};

}  // namespace forklift::test
