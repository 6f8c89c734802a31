// The whole of what a process needs, made, joined and left; and that leaving is complete.
#include "channel/hub.h"

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
#include "support/hub_fixture.h"
#include "support/leak_check.h"

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

class HubTest : public test::HubFixture {};

TEST_F(HubTest, DestroyingItLeavesNothing) {
  const Snapshot before = Snapshot::take();
  for (int i = 0; i < 20; ++i) {
    Result<std::unique_ptr<Hub>> made = Hub::create();
    ASSERT_OK(made);
    Result<ChannelPtr> channel = Channel::create(**made, {});
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

TEST_F(HubTest, SeveralDomainsDoNotMix) {
  Result<std::unique_ptr<Hub>> other = Hub::create();
  ASSERT_OK(other);
  EXPECT_NE((*other)->domain().header().domain_id, domain().header().domain_id);
  ChannelPtr here = make_channel();
  Result<ChannelPtr> there = Channel::create(**other, {});
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

TEST_F(HubTest, AFailedJoinLeavesNothing) {
  const Snapshot before = Snapshot::take();
  for (int i = 0; i < 3; ++i) {
    ++domain().header().layout_version;
    Result<os::Fd> control = domain().control_file().duplicate();
    Result<os::Fd> data = domain().data_file().duplicate();
    EXPECT_CODE(Code::kVersion, Hub::attach(*std::move(control), *std::move(data), std::nullopt));
    --domain().header().layout_version;
  }
  EXPECT_THAT(test::leaks_between(before, Snapshot::take()), IsEmpty());
  EXPECT_EQ(domain().live_slots(), 1U);
}

// A program that joins, leaves, and lives on without the domain.
int join_leave_and_stay(const std::vector<std::string>& arguments) {
  Result<std::unique_ptr<Hub>> hub =
      Hub::attach(os::Fd(std::stoi(arguments.at(0))), os::Fd(std::stoi(arguments.at(1))), std::nullopt);
  if (!hub) return 2;
  hub->reset();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("forklift") != std::string::npos && line.find("memfd") != std::string::npos) return 3;
  }
  ::kill(::getpid(), SIGSTOP);
  return 0;
}
const bool kHelper = test::add_helper("leave", join_leave_and_stay);

TEST_F(HubTest, WhoLeavesAndLivesOnIsReaped) {
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

// The process's own hub: made once, joined again without effect, never another.
TEST_F(HubTest, AProcessHasOneOfItsOwn) {
  Child child([&] {
    EXPECT_EQ(Hub::existing(), nullptr);
    Result<Hub*> first = Hub::current();
    ASSERT_OK(first);
    EXPECT_EQ(Hub::existing(), *first);
    EXPECT_EQ(*Hub::current(), *first);
    const auto join = [](Hub& hub) {
      Result<os::Fd> control = hub.domain().control_file().duplicate();
      Result<os::Fd> data = hub.domain().data_file().duplicate();
      return Hub::join(*std::move(control), *std::move(data), std::nullopt);
    };
    Result<Hub*> same = join(**first);
    ASSERT_OK(same);
    EXPECT_EQ(*same, *first);
    EXPECT_EQ((*first)->domain().live_slots(), 1U);
    EXPECT_CODE(Code::kInvalid, join(hub()));
    Child grandchild([&] {
      EXPECT_EQ(*Hub::current(), *first);
      EXPECT_EQ((*first)->domain().live_slots(), 2U);
    });
    EXPECT_EQ(grandchild.wait(), 0);
  });
  EXPECT_EQ(child.wait(), 0);
  domain().reap();
}

TEST_F(HubTest, ACloneGetsItsOwnPlaceOnFirstUse) {
  Child child([&] {
    Result<Hub*> hub = Hub::current();
    ASSERT_OK(hub);
    const domain::SlotRef mine = (*hub)->domain().self();
    Result<LeasePtr> inherited = (*hub)->arena().allocate(Kind::kShare, 5000);
    Result<ChannelPtr> channel = Channel::create(**hub, {});
    ASSERT_OK(inherited);
    ASSERT_OK(channel);
    const long clone = ::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
    if (clone == 0) {
      EXPECT_FALSE((*hub)->domain().attached());
      EXPECT_OK(Hub::current());
      EXPECT_TRUE((*hub)->domain().attached());
      EXPECT_NE((*hub)->domain().self(), mine);
      EXPECT_OK((*hub)->arena().allocate(Kind::kShare, 100));
      EXPECT_FALSE((*inherited)->held());  // its parent's, which it must not pass on
      EXPECT_CODE(Code::kInvalid, (*channel)->put({.leases = {&*inherited, 1}}, Deadline::never()));
      ::_exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(static_cast<pid_t>(clone), &status, 0), clone);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE((*inherited)->held());
    EXPECT_EQ((*hub)->domain().reap(), 1U);
    EXPECT_EQ((*hub)->arena().stats().leases, 2U);
  });
  EXPECT_EQ(child.wait(), 0);
  domain().reap();
}

TEST_F(HubTest, ThreadsOfACloneShareOnePlace) {
  Child child([&] {
    Result<Hub*> hub = Hub::current();
    ASSERT_OK(hub);
    const long clone = ::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
    if (clone == 0) {
      std::vector<std::thread> threads;
      for (int i = 0; i < 4; ++i) threads.emplace_back([] { EXPECT_OK(Hub::current()); });
      for (std::thread& thread : threads) thread.join();
      EXPECT_EQ((*hub)->domain().live_slots(), 2U);
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
TEST_F(HubTest, ClosedDescriptorsAreNoticed) {
  ChannelPtr channel = make_channel();
  Child child([&] {
    LeasePtr block = allocate(Kind::kShare, 100'000);
    ::syscall(SYS_close_range, 3U, ~0U, 0U);
    std::memset(block->data(), 1, 100'000);
    EXPECT_OK(channel->put({.bytes = test::bytes_of("mapped"), .leases = {&block, 1}}, Deadline::never()));
    EXPECT_CODE(Code::kNotAttached, hub().invite());
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

TEST_F(HubTest, EverythingMappedIsLeftOutOfCoreDumps) {
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
