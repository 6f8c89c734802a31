// Owners, receivers and senders of pieces are killed, and what becomes of pools and pieces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <random>
#include <thread>

#include "support/pool_fixture.h"

namespace forklift::test {
namespace {

using arena::LeasePtr;
using os::Deadline;
using testing::SizeIs;

using MemoryPoolKill = PoolKillFixture;

TEST_F(MemoryPoolKill, TheOwnerWithMessagesInFlight) {
  const channel::ChannelPtr queue = make_channel();
  Gate sent;
  Child owner = make_owner(queue, std::byte{7}, 2, sent);
  ASSERT_TRUE(sent.wait());
  owner.kill_now();
  domain().reap();
  EXPECT_EQ(pools().live_pieces(), 2U);
  EXPECT_EQ(audit_of(node()), "");
  {
    const LeasePtr piece = receive(queue);
    ASSERT_TRUE(piece);
    const std::byte* const at = open_piece(node(), *piece);
    ASSERT_NE(at, nullptr);
    EXPECT_EQ(*at, std::byte{7});
    // On to a third process, of which the owner has never heard.
    const channel::ChannelPtr onward = make_channel();
    send(onward, *arena().another(piece));
    Child third([&] {
      const auto joined = node::Node::attach(*domain().control_file().duplicate(),
                                             *domain().data_file().duplicate(), std::nullopt);
      ASSERT_OK(joined);
      const auto own = channel::Channel::open((*joined)->channels(), onward->id());
      ASSERT_OK(own);
      const LeasePtr got = receive(*own);
      ASSERT_TRUE(got);
      const std::byte* const there = open_piece(**joined, *got);
      ASSERT_NE(there, nullptr);
      EXPECT_EQ(*there, std::byte{7});
    });
    EXPECT_EQ(third.wait(), 0);
  }
  EXPECT_EQ(pools().live_pools(), 1U);
  EXPECT_TRUE(receive(queue));  // and dropped at once
  expect_pool_gone();
}

TEST_F(MemoryPoolKill, TheOwnerWithoutPieces) {
  const channel::ChannelPtr queue = make_channel();
  Gate sent;
  Child owner = make_owner(queue, std::byte{7}, 0, sent);
  ASSERT_TRUE(sent.wait());
  EXPECT_EQ(pools().live_pools(), 1U);
  owner.kill_now();
  // Nobody but the broker looks.
  EXPECT_TRUE(eventually([&] { return pools().live_pools() == 0; }, 2000));
  expect_pool_gone();
}

TEST_F(MemoryPoolKill, ReceiversThatHoldPieces) {
  const channel::ChannelPtr queue = make_channel();
  const auto pool = enter_pool(node());
  ASSERT_TRUE(pool);
  send(queue, share(*pool, 0, 100));
  send(queue, share(*pool, 4096, 100));
  Gate got;
  const auto hold = [&] {
    const LeasePtr piece = receive(queue);
    ASSERT_TRUE(piece);
    ASSERT_NE(open_piece(node(), *piece), nullptr);
    got.open();
    ::pause();
  };
  Child first(hold);
  Child second(hold);
  ASSERT_TRUE(got.wait() && got.wait());
  EXPECT_FALSE(pools().has_returned(pool->ref));
  first.kill_now();
  EXPECT_TRUE(eventually([&] { return pools().has_returned(pool->ref); }, 2000));
  EXPECT_THAT(returned(*pool), SizeIs(1));
  second.kill_now();
  EXPECT_TRUE(eventually([&] { return pools().has_returned(pool->ref); }, 2000));
  EXPECT_THAT(returned(*pool), SizeIs(1));
  ASSERT_OK(pools().leave(pool->ref));
}

TEST_F(MemoryPoolKill, AProcessThatForwardsWithMessagesInFlight) {
  const channel::ChannelPtr in = make_channel();
  const channel::ChannelPtr out = make_channel();
  const auto pool = enter_pool(node());
  ASSERT_TRUE(pool);
  *pool->memory->at(0) = std::byte{5};
  send(in, share(*pool, 0, 100));
  Gate sent;
  Child middle([&] {
    LeasePtr piece = receive(in);
    ASSERT_TRUE(piece);
    send(out, *arena().another(piece));
    sent.open();
    ::pause();
  });
  ASSERT_TRUE(sent.wait());
  middle.kill_now();
  domain().reap();
  EXPECT_FALSE(pools().has_returned(pool->ref));
  {
    const LeasePtr piece = receive(out);
    ASSERT_TRUE(piece);
    EXPECT_EQ(open_piece(node(), *piece), pool->memory->at(0));
  }
  EXPECT_THAT(returned(*pool), SizeIs(1));
  ASSERT_OK(pools().leave(pool->ref));
}

// Owners send pieces to takers through one queue; some of each, and now and then one of the broker's processes, are
// killed at any moment.
TEST_F(MemoryPoolKill, AStorm) {
  const channel::ChannelPtr queue = make_channel({.capacity = 8});
  {
    const auto pool = enter_pool(node());
    ASSERT_TRUE(pool);
    ASSERT_OK(pools().leave(pool->ref));
  }
  const auto make = [&] {
    for (;;) {
      const auto pool = enter_pool(node(), 65536);
      ASSERT_TRUE(pool);
      for (std::uint64_t i = 0; i < 64; ++i) {
        const std::uint64_t offset = i % 16 * 4096;
        Result<LeasePtr> lease = pools().share(pool->ref, offset, 100);
        ASSERT_OK(lease);
        std::memcpy(pool->memory->at(offset), &offset, sizeof offset);
        ASSERT_OK(queue->put({.leases = {&*lease, 1}}, Deadline::never()));
        lease->reset();
        ASSERT_OK(pools().visit_returned(pool->ref, [](std::uint64_t, std::uint64_t) {}));
      }
      ASSERT_OK(pools().leave(pool->ref));
    }
  };
  const auto take = [&] {
    for (;;) {
      const LeasePtr piece = receive(queue, 1e9);
      ASSERT_TRUE(piece);
      const std::byte* const at = open_piece(node(), *piece);
      ASSERT_NE(at, nullptr);
      std::uint64_t offset = 0;
      std::memcpy(&offset, at, sizeof offset);
      ASSERT_EQ(offset, piece->handle().offset);
    }
  };
  std::vector<Child> children(4);
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const std::size_t victim = random() % children.size();
    children[victim].kill_now();
    children[victim] = victim % 2 == 0 ? Child(make) : Child(take);
    if (round % 20 == 10) {
      const ManagerPair pair = wait_for_brokers(token_);
      ::kill(random() % 2 == 0 ? pair.serves : pair.stands_by, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 20));
  }
  // One whose check failed has left by itself.
  for (Child& child : children) {
    child.signal(SIGKILL);
    EXPECT_EQ(child.wait(), -SIGKILL);
  }
  for (;;) {
    channel::Incoming message;
    if (!queue->get(message, Deadline::after_ns(0))) break;
    ASSERT_THAT(message.leases(), SizeIs(1));
    EXPECT_NE(open_piece(node(), *message.leases()[0]), nullptr);
  }
  expect_pool_gone();
}

}  // namespace
}  // namespace forklift::test
