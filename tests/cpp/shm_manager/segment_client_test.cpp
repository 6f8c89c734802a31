// Named segments outside of their domain: programs that register, and names in flight.
#include "shm_manager/registration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "shm_manager/tree.h"
#include "support/segment_fixture.h"

namespace forklift::test {
namespace {

using arena::LeasePtr;
using shm_manager::open_registered;
using shm_manager::Registered;
using testing::IsEmpty;
using testing::SizeIs;

class ShmManagerHandOverInProcess : public SegmentFixture {};

// --- programs outside of the domain

TEST(ShmManagerClient, KeepsTheNameForAsLongAsItLives) {
  Tree tree(0);
  Gate opened;
  Child client([&] {
    const Result<Registered> segment = open_registered(tree.name(), Tree::kBytes);
    ASSERT_OK(segment);
    EXPECT_TRUE(segment->is_kept());
    EXPECT_EQ(segment->size(), Tree::kBytes);
    EXPECT_EQ(segment->data()[Tree::kBytes - 1], std::byte{0x5a});
    opened.open();
    ::pause();
  });
  ASSERT_TRUE(opened.wait());
  tree.kill_creator();
  EXPECT_TRUE(tree.stays());
  client.kill_now();
  EXPECT_TRUE(tree.goes());
}

TEST(ShmManagerClient, WrongNames) {
  Tree tree(0);
  Child client([&] {
    EXPECT_EQ(open_registered(tree.name() + "0", 100).code(), Code::kNotFound);
    EXPECT_EQ(open_registered(tree.name(), Tree::kBytes + 1).code(), Code::kCorrupt);
    EXPECT_EQ(open_registered("/torch_1_2", 100).code(), Code::kInvalid);
    EXPECT_EQ(open_registered("/forklift-0123456789abcdef-1000000", 100).code(), Code::kNotFound);
  });
  EXPECT_EQ(client.wait(), 0);
}

TEST(ShmManagerClient, TheManagersDeathLeavesTheMemory) {
  Tree tree(0);
  const ManagerPair pair = wait_for_pair(tree.token());
  Gate opened;
  Gate killed;
  Child client([&] {
    const Result<Registered> segment = open_registered(tree.name(), Tree::kBytes);
    ASSERT_OK(segment);
    opened.open();
    ASSERT_TRUE(killed.wait());
    EXPECT_TRUE(eventually([&] { return !segment->is_kept(); }));
    EXPECT_EQ(segment->data()[0], std::byte{0x5a});
    // The next manager keeps the name as well.
    EXPECT_TRUE(eventually([&] {
      const Result<Registered> again = open_registered(tree.name(), Tree::kBytes);
      return again && again->is_kept();
    }));
  });
  ASSERT_TRUE(opened.wait());
  ::kill(pair.serves, SIGKILL);
  killed.open();
  EXPECT_EQ(client.wait(), 0);
  tree.kill_creator();
  EXPECT_TRUE(tree.goes());
}

TEST(ShmManagerClient, AStrayProtocolIsNoHarm) {
  Tree tree(0);
  Child client([&] {
    for (int round = 0; round < 20; ++round) {
      const Result<Registered> before = open_registered(tree.name(), Tree::kBytes);
      ASSERT_OK(before);
      EXPECT_TRUE(before->is_kept());
      const os::Fd socket(::socket(AF_UNIX, SOCK_STREAM, 0));
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      const std::string path = segment::FileName{segment::FileKind::kSocket, tree.token(), 0}.in("/dev/shm");
      std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
      ASSERT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
      const std::string junk(static_cast<std::size_t>(round) * 20 + 1, static_cast<char>(round * 13));
      ASSERT_GT(::send(socket.get(), junk.data(), junk.size(), MSG_NOSIGNAL), 0);
    }
  });
  EXPECT_EQ(client.wait(), 0);
  EXPECT_TRUE(tree.is_there());
}

// --- names in flight, outside of any message

TEST(ShmManagerHandOver, IsKeptForAMomentAfterItsSendersDeath) {
  Tree tree(0, [](node::Node& node, const LeasePtr& lease, int) {
    ASSERT_OK(node.segments().hand_over(*lease));
    ASSERT_OK(node.segments().hand_over(*lease));
  });
  tree.kill_creator();
  EXPECT_FALSE(eventually([&] { return !tree.is_there(); }, 700));
  EXPECT_TRUE(eventually([&] { return !tree.is_there(); }, 1300));
}

TEST(ShmManagerHandOver, IsFoundWithinTheMoment) {
  Tree tree(
      0, [](node::Node& node, const LeasePtr& lease, int) { ASSERT_OK(node.segments().hand_over(*lease)); });
  tree.kill_creator();
  Gate opened;
  Child client([&] {
    const Result<Registered> segment = open_registered(tree.name(), Tree::kBytes);
    ASSERT_OK(segment);
    opened.open();
    ::pause();
  });
  ASSERT_TRUE(opened.wait());
  EXPECT_TRUE(tree.stays());
  client.kill_now();
  EXPECT_TRUE(tree.goes());
}

TEST(ShmManagerHandOver, SurvivesTheManager) {
  Tree tree(
      0, [](node::Node& node, const LeasePtr& lease, int) { ASSERT_OK(node.segments().hand_over(*lease)); });
  ::kill(wait_for_pair(tree.token()).serves, SIGKILL);
  tree.kill_creator();
  EXPECT_FALSE(eventually([&] { return !tree.is_there(); }, 700));
  EXPECT_TRUE(eventually([&] { return !tree.is_there(); }, 1300));
}

TEST_F(ShmManagerHandOverInProcess, IsKeptUntilItsReceiverEnds) {
  LeasePtr lease = create(100);
  ASSERT_TRUE(lease);
  const std::string name = segments().name_of(*lease);
  ASSERT_OK(segments().hand_over(*lease));
  lease.reset();
  EXPECT_THAT(files(), SizeIs(1));
  Result<LeasePtr> found = segments().find(name, 100);
  ASSERT_OK(found);
  EXPECT_FALSE(eventually([&] { return files().empty(); }, 1500));
  *found = nullptr;
  EXPECT_TRUE(eventually([&] { return files().empty(); }, 2000));
  EXPECT_EQ(segments().find(name, 100).code(), Code::kNotFound);
}

}  // namespace
}  // namespace forklift::test
