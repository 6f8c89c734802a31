// The processes of the broker are killed and stopped, and so are programs that start it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <chrono>
#include <thread>

#include "os/clock.h"
#include "support/pool_fixture.h"

namespace forklift::test {
namespace {

using arena::LeasePtr;
using os::Deadline;
using testing::HasSubstr;
using testing::IsEmpty;

using PoolBrokerKill = PoolKillFixture;

TEST_F(PoolBrokerKill, TheBroker) {
  const channel::ChannelPtr queue = make_channel();
  Gate sent;
  Child owner = make_owner(queue, std::byte{3}, 5, sent);
  ASSERT_TRUE(sent.wait());
  owner.kill_now();
  ManagerPair pair = wait_for_brokers(token_);
  for (int round = 0; round < 5; ++round) {
    ::kill(pair.serves, SIGKILL);
    const LeasePtr piece = receive(queue);
    ASSERT_TRUE(piece);
    const std::byte* const at = open_piece(node(), *piece);
    ASSERT_NE(at, nullptr) << round;
    EXPECT_EQ(*at, std::byte{3});
    const ManagerPair next = wait_for_brokers(token_, pair);
    EXPECT_EQ(next.serves, pair.stands_by);
    pair = next;
  }
  expect_pool_gone();
}

TEST_F(PoolBrokerKill, TheOneWhoStandsBy) {
  const auto pool = enter_pool(node());
  ASSERT_TRUE(pool);
  const ManagerPair first = wait_for_brokers(token_);
  ::kill(first.stands_by, SIGKILL);
  const ManagerPair second = wait_for_brokers(token_, {0, first.stands_by});
  EXPECT_EQ(second.serves, first.serves);
  EXPECT_TRUE(eventually([&] { return pool_files_of(second.stands_by) == 1; }));
  ASSERT_OK(pools().leave(pool->ref));
}

TEST_F(PoolBrokerKill, BothBrokersAndTheOwnerHandsItsPoolsInAgain) {
  const auto pool = enter_pool(node());
  const auto other = enter_pool(node());
  ASSERT_TRUE(pool && other);
  const LeasePtr piece = share(*pool, 0, 100);
  kill_both_brokers(token_);
  const auto third = enter_pool(node());  // starts another broker
  ASSERT_TRUE(third);
  EXPECT_EQ(pool_files_of(wait_for_brokers(token_).serves), 3U);
  for (const auto& each : {pool, other, third}) ASSERT_OK(pools().leave(each->ref));
}

TEST_F(PoolBrokerKill, BothBrokersAndAReceiverHandsItInAgain) {
  const channel::ChannelPtr queue = make_channel();
  Gate sent;
  Child owner = make_owner(queue, std::byte{9}, 2, sent);
  ASSERT_TRUE(sent.wait());
  owner.kill_now();
  const LeasePtr piece = receive(queue);
  ASSERT_TRUE(piece);
  ASSERT_NE(open_piece(node(), *piece), nullptr);
  kill_both_brokers(token_);
  const auto own = enter_pool(node());
  ASSERT_TRUE(own);
  Child third([&] {
    const auto joined = node::Node::attach(*domain().control_file().duplicate(),
                                           *domain().data_file().duplicate(), std::nullopt);
    ASSERT_OK(joined);
    const auto mine = channel::Channel::open((*joined)->channels(), queue->id());
    ASSERT_OK(mine);
    const LeasePtr got = receive(*mine);
    ASSERT_TRUE(got);
    EXPECT_NE(open_piece(**joined, *got), nullptr);
  });
  EXPECT_EQ(third.wait(), 0);
  ASSERT_OK(pools().leave(own->ref));
}

TEST_F(PoolBrokerKill, BothBrokersAndEverybodyWhoHadItOpen) {
  const channel::ChannelPtr queue = make_channel();
  Gate sent;
  Child owner = make_owner(queue, std::byte{9}, 1, sent);
  ASSERT_TRUE(sent.wait());
  owner.kill_now();
  kill_both_brokers(token_);
  const LeasePtr piece = receive(queue);
  ASSERT_TRUE(piece);
  const std::int64_t began = os::now_ns();
  const Result<os::Fd> file = pools().descriptor(*piece);
  EXPECT_EQ(file.code(), Code::kPeerDied);
  EXPECT_THAT(file.status().to_string(), HasSubstr("is lost: the broker that had it was killed"));
  EXPECT_THAT(file.status().to_string(), HasSubstr("its owner is gone"));
  EXPECT_LT(os::now_ns() - began, std::int64_t{8'000'000'000});
}

TEST_F(PoolBrokerKill, AStoppedBroker) {
  const channel::ChannelPtr queue = make_channel();
  Gate sent;
  Child owner = make_owner(queue, std::byte{9}, 1, sent);
  ASSERT_TRUE(sent.wait());
  owner.kill_now();
  domain().reap();
  const ManagerPair pair = wait_for_brokers(token_);
  ASSERT_TRUE(stop(pair.serves));
  const LeasePtr piece = receive(queue);
  ASSERT_TRUE(piece);
  const Result<os::Fd> file = pools().descriptor(*piece);
  EXPECT_EQ(file.code(), Code::kStalled);
  EXPECT_THAT(file.status().to_string(), HasSubstr(std::to_string(pair.serves)));
  ::kill(pair.serves, SIGCONT);
  EXPECT_OK(pools().descriptor(*piece));
}

// The receiver starts another broker, and the owner, which waits for a message, notices within a second.
TEST_F(PoolBrokerKill, BothBrokersWhileTheOwnerWaits) {
  const channel::ChannelPtr queue = make_channel();
  const channel::ChannelPtr nothing = make_channel();
  Gate sent;
  const std::function<void()> wait_for_message = [&] {
    channel::Incoming message;
    (void)nothing->get(message, Deadline::after_seconds(60));
  };
  Child owner = make_owner(queue, std::byte{9}, 1, sent, wait_for_message);
  ASSERT_TRUE(sent.wait());
  kill_both_brokers(token_);
  const LeasePtr piece = receive(queue);
  ASSERT_TRUE(piece);
  const std::byte* const at = open_piece(node(), *piece);
  ASSERT_NE(at, nullptr);
  EXPECT_EQ(*at, std::byte{9});
  owner.kill_now();
}

// A stopped process that stands by is replaced when its socket is full, and holds nobody up.
TEST_F(PoolBrokerKill, AStoppedOneWhoStandsBy) {
  const ManagerPair pair = [&] {
    const auto pool = enter_pool(node());
    EXPECT_TRUE(pool);
    EXPECT_OK(pools().leave(pool->ref));
    return wait_for_brokers(token_);
  }();
  ASSERT_TRUE(stop(pair.stands_by));
  for (int i = 0; i < 1500 && brokers(token_).size() == 2; ++i) {
    const auto pool = enter_pool(node(), 4096);
    ASSERT_TRUE(pool);
    ASSERT_OK(pools().leave(pool->ref));
    if (wait_for_brokers(token_).stands_by != pair.stands_by) break;
  }
  EXPECT_NE(wait_for_brokers(token_).stands_by, pair.stands_by);
}

TEST(PoolBrokerKillTree, EverybodyAtOnce) {
  Gate ready;
  std::uint64_t* const token = static_cast<std::uint64_t*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  Child creator([&] {
    const auto node = node::Node::create();
    ASSERT_OK(node);
    *token = (*node)->domain().header().domain_id;
    const auto pool = enter_pool(**node);
    ASSERT_TRUE(pool);
    const Result<LeasePtr> lease = (*node)->memory_pools().share(pool->ref, 0, 100);
    ready.open();
    ::pause();
  });
  ASSERT_TRUE(ready.wait());
  EXPECT_THAT(brokers(*token), testing::Not(IsEmpty()));
  creator.kill_now();
  expect_no_broker(*token, 2000);
  ::munmap(token, 4096);
}

// The first pool of a domain, which starts the broker: killed at forty moments of the time that it takes.
TEST(PoolBrokerKillTree, WhileItStartsTheBroker) {
  std::uint64_t* const token = static_cast<std::uint64_t*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  Gate begins;
  for (int moment = 0; moment < 40; ++moment) {
    Child creator([&] {
      const auto node = node::Node::create();
      ASSERT_OK(node);
      *token = (*node)->domain().header().domain_id;
      begins.open();
      const auto pool = enter_pool(**node);
      ::pause();
    });
    ASSERT_TRUE(begins.wait());
    std::this_thread::sleep_for(std::chrono::microseconds(250 * moment));
    creator.kill_now();
    expect_no_broker(*token, 3000);
  }
  ::munmap(token, 4096);
}

}  // namespace
}  // namespace forklift::test
