// Where descriptors of memory pools come from: the broker, and the one import of a process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "support/pool_fixture.h"

namespace forklift::test {
namespace {

using arena::Handle;
using arena::LeasePtr;
using memory_pool::PieceInfo;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class PoolBroker : public PoolFixture {};

TEST_F(PoolBroker, AProgramWithoutPoolsHasNoBroker) {
  const LeasePtr block = allocate(arena::Kind::kShare, 100);
  EXPECT_THAT(brokers(token_), IsEmpty());
  EXPECT_FALSE(has_broker_address(token_));
}

TEST_F(PoolBroker, AReceiverOpensAPoolOnce) {
  const channel::ChannelPtr queue = make_channel();
  const auto pool = enter_pool(node());
  ASSERT_TRUE(pool);
  Child receiver([&] {
    int imports = 0;
    // As a program that was started joins: with nothing inherited.
    const auto joined = node::Node::attach(*domain().control_file().duplicate(),
                                           *domain().data_file().duplicate(), std::nullopt);
    ASSERT_OK(joined);
    const auto own = channel::Channel::open((*joined)->channels(), queue->id());
    ASSERT_OK(own);
    std::vector<LeasePtr> kept;
    for (int i = 0; i < 3; ++i) {
      kept.push_back(receive(*own));
      ASSERT_TRUE(kept.back());
      std::byte* const at = open_piece(**joined, *kept.back(), &imports);
      ASSERT_NE(at, nullptr);
      EXPECT_EQ(*at, static_cast<std::byte>(i + 1));
      *at = std::byte{99};
    }
    EXPECT_EQ(imports, 1);
    const std::size_t inherited = 0;  // a forked child has closed its copy
    EXPECT_EQ(pool_files_of(::getpid()), inherited + 1);
    // It stays open for the next piece.
    kept.clear();
    EXPECT_EQ(pool_files_of(::getpid()), inherited + 1);
    kept.push_back(receive(*own));
    ASSERT_TRUE(kept.back());
    ASSERT_NE(open_piece(**joined, *kept.back(), &imports), nullptr);
    EXPECT_EQ(imports, 1);
    (*joined)->memory_pools().let_go(memory_pool::Pools::Idle::kAll);
    EXPECT_EQ(pool_files_of(::getpid()), inherited + 1) << "a piece of it is held";
    kept.clear();
    (*joined)->memory_pools().let_go(memory_pool::Pools::Idle::kAllButTheLast);
    EXPECT_EQ(pool_files_of(::getpid()), inherited + 1) << "its owner has it";
    (*joined)->memory_pools().let_go(memory_pool::Pools::Idle::kAll);
    EXPECT_EQ(pool_files_of(::getpid()), inherited);
    // What comes now is imported anew.
    kept.push_back(receive(*own));
    ASSERT_TRUE(kept.back());
    ASSERT_NE(open_piece(**joined, *kept.back(), &imports), nullptr);
    EXPECT_EQ(imports, 2);
  });
  for (int i = 0; i < 5; ++i) {
    const std::uint64_t offset = static_cast<std::uint64_t>(i) * 8192;
    *pool->memory->at(offset) = static_cast<std::byte>(i + 1);
    send(queue, share(*pool, offset, 100));
  }
  EXPECT_EQ(receiver.wait(), 0);
  domain().reap();
  EXPECT_THAT(returned(*pool), ElementsAre("0+100", "16384+100", "24576+100", "32768+100", "8192+100"));
  EXPECT_EQ(*pool->memory->at(16384), std::byte{99});
  ASSERT_OK(pools().leave(pool->ref));
}

// What a process keeps open without a piece must not keep memory that its owner has given up: it looks when it waits.
TEST_F(PoolBroker, AWaitingReceiverLetsGoOfWhatItsOwnerHasLeft) {
  const channel::ChannelPtr queue = make_channel();
  const auto pool = enter_pool(node());
  ASSERT_TRUE(pool);
  Gate received, left, end;
  Child receiver([&] {
    int imports = 0;
    const auto joined = node::Node::attach(*domain().control_file().duplicate(),
                                           *domain().data_file().duplicate(), std::nullopt);
    ASSERT_OK(joined);
    const auto own = channel::Channel::open((*joined)->channels(), queue->id());
    ASSERT_OK(own);
    {
      const LeasePtr piece = receive(*own);
      ASSERT_NE(open_piece(**joined, *piece, &imports), nullptr);
    }
    EXPECT_EQ(pool_files_of(::getpid()), 1U);
    received.open();
    ASSERT_TRUE(left.wait());
    // As a wait does once a second.
    EXPECT_TRUE(eventually([&] {
      (*joined)->domain().check_deaths();
      return pool_files_of(::getpid()) == 0;
    }));
    end.open();
  });
  send(queue, share(*pool, 0, 100));
  ASSERT_TRUE(received.wait());
  EXPECT_THAT(returned(*pool), ElementsAre("0+100"));
  ASSERT_OK(pools().leave(pool->ref));
  left.open();
  EXPECT_TRUE(end.wait());
  EXPECT_EQ(receiver.wait(), 0);
}

TEST_F(PoolBroker, TheBrokerDropsWhatIsGoneAtOnce) {
  const auto first = enter_pool(node());
  const auto second = enter_pool(node());
  ASSERT_TRUE(first && second);
  const ManagerPair pair = wait_for_brokers(token_);
  EXPECT_EQ(pool_files_of(pair.serves), 2U);
  EXPECT_TRUE(eventually([&] { return pool_files_of(pair.stands_by) == 2; }));
  ASSERT_OK(pools().leave(first->ref));
  // Less than a slice.
  EXPECT_TRUE(eventually([&] { return pool_files_of(pair.serves) == 1; }, 300));
  EXPECT_TRUE(eventually([&] { return pool_files_of(pair.stands_by) == 1; }, 2000));
  ASSERT_OK(pools().leave(second->ref));
}

TEST_F(PoolBroker, TheBrokerKeepsNothingElseAlive) {
  const auto pool = enter_pool(node());
  ASSERT_TRUE(pool);
  const ManagerPair pair = wait_for_brokers(token_);
  for (const pid_t pid : {pair.serves, pair.stands_by}) {
    std::error_code error;
    const std::string process = "/proc/" + std::to_string(pid);
    EXPECT_EQ(std::filesystem::read_symlink(process + "/cwd", error), "/");
    for (const auto& entry : std::filesystem::directory_iterator(process + "/fd", error)) {
      const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
      EXPECT_TRUE(target == "/dev/null" || target.starts_with("socket:") ||
                  target.starts_with("anon_inode:") || target.starts_with("/memfd:forklift"))
          << target;
    }
    EXPECT_EQ(::getsid(pid) == ::getsid(0), false);
  }
  ASSERT_OK(pools().leave(pool->ref));
}

TEST_F(PoolBroker, ThreadsThatOpenOnePoolImportItOnce) {
  const channel::ChannelPtr queue = make_channel();
  const auto pool = enter_pool(node());
  ASSERT_TRUE(pool);
  for (std::uint64_t i = 0; i < 8; ++i) send(queue, share(*pool, i * 1000, 100));
  Child receiver([&] {
    const auto joined = node::Node::attach(*domain().control_file().duplicate(),
                                           *domain().data_file().duplicate(), std::nullopt);
    ASSERT_OK(joined);
    const auto own = channel::Channel::open((*joined)->channels(), queue->id());
    ASSERT_OK(own);
    int imports = 0;
    std::vector<LeasePtr> leases;
    leases.reserve(8);
    for (int i = 0; i < 8; ++i) leases.push_back(receive(*own));
    std::vector<std::thread> threads;
    threads.reserve(leases.size());
    for (const LeasePtr& lease : leases)
      threads.emplace_back([&] { EXPECT_NE(open_piece(**joined, *lease, &imports), nullptr); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(imports, 1);
  });
  EXPECT_EQ(receiver.wait(), 0);
  domain().reap();
  EXPECT_THAT(returned(*pool), SizeIs(8));
  ASSERT_OK(pools().leave(pool->ref));
}

TEST_F(PoolBroker, AnImportThatFailsChangesNothing) {
  const auto pool = enter_pool(node());
  ASSERT_TRUE(pool);
  LeasePtr lease = share(*pool, 0, 100);
  Child child([&] {
    const auto joined = node::Node::attach(*domain().control_file().duplicate(),
                                           *domain().data_file().duplicate(), std::nullopt);
    ASSERT_OK(joined);
    const Handle handle = lease->handle();
    Result<LeasePtr> own = (*joined)->memory_pools().take_up(handle.block, handle.generation);
    ASSERT_OK(own);
    const auto opened = (*joined)->memory_pools().open(
        **own, [](const PieceInfo&, const os::Fd&) -> Result<memory_pool::Pools::Memory> {
          return Status(Code::kUnsupported, "no such device here");
        });
    EXPECT_EQ(opened.code(), Code::kUnsupported);
    EXPECT_EQ(pool_files_of(::getpid()), 0U);
    EXPECT_NE(open_piece(**joined, **own), nullptr);
  });
  EXPECT_EQ(child.wait(), 0);
  lease.reset();
  ASSERT_OK(pools().leave(pool->ref));
}

TEST_F(PoolBroker, WithoutTheProgramTheFirstPoolSaysSo) {
  ::setenv("FORKLIFT_SHM_MANAGER", "/nowhere/forklift-shm-manager", 1);
  const Result<os::Fd> file = os::create_memfd("forklift-test-pool", 4096);
  ASSERT_OK(file);
  const auto entered = pools().enter(*file->duplicate(), 4096, kDevice, nullptr);
  EXPECT_EQ(entered.code(), Code::kNotFound);
  EXPECT_THAT(entered.status().to_string(), HasSubstr("FORKLIFT_SHM_MANAGER"));
  EXPECT_EQ(pools().live_pools(), 0U);
}

}  // namespace
}  // namespace forklift::test
