// What fork does to a domain: the child's own slot, its second right to every lease, and all the ways in
// which a fork fails, is half a fork, or is none.
#include "domain/fork.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <set>
#include <thread>

#include "os/clock.h"
#include "os/mapping.h"
#include "os/memfd.h"
#include "os/proc.h"
#include "support/node_fixture.h"

namespace forklift::domain {
namespace {

using arena::Kind;
using arena::LeasePtr;
using channel::ChannelPtr;
using channel::Incoming;
using node::Node;
using os::Deadline;
using test::audit_of;
using test::Child;
using test::eventually;
using test::Gate;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr unsigned kManyProcesses = 128;  // a process is dear under a sanitizer
#else
constexpr unsigned kManyProcesses = 1024;
#endif

class ForkTest : public test::NodeFixture {
 protected:
  void TearDown() override {
    EXPECT_TRUE(eventually([&] { return domain().reap(), domain().live_slots() == 1; }));
    NodeFixture::TearDown();
  }
  std::uint64_t leases() { return arena().stats().leases; }
};

TEST_F(ForkTest, AChildHasASlotOfItsOwn) {
  const SlotRef mine = domain().self();
  Gate ready;
  Gate go;
  Child child([&] {
    EXPECT_TRUE(domain().attached());
    EXPECT_NE(domain().self(), mine);
    EXPECT_EQ(domain().pid_of(domain().self()), static_cast<std::uint64_t>(::getpid()));
    EXPECT_FALSE(domain().is_dead(mine));
    ready.open();
    EXPECT_TRUE(go.wait());
  });
  ASSERT_TRUE(ready.wait());
  EXPECT_TRUE(domain().attached());
  EXPECT_EQ(domain().self(), mine);
  EXPECT_EQ(domain().live_slots(), 2U);
  EXPECT_EQ(domain().reap(), 0U);
  go.open();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(domain().reap(), 1U);
}

TEST_F(ForkTest, MoreThanAThousandProcessesLiveAtOnce) {
  const rlim_t descriptors = 256;  // the number of processes must not be one of descriptors
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  const rlimit few{descriptors, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  ChannelPtr reports = make_channel();
  Gate go;
  std::vector<Child> children;
  for (unsigned i = 0; i < kManyProcesses; ++i) {
    children.emplace_back([&] {
      const std::uint32_t index = domain().self().index;
      const Status sent =
          reports->put({.bytes = std::as_bytes(std::span(&index, 1))}, Deadline::after_seconds(60));
      if (!sent || !domain().attached()) ::_exit(2);
      ::_exit(go.wait(60'000) ? 0 : 3);
    });
  }
  std::set<std::uint32_t> slots{domain().self().index};
  Incoming message;
  for (unsigned i = 0; i < kManyProcesses; ++i) {
    ASSERT_OK(reports->get(message, Deadline::after_seconds(60)));
    std::uint32_t index = 0;
    ASSERT_EQ(message.bytes().size(), sizeof index);
    std::memcpy(&index, message.bytes().data(), sizeof index);
    slots.insert(index);
  }
  EXPECT_EQ(slots.size(), kManyProcesses + 1);
  EXPECT_EQ(domain().live_slots(), kManyProcesses + 1);
  EXPECT_EQ(domain().reap(), 0U);
  EXPECT_EQ(audit_of(node()), "");
  EXPECT_EQ(leases(), kManyProcesses + 1);  // each child holds the channel
  for (unsigned i = 0; i < kManyProcesses; i += 2) children[i].kill_now();
  EXPECT_TRUE(eventually([&] { return domain().reap(), domain().live_slots() == kManyProcesses / 2 + 1; }));
  go.open(kManyProcesses);
  for (unsigned i = 1; i < kManyProcesses; i += 2) EXPECT_EQ(children[i].wait(), 0);
  domain().reap();
  EXPECT_EQ(domain().live_slots(), 1U);
  EXPECT_EQ(leases(), 1U);
  EXPECT_EQ(audit_of(node()), "");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
}

TEST_F(ForkTest, AChildHoldsWhatItsParentHeld) {
  LeasePtr block = allocate(Kind::kShare, 100'000);
  std::memset(block->data(), 7, 100'000);
  Gate go;
  Child child([&] {
    EXPECT_TRUE(block->held());
    EXPECT_TRUE(go.wait());
    EXPECT_EQ(block->data()[99'999], std::byte{7});
    block.reset();  // now nobody holds it
    EXPECT_EQ(arena().stats().held_blocks, 0U);
  });
  EXPECT_EQ(leases(), 2U);
  block.reset();
  EXPECT_EQ(arena().stats().held_blocks, 1U);
  LeasePtr other = allocate(Kind::kShare, 100'000);  // must not be the same memory
  std::memset(other->data(), 9, 100'000);
  other.reset();
  go.open();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(leases(), 0U);
}

TEST_F(ForkTest, AGrandchildKeepsABlockAliveAfterParentAndGrandparent) {
  LeasePtr block = allocate(Kind::kShare, 5000);
  std::memset(block->data(), 5, 5000);
  Gate go;
  Gate ready;
  Child child([&] {
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      ready.open();
      const bool good =
          go.wait() && domain().attached() && block->held() && block->data()[4999] == std::byte{5};
      if (good) ready.open();
      ::_exit(good ? 0 : 1);
    }
  });
  ASSERT_TRUE(ready.wait());
  EXPECT_EQ(child.wait(), 0);
  domain().reap();  // the fork itself reaps a child that was faster than its parent
  EXPECT_EQ(domain().live_slots(), 2U);
  block.reset();
  EXPECT_EQ(leases(), 1U);
  go.open();
  EXPECT_TRUE(ready.wait());
  EXPECT_TRUE(eventually([&] { return domain().reap(), leases() == 0; }));
}

// fork fails after the prepare step: nothing of the child that never was may stay.
TEST_F(ForkTest, AForkThatFailsLeavesNothing) {
  LeasePtr block = allocate(Kind::kShare, 5000);
  ChannelPtr channel = make_channel();
  Child child([&] {
    sock_filter refuse_clone[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
    };
    const sock_fprog program{std::size(refuse_clone), refuse_clone};
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) ::_exit(77);
    const std::uint64_t before = leases();
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(::fork(), -1);
      EXPECT_EQ(errno, EAGAIN);
    }
    EXPECT_EQ(domain().live_slots(), 2U);
    EXPECT_EQ(leases(), before);
    EXPECT_EQ(audit_of(node()), "");
    EXPECT_OK(test::put_text(*channel, "still good"));
  });
  const int code = child.wait();
  if (code == 77) GTEST_SKIP() << "no seccomp filters here";
  EXPECT_EQ(code, 0);
  EXPECT_EQ(*test::get_text(*channel), "still good");
}

TEST_F(ForkTest, AChildInAnotherPidNamespaceIsNotAttached) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to make a namespace";
  Child outer([&] {
    if (::unshare(CLONE_NEWPID) != 0) _exit(77);
    Gate go;
    Child first([&] {  // whose children become the namespace's first process's when their parent is gone
      EXPECT_FALSE(domain().attached());
      EXPECT_THAT(domain().not_attached().what(), testing::HasSubstr("in another pid namespace"));
      EXPECT_TRUE(go.wait());
    });
    Child second([&] {
      EXPECT_FALSE(domain().attached());
      EXPECT_EQ(::getppid(), 0);
      const Child child([&] { EXPECT_FALSE(domain().attached()); });
    });
    EXPECT_EQ(second.wait(), 0);
    go.open();
    EXPECT_EQ(first.wait(), 0);
  });
  const int code = outer.wait();
  if (code == 77) GTEST_SKIP() << "no namespaces here";
  EXPECT_EQ(code, 0);
}

TEST_F(ForkTest, AProcessThatBeganAfterTheSlotWasTakenIsAnotherOne) {
  auto* slots = reinterpret_cast<Slot*>(domain().region(Region::kSlots).data());
  const SlotRef self = domain().self();
  // Nobody holds its byte, as of a process that has closed its descriptors. Its pid is this process's.
  const SlotRef closed{self.index + 1, self.generation};
  Slot& slot = slots[closed.index];
  ASSERT_EQ(slot.state.load() & 0xff, 0u);
  const std::uint64_t before = slot.state.load();
  slot.pid = slots[self.index].pid.load();
  slot.state = slots[self.index].state.load();
  slot.joined = slots[self.index].joined.load();
  EXPECT_FALSE(domain().is_dead(closed));
  slot.joined = os::ticks_since_boot();
  EXPECT_FALSE(domain().is_dead(closed));
  slot.joined = os::start_time(::getpid());
  EXPECT_FALSE(domain().is_dead(closed));
  slot.joined = os::start_time(::getpid()) - 1;
  EXPECT_TRUE(domain().is_dead(closed));
  slot.state = before;
  slot.pid = 0;
}

TEST_F(ForkTest, WithoutAFreeSlotAForkSucceedsAndTheChildSaysSo) {
  LeasePtr block = allocate(Kind::kShare, 5000);
  ChannelPtr channel = make_channel();
  // Taken by this very process, as far as anybody can tell.
  auto* slots = reinterpret_cast<Slot*>(domain().region(Region::kSlots).data());
  const std::uint64_t taken = slots[domain().self().index].state.load();
  for (std::uint32_t i = 0; i < kSlotCount; ++i) {
    if (i == domain().self().index) continue;
    slots[i].pid = slots[domain().self().index].pid.load();
    slots[i].joined = slots[domain().self().index].joined.load();
    slots[i].state = taken;
  }
  Gate ready;
  Gate go;
  Child child([&] {
    EXPECT_FALSE(domain().attached());
    EXPECT_FALSE(block->held());
    EXPECT_CODE(Code::kNotAttached, arena().allocate(Kind::kShare, 64));
    EXPECT_CODE(Code::kNotAttached, arena().another(block));
    EXPECT_CODE(Code::kNotAttached, test::put_text(*channel, "no"));
    EXPECT_CODE(Code::kNotAttached, test::get_text(*channel, 0));
    EXPECT_CODE(Code::kNotAttached, domain().reserve_child());
    EXPECT_EQ(domain().reap(), 0U);
    const Child grandchild([&] { EXPECT_FALSE(domain().attached()); });
    ready.open();
    EXPECT_TRUE(go.wait());
    EXPECT_OK(domain().try_attach());
    EXPECT_OK(arena().allocate(Kind::kShare, 64));
    EXPECT_CODE(Code::kInvalid, arena().another(block));  // its parent's still, not its own
  });
  ASSERT_TRUE(ready.wait());
  for (std::uint32_t i = 0; i < kSlotCount; ++i) {
    if (i != domain().self().index) slots[i].state = 0;
  }
  go.open();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(domain().reap(), 1U);
  EXPECT_EQ(leases(), 2U);
  EXPECT_TRUE(block->held());
}

TEST_F(ForkTest, WithoutAFreeDescriptorAForkSucceedsAndTheChildAttachesLater) {
  LeasePtr block = allocate(Kind::kShare, 5000);
  // The sanitizer asks whether an object's memory is readable by writing it into a pipe, once for each type.
  EXPECT_CODE(Code::kSystem, Status::system("none", EMFILE, "to have made one"));
  Child child([&] {
    rlimit old{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
    const rlimit none{0, old.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    Child grandchild([&] {
      EXPECT_FALSE(domain().attached());
      const Status status = domain().try_attach();
      EXPECT_CODE(Code::kSystem, status);
      EXPECT_EQ(status.errno_value(), EMFILE);
      ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
      EXPECT_OK(domain().try_attach());
      EXPECT_OK(arena().allocate(Kind::kShare, 64));
    });
    EXPECT_EQ(grandchild.wait(), 0);
    EXPECT_TRUE(domain().attached());
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(ForkTest, ACloneBehindForksBackTouchesNothingOfItsParents) {
  LeasePtr block = allocate(Kind::kShare, 5000);
  ChannelPtr channel = make_channel();
  Child child([&] {
    const long clone = ::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
    if (clone == 0) {
      EXPECT_CODE(Code::kNotAttached, arena().allocate(Kind::kShare, 64));
      EXPECT_CODE(Code::kNotAttached, test::put_text(*channel, "no"));
      EXPECT_CODE(Code::kNotAttached, channel::Channel::create(node().channels(), {}));
      block.reset();  // the right is its parent's
      channel.reset();
      ::_exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(static_cast<pid_t>(clone), &status, 0), clone);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(leases(), 4U);
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(eventually([&] { return domain().reap(), leases() == 2; })) << leases() << " leases";
}

TEST_F(ForkTest, ExecGivesLeasesBackWhileTheProgramRuns) {
  test::add_helper("pause", [](const std::vector<std::string>&) { return ::pause(); });
  LeasePtr block = allocate(Kind::kShare, 5000);
  Child child = test::start_helper("pause", {});
  EXPECT_TRUE(eventually([&] { return domain().reap(), domain().live_slots() == 1; }));
  EXPECT_EQ(::kill(child.pid(), 0), 0);
  EXPECT_EQ(leases(), 1U);
}

TEST_F(ForkTest, PosixSpawnNeedsNoSlot) {
  char program[] = "/bin/true";
  char* argv[] = {program, nullptr};
  pid_t pid = 0;
  ASSERT_EQ(::posix_spawn(&pid, program, nullptr, nullptr, argv, nullptr), 0);
  EXPECT_EQ(domain().live_slots(), 1U);
  EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
}

// Other threads allocate, release and send while this one forks; every child starts from a sound state.
TEST_F(ForkTest, ForksAmongBusyThreads) {
  ChannelPtr channel = make_channel();
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      Incoming message;
      for (std::size_t round = 1; !done; ++round) {
        Result<LeasePtr> block =
            arena().allocate(i == 0 ? Kind::kPrivate : Kind::kShare, 1 + round * 517 % 200'000);
        ASSERT_OK(block);
        ASSERT_OK(channel->put({.leases = {&*block, 1}}, Deadline::after_seconds(20)));
        ASSERT_OK(channel->get(message, Deadline::after_seconds(20)));
        ASSERT_EQ(message.leases().size(), 1U);
        EXPECT_OK(arena().privatise(*message.leases().front()));
        message.leases().front()->data()[0] = std::byte{1};
      }
    });
  }
  for (int i = 0; i < 60; ++i) {
    Child child([&] {
      if (!domain().attached()) ::_exit(2);
      Result<LeasePtr> block = arena().allocate(Kind::kShare, 3000);
      if (!block) ::_exit(3);
      block->reset();
      const std::vector<std::string> wrong = arena().audit();
      for (const std::string& line : wrong) std::fprintf(stderr, "%s\n", line.c_str());
      ::_exit(wrong.empty() ? 0 : 4);
    });
    ASSERT_EQ(child.wait(), 0) << i;
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ForkTest, ADestroyedNodeLeavesForksAlone) {
  Result<std::unique_ptr<Node>> other = Node::create();
  ASSERT_OK(other);
  Domain& others = (*other)->domain();
  Gate go;
  Child both([&] {
    EXPECT_TRUE(go.wait());
    EXPECT_TRUE(domain().attached());
    EXPECT_TRUE(others.attached());
  });
  EXPECT_EQ(others.live_slots(), 2U);
  EXPECT_EQ(domain().live_slots(), 2U);
  go.open();
  EXPECT_EQ(both.wait(), 0);
  other->reset();
  Child child([&] { EXPECT_TRUE(domain().attached()); });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace forklift::domain
