#include "support/pool_fixture.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "os/clock.h"

namespace forklift::test {

using arena::LeasePtr;
using memory_pool::PieceInfo;
using memory_pool::Pools;
using os::Deadline;

namespace fs = std::filesystem;

namespace {
constexpr const char* kPoolName = "forklift-test-pool";
}  // namespace

std::size_t pool_files_of(pid_t process) {
  std::size_t found = 0;
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator("/proc/" + std::to_string(process) + "/fd", error)) {
    const std::string target = fs::read_symlink(entry.path(), error).string();
    if (!error && target.starts_with(std::string("/memfd:") + kPoolName)) ++found;
  }
  return found;
}

bool has_broker_address(std::uint64_t token) {
  std::string address = memory_pool::broker_address(token);
  address.front() = '@';
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);)
    if (line.ends_with(address)) return true;
  return false;
}

void expect_no_broker(std::uint64_t token, int timeout_ms) {
  const bool gone =
      eventually([&] { return brokers(token).empty() && !has_broker_address(token); }, timeout_ms);
  if (gone) return;
  for (const pid_t pid : brokers(token)) ADD_FAILURE() << "left behind: broker " << pid;
  EXPECT_FALSE(has_broker_address(token)) << "left behind: the broker's address";
}

void kill_both_brokers(std::uint64_t token) {
  const ManagerPair pair = wait_for_brokers(token);
  ::kill(pair.serves, SIGSTOP);
  ::kill(pair.stands_by, SIGKILL);
  ::kill(pair.serves, SIGKILL);
  EXPECT_TRUE(eventually([&] { return brokers(token).empty() && !has_broker_address(token); }));
}

std::shared_ptr<const Mapped> map_pool(const os::Fd& file, std::uint64_t bytes) {
  Result<os::Mapping> mapping = os::Mapping::shared(file, 0, bytes);
  EXPECT_OK(mapping);
  if (!mapping) return nullptr;
  auto made = std::make_shared<Mapped>();
  made->mapping = *std::move(mapping);
  return made;
}

const Mapped& mapped(const Pools::Memory& memory) { return *static_cast<const Mapped*>(memory.get()); }

std::optional<TestPool> enter_pool(node::Node& node, std::uint64_t bytes) {
  Result<os::Fd> file = os::create_memfd(kPoolName, bytes);
  EXPECT_OK(file);
  if (!file) return std::nullopt;
  std::shared_ptr<const Mapped> memory = map_pool(*file, bytes);
  const Result<memory_pool::PoolRef> ref =
      node.memory_pools().enter(*std::move(file), bytes, kDevice, memory);
  EXPECT_OK(ref);
  if (!ref || !memory) return std::nullopt;
  return TestPool{*ref, std::move(memory)};
}

std::byte* open_piece(node::Node& node, arena::Lease& lease, int* imports) {
  const Result<PieceInfo> info = node.memory_pools().describe(lease);
  EXPECT_OK(info);
  if (!info) return nullptr;
  const Result<Pools::Memory> memory = node.memory_pools().open(
      lease, [&](const PieceInfo& piece, const os::Fd& file) -> Result<Pools::Memory> {
        if (imports != nullptr) ++*imports;
        EXPECT_EQ(piece.device, kDevice);
        return Pools::Memory(map_pool(file, piece.pool_bytes));
      });
  EXPECT_OK(memory);
  return memory ? mapped(*memory).at(info->offset) : nullptr;
}

void PoolFixture::TearDown() {
  if (node_) {
    domain().reap();
    EXPECT_EQ(pools().live_pieces(), 0U);
    EXPECT_EQ(pools().live_pools(), 0U);
    EXPECT_EQ(pools().bytes(), 0U);
  }
  NodeFixture::TearDown();
  if (token_ != 0) expect_no_broker(token_);
}

LeasePtr PoolFixture::share(const TestPool& pool, std::uint64_t offset, std::uint64_t bytes) {
  Result<LeasePtr> lease = pools().share(pool.ref, offset, bytes);
  EXPECT_OK(lease);
  return lease ? *std::move(lease) : nullptr;
}

void PoolFixture::send(const channel::ChannelPtr& through, LeasePtr lease) {
  EXPECT_OK(through->put({.leases = {&lease, 1}}, Deadline::after_seconds(10)));
}

LeasePtr PoolFixture::receive(const channel::ChannelPtr& through, double seconds) {
  channel::Incoming message;
  EXPECT_OK(through->get(message, Deadline::after_seconds(seconds)));
  if (message.leases().size() != 1) return nullptr;
  return message.leases().front();
}

std::vector<std::string> PoolFixture::returned(const TestPool& pool) {
  std::vector<std::string> found;
  EXPECT_OK(pools().visit_returned(pool.ref, [&](std::uint64_t offset, std::uint64_t bytes) {
    found.push_back(std::to_string(offset) + "+" + std::to_string(bytes));
  }));
  std::sort(found.begin(), found.end());
  return found;
}

void PoolKillFixture::pause_for_ever() {
  for (;;) ::pause();
}

Child PoolKillFixture::make_owner(const channel::ChannelPtr& queue, std::byte value, unsigned count,
                                  Gate& sent, const std::function<void()>& then) {
  return Child([&] {
    const auto pool = enter_pool(node());
    ASSERT_TRUE(pool);
    for (unsigned i = 0; i < count; ++i) {
      *pool->memory->at(i * 4096) = value;
      send(queue, share(*pool, i * 4096, 100));
    }
    sent.open();
    then();
  });
}

void PoolKillFixture::expect_pool_gone() {
  EXPECT_TRUE(eventually(
      [&] {
        domain().try_reap();
        return pools().live_pools() == 0;
      },
      2000));
  for (const pid_t pid : brokers(token_))
    EXPECT_TRUE(eventually([&] { return pool_files_of(pid) == 0; }, 2000)) << pid;
}

}  // namespace forklift::test
