// Named segments outside of their domain: programs that register, and names in flight.
#include "shm_manager/registration.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "shm_manager/clients.h"
#include "shm_manager/tree.h"
#include "support/segment_fixture.h"

namespace forklift::test {
namespace {

using arena::LeasePtr;
using shm_manager::open_registered;
using shm_manager::Registered;
using shm_manager::Request;
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

// --- files that torch made itself

os::Fd connect_to(std::uint64_t token) {
  os::Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = segment::FileName{segment::FileKind::kSocket, token}.in("/dev/shm");
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return socket;
}

std::string ask(const os::Fd& socket, const std::string& name, bool free = false) {
  Request request;
  request.pid = ::getpid();
  request.free = free ? 1 : 0;
  std::copy(name.begin(), name.end(), request.name.begin());
  EXPECT_EQ(::send(socket.get(), &request, sizeof request, MSG_NOSIGNAL), ssize_t{sizeof request});
  if (free) return "";
  char said[2] = {};
  EXPECT_EQ(::recv(socket.get(), said, 2, MSG_WAITALL), 2);
  return {said, 2};
}

bool make_file(const std::string& name) {
  return os::Fd(::shm_open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)).valid();
}

bool there(const std::string& name) { return ::access(("/dev/shm" + name).c_str(), F_OK) == 0; }

TEST(ShmManagerClient, RegistersFilesOfTorchs) {
  Tree tree(0);
  const std::string mark = "/torch_" + std::to_string(::getpid()) + "_1789_";
  const std::string kept = mark + "0";
  const std::string freed = mark + "1";
  const std::string other = "/forklift_test_" + std::to_string(::getpid());
  for (const std::string& name : {kept, freed, other}) ASSERT_TRUE(make_file(name));
  os::Fd first = connect_to(tree.token());
  os::Fd second = connect_to(tree.token());
  EXPECT_EQ(ask(first, kept), "OK");
  EXPECT_EQ(ask(first, freed), "OK");
  EXPECT_EQ(ask(second, freed), "OK");
  EXPECT_EQ(ask(second, other), "NO");
  EXPECT_EQ(ask(second, "/torch_1/../x"), "NO");
  EXPECT_EQ(ask(second, tree.name()), "OK");  // one of ours on the same connection

  // The last user of a file removes it, and somebody else's of that name is not touched afterwards.
  ask(first, freed, true);
  ::shm_unlink(freed.c_str());
  ask(second, freed, true);
  EXPECT_EQ(ask(second, kept), "OK");  // all before is done when this is answered
  ASSERT_TRUE(make_file(freed));

  first = os::Fd();
  EXPECT_EQ(ask(second, kept), "OK");
  EXPECT_TRUE(there(kept));  // in flight to whoever is connected
  second = os::Fd();
  EXPECT_TRUE(eventually([&] { return !there(kept); }));
  EXPECT_TRUE(there(freed));
  EXPECT_TRUE(there(other));
  ::shm_unlink(freed.c_str());
  ::shm_unlink(other.c_str());
}

TEST(ShmManagerClient, AStrayProtocolIsNoHarm) {
  Tree tree(0);
  Child client([&] {
    for (int round = 0; round < 20; ++round) {
      const Result<Registered> before = open_registered(tree.name(), Tree::kBytes);
      ASSERT_OK(before);
      EXPECT_TRUE(before->is_kept());
      const os::Fd socket = connect_to(tree.token());
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
