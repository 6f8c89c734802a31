// The whole of what a process needs, made, joined and left; and that leaving is complete.
#include "node/node.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "os/proc.h"
#include "support/leak_check.h"
#include "support/node_fixture.h"

namespace forklift::channel {
namespace {

using arena::Kind;
using arena::LeasePtr;
using os::Deadline;
using test::audit_of;
using test::Child;
using test::eventually;
using test::get_text;
using test::put_text;
using test::Snapshot;
using testing::IsEmpty;

class NodeTest : public test::NodeFixture {};

TEST_F(NodeTest, DestroyingItLeavesNothing) {
  const Snapshot before = Snapshot::take();
  for (int i = 0; i < 20; ++i) {
    Result<std::unique_ptr<node::Node>> made = node::Node::create();
    ASSERT_OK(made);
    Result<ChannelPtr> channel = Channel::create((*made)->channels(), {});
    ASSERT_OK(channel);
    Result<LeasePtr> block = (*made)->arena().allocate(Kind::kPrivate, 100'000);
    ASSERT_OK(block);
    ASSERT_OK((*channel)->put({.leases = {&*block, 1}}, Deadline::never()));
    Incoming message;
    ASSERT_OK((*channel)->get(message, Deadline::never()));
    ASSERT_OK((*made)->arena().privatise(*message.leases()[0]));
    Child child([] {});  // with its at-fork handlers
    EXPECT_EQ(child.wait(), 0);
  }
  EXPECT_THAT(test::leaks_between(before, Snapshot::take()), IsEmpty());
  EXPECT_THAT(Snapshot::take().mappings, before.mappings);
}

TEST_F(NodeTest, SeveralDomainsDoNotMix) {
  Result<std::unique_ptr<node::Node>> other = node::Node::create();
  ASSERT_OK(other);
  EXPECT_NE((*other)->domain().header().domain_id, domain().header().domain_id);
  ChannelPtr here = make_channel();
  Result<ChannelPtr> there = Channel::create((*other)->channels(), {});
  ASSERT_OK(there);
  ASSERT_OK(put_text(*here, "here"));
  ASSERT_OK(put_text(**there, "there"));
  EXPECT_EQ(*get_text(**there), "there");
  EXPECT_EQ(*get_text(*here), "here");
  LeasePtr block = allocate(Kind::kShare, 5000);
  EXPECT_CODE(Code::kInvalid, (*there)->put({.leases = {&block, 1}}, Deadline::never()));
  EXPECT_TRUE(block->held());
  EXPECT_EQ(audit_of(**other), "");
}

TEST_F(NodeTest, AFailedJoinLeavesNothing) {
  const Snapshot before = Snapshot::take();
  for (int i = 0; i < 3; ++i) {
    ++domain().header().layout_version;
    Result<os::Fd> control = domain().control_file().duplicate();
    Result<os::Fd> data = domain().data_file().duplicate();
    EXPECT_CODE(Code::kVersion, node::Node::attach(*std::move(control), *std::move(data), std::nullopt));
    --domain().header().layout_version;
  }
  EXPECT_THAT(test::leaks_between(before, Snapshot::take()), IsEmpty());
  EXPECT_EQ(domain().live_slots(), 1U);
}

// A program that joins, leaves, and lives on without the domain.
int join_leave_and_stay(const std::vector<std::string>& arguments) {
  Result<std::unique_ptr<node::Node>> node = node::Node::attach(
      os::Fd(std::stoi(arguments.at(0))), os::Fd(std::stoi(arguments.at(1))), std::nullopt);
  if (!node) return 2;
  node->reset();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("forklift") != std::string::npos && line.find("memfd") != std::string::npos) return 3;
  }
  ::kill(::getpid(), SIGSTOP);
  return 0;
}
const bool kHelper = test::add_helper("leave", join_leave_and_stay);

TEST_F(NodeTest, WhoLeavesAndLivesOnIsReaped) {
  ASSERT_TRUE(kHelper);
  const int control = domain().control_file().get();
  const int data = domain().data_file().get();
  Child child =
      test::start_helper("leave", {std::to_string(control), std::to_string(data)}, std::array{control, data});
  ASSERT_TRUE(eventually([&] { return os::task_state(child.pid()) == 'T'; }));
  domain().reap();
  EXPECT_EQ(domain().live_slots(), 1U);
  child.signal(SIGCONT);
  EXPECT_EQ(child.wait(), 0);
}

// The process's own node: made once, joined again without effect, never another.
TEST_F(NodeTest, AProcessHasOneOfItsOwn) {
  Child child([&] {
    EXPECT_EQ(node::Node::existing(), nullptr);
    Result<node::Node*> first = node::Node::current();
    ASSERT_OK(first);
    EXPECT_EQ(node::Node::existing(), *first);
    EXPECT_EQ(*node::Node::current(), *first);
    const auto join = [](node::Node& node) {
      Result<os::Fd> control = node.domain().control_file().duplicate();
      Result<os::Fd> data = node.domain().data_file().duplicate();
      return node::Node::join(*std::move(control), *std::move(data), std::nullopt);
    };
    Result<node::Node*> same = join(**first);
    ASSERT_OK(same);
    EXPECT_EQ(*same, *first);
    EXPECT_EQ((*first)->domain().live_slots(), 1U);
    EXPECT_CODE(Code::kInvalid, join(node()));
    Child grandchild([&] {
      EXPECT_EQ(*node::Node::current(), *first);
      EXPECT_EQ((*first)->domain().live_slots(), 2U);
    });
    EXPECT_EQ(grandchild.wait(), 0);
  });
  EXPECT_EQ(child.wait(), 0);
  domain().reap();
}

TEST_F(NodeTest, ACloneGetsItsOwnPlaceOnFirstUse) {
  Child child([&] {
    Result<node::Node*> node = node::Node::current();
    ASSERT_OK(node);
    const domain::SlotRef mine = (*node)->domain().self();
    Result<LeasePtr> inherited = (*node)->arena().allocate(Kind::kShare, 5000);
    Result<ChannelPtr> channel = Channel::create((*node)->channels(), {});
    ASSERT_OK(inherited);
    ASSERT_OK(channel);
    const long clone = ::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
    if (clone == 0) {
      EXPECT_FALSE((*node)->domain().attached());
      EXPECT_OK(node::Node::current());
      EXPECT_TRUE((*node)->domain().attached());
      EXPECT_NE((*node)->domain().self(), mine);
      EXPECT_OK((*node)->arena().allocate(Kind::kShare, 100));
      EXPECT_FALSE((*inherited)->held());  // its parent's, which it must not pass on
      EXPECT_CODE(Code::kInvalid, (*channel)->put({.leases = {&*inherited, 1}}, Deadline::never()));
      ::_exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(static_cast<pid_t>(clone), &status, 0), clone);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE((*inherited)->held());
    EXPECT_EQ((*node)->domain().reap(), 1U);
    EXPECT_EQ((*node)->arena().stats().leases, 2U);
  });
  EXPECT_EQ(child.wait(), 0);
  domain().reap();
}

TEST_F(NodeTest, ThreadsOfACloneShareOnePlace) {
  Child child([&] {
    Result<node::Node*> node = node::Node::current();
    ASSERT_OK(node);
    const long clone = ::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
    if (clone == 0) {
      std::vector<std::thread> threads;
      for (int i = 0; i < 4; ++i) threads.emplace_back([] { EXPECT_OK(node::Node::current()); });
      for (std::thread& thread : threads) thread.join();
      EXPECT_EQ((*node)->domain().live_slots(), 2U);
      ::_exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(static_cast<pid_t>(clone), &status, 0), clone);
    EXPECT_EQ(status, 0);
  });
  EXPECT_EQ(child.wait(), 0);
  domain().reap();
}

// Descriptors are closed under us ("close everything above 2"): what is mapped goes on, what needs a
// descriptor says so.
TEST_F(NodeTest, ClosedDescriptorsAreNoticed) {
  ChannelPtr channel = make_channel();
  Child child([&] {
    LeasePtr block = allocate(Kind::kShare, 100'000);
    ::syscall(SYS_close_range, 3U, ~0U, 0U);
    std::memset(block->data(), 1, 100'000);
    EXPECT_OK(channel->put({.bytes = test::bytes_of("mapped"), .leases = {&block, 1}}, Deadline::never()));
    EXPECT_CODE(Code::kNotAttached, node().invite());
    const int other = ::open("/dev/null", O_RDWR);  // takes one of the numbers
    EXPECT_FALSE(domain().descriptors_intact());
    LeasePtr large = allocate(Kind::kShare, 300'000);
    std::memset(large->data(), 1, 300'000);
    large.reset();
    arena().trim(0);
    ::close(other);
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(*get_text(*channel), "mapped");
  domain().reap();
}

TEST_F(NodeTest, EverythingMappedIsLeftOutOfCoreDumps) {
  LeasePtr block = allocate(Kind::kPrivate, 100'000);
  ChannelPtr channel = make_channel();
  LeasePtr received = pass(channel, block);
  ASSERT_OK(arena().privatise(*received));
  Child child([] {});  // re-maps the view
  EXPECT_EQ(child.wait(), 0);
  std::ifstream smaps("/proc/self/smaps");
  bool ours = false;
  int mappings = 0;
  for (std::string line; std::getline(smaps, line);) {
    if (line.find("memfd:forklift") != std::string::npos) {
      ours = true;
      ++mappings;
    } else if (line.starts_with("VmFlags:")) {
      if (ours) {
        EXPECT_THAT(line + " ", testing::HasSubstr(" dd "));
      }
      ours = false;
    }
  }
  EXPECT_GE(mappings, 4);
  received.reset();
  domain().reap();
}

}  // namespace
}  // namespace forklift::channel
