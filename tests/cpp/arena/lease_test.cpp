// Leases of one process on one object: they share a row of the ledger until one of them is passed on.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "arena/arena.h"
#include "support/node_fixture.h"

namespace forklift::arena {
namespace {

using test::audit_of;
using test::Child;

class LeaseTest : public test::NodeFixture {
 protected:
  std::uint64_t rows() { return arena().stats().leases; }
  LeasePtr another(const LeasePtr& lease) {
    Result<LeasePtr> more = arena().another(lease);
    EXPECT_OK(more);
    return *std::move(more);
  }
};

TEST_F(LeaseTest, AnotherRightNeedsNoRow) {
  LeasePtr first = allocate(Kind::kShare, 5000);
  std::vector<LeasePtr> more;
  for (int i = 0; i < 5; ++i) more.push_back(another(i % 2 ? first : more.empty() ? first : more.back()));
  EXPECT_EQ(rows(), 1U);
  EXPECT_EQ(arena().holders(*first), 6U);
  EXPECT_EQ(arena().holders(*more[2]), 6U);
  more.erase(more.begin() + 2);
  EXPECT_EQ(arena().holders(*first), 5U);
  first.reset();
  more.resize(1);
  EXPECT_EQ(arena().holders(*more[0]), 1U);
  EXPECT_EQ(arena().stats().held_blocks, 1U);
  EXPECT_EQ(audit_of(node()), "");
  more.clear();
  EXPECT_EQ(arena().stats().held_blocks, 0U);
  EXPECT_EQ(rows(), 0U);
}

TEST_F(LeaseTest, OneOfSeveralIsPassedOnAndTheOthersStay) {
  const LeasePtr first = allocate(Kind::kShare, 5000);
  std::memset(first->data(), 7, 5000);
  const LeasePtr second = another(first);
  const LeasePtr third = another(first);
  const channel::ChannelPtr channel = make_channel();
  const std::uint64_t before = rows();
  LeasePtr received = pass(channel, first);
  ASSERT_TRUE(received);
  EXPECT_FALSE(first->held());
  EXPECT_TRUE(second->held());
  EXPECT_TRUE(third->held());
  EXPECT_EQ(rows(), before + 1);
  EXPECT_EQ(arena().holders(*second), 3U);  // its own row's two, and what was received
  EXPECT_EQ(audit_of(node()), "");
  LeasePtr again = pass(channel, second);
  again.reset();
  EXPECT_TRUE(third->held());
  EXPECT_EQ(third->data()[4999], std::byte{7});
  received.reset();
  EXPECT_EQ(arena().holders(*third), 1U);
  EXPECT_EQ(audit_of(node()), "");
}

TEST_F(LeaseTest, TheLastOfSeveralIsPassedOnAsItIs) {
  const LeasePtr first = allocate(Kind::kShare, 5000);
  LeasePtr second = another(first);
  const std::uint32_t row = first->handle().lease;
  second.reset();
  EXPECT_OK(arena().separate(first));
  EXPECT_EQ(first->handle().lease, row);
  EXPECT_EQ(rows(), 1U);
}

TEST_F(LeaseTest, ALeaseThatIsToBePassedOnIsNotShared) {
  const LeasePtr first = allocate(Kind::kShare, 5000);
  EXPECT_OK(arena().separate(first));
  LeasePtr second = another(first);
  EXPECT_EQ(rows(), 2U);
  EXPECT_NE(first->handle().lease, second->handle().lease);
  const LeasePtr third = another(second);  // which nobody has promised
  EXPECT_EQ(rows(), 2U);
  second.reset();
  EXPECT_EQ(rows(), 2U);
  EXPECT_EQ(audit_of(node()), "");
}

TEST_F(LeaseTest, AMessageMayCarrySeveralOfOneBlock) {
  const LeasePtr first = allocate(Kind::kShare, 5000);
  const std::vector<LeasePtr> three = {first, another(first), another(first)};
  const channel::ChannelPtr channel = make_channel();
  ASSERT_OK(channel->put({.leases = three}, os::Deadline::after_seconds(2)));
  EXPECT_EQ(audit_of(node()), "");
  channel::Incoming message;
  ASSERT_OK(channel->get(message, os::Deadline::after_seconds(2)));
  EXPECT_EQ(message.leases().size(), 3U);
  EXPECT_EQ(audit_of(node()), "");
}

TEST_F(LeaseTest, AChildSharesAsItsParentDoes) {
  LeasePtr first = allocate(Kind::kShare, 5000);
  LeasePtr second = another(first);
  LeasePtr third = another(second);
  test::Gate go;
  Child child([&] {
    ASSERT_TRUE(go.wait());
    EXPECT_EQ(arena().holders(*second), 3U);  // the parent's are gone
    first.reset();
    EXPECT_TRUE(second->held());
    EXPECT_OK(arena().separate(second));
    EXPECT_EQ(rows(), 2U);
    second.reset();
    third.reset();
    EXPECT_EQ(rows(), 0U);
  });
  EXPECT_EQ(rows(), 2U);
  EXPECT_EQ(audit_of(node()), "");
  first.reset();
  second.reset();
  third.reset();
  EXPECT_EQ(rows(), 1U);
  go.open();
  EXPECT_EQ(child.wait(), 0);
}

// Threads take others, pass them on, separate and drop, all from one lease.
TEST_F(LeaseTest, ThreadsShareOneRow) {
  const LeasePtr root = allocate(Kind::kShare, 5000);
  const channel::ChannelPtr channel = make_channel();
  const auto work = [&](unsigned seed) {
    LeasePtr mine = another(root);
    channel::Incoming message;
    for (int round = 0; round < 3000; ++round) {
      LeasePtr more = another(seed % 2 ? mine : root);
      switch ((static_cast<unsigned>(round) + seed) % 4) {
        case 0:
          EXPECT_OK(channel->put({.leases = {&more, 1}}, os::Deadline::after_seconds(10)));
          EXPECT_OK(channel->get(message, os::Deadline::after_seconds(10)));
          break;
        case 1: EXPECT_OK(arena().separate(more)); break;
        case 2: std::swap(mine, more); break;
        default: break;
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena().holders(*root), 1U);
  EXPECT_EQ(rows(), 2U);  // the block's and the channel's
  EXPECT_EQ(audit_of(node()), "");
}

}  // namespace
}  // namespace forklift::arena
