// Every kill: who of a tree that uses named segments dies, and what becomes of the names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "os/proc.h"
#include "segment/files.h"
#include "shm_manager/tree.h"
#include "support/segment_fixture.h"

namespace forklift::test {
namespace {

using arena::LeasePtr;
using os::Deadline;
using testing::IsEmpty;
using testing::SizeIs;

// The first segment of a domain, which starts the manager: killed at forty moments of the 10 ms that it takes.
TEST(ShmManagerKill, WhileItStartsTheManager) {
  void* const page =
      ::mmap(nullptr, sizeof(TreeWords), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  TreeWords& words = *new (page) TreeWords();
  Gate begins;
  for (int moment = 0; moment < 40; ++moment) {
    Child creator([&] {
      const Result<std::unique_ptr<node::Node>> node = node::Node::create();
      ASSERT_OK(node);
      words.token.store((*node)->segments().token());
      begins.open();
      const Result<LeasePtr> lease = (*node)->segments().create(5000);
      ::pause();
    });
    ASSERT_TRUE(begins.wait());
    std::this_thread::sleep_for(std::chrono::microseconds(250 * moment));
    creator.kill_now();
    const std::uint64_t token = words.token.load();
    EXPECT_TRUE(eventually([&] { return shm_segments(token).empty(); }, 2000));
    // Of the program's first step a lock file may stay, if it had not come to starting the manager.
    EXPECT_TRUE(eventually([&] {
      (void)segment::sweep("/dev/shm");
      return shm_files(token).empty() && managers(token).empty() && stand_bys(token).empty();
    })) << moment;
  }
  ::munmap(page, sizeof(TreeWords));
}

class ShmManagerKillInProcess : public SegmentFixture {};

// A program that makes its first object. A fork would do only where this process has made none: it would have this
// process's domain, and what happens at a program's start would not happen.
const bool kProgram =
    add_helper("joins", [](const std::vector<std::string>&) { return node::Node::current() ? 0 : 1; });

int start_a_program() {
  EXPECT_TRUE(kProgram);
  return start_helper("joins", {}).wait();
}

// At the same time: one of them alone would be replaced. Returns once both have ended. A process that is ending has
// no command line any more, by which managers() finds it, but still has its sockets for a moment.
void kill_both(const ManagerPair& pair) {
  ::kill(pair.serves, SIGSTOP);
  ::kill(pair.stands_by, SIGKILL);
  ::kill(pair.serves, SIGKILL);
  for (const pid_t pid : {pair.serves, pair.stands_by}) {
    const auto ended = [&] {
      const char state = os::task_state(pid);
      return state == '\0' || state == 'Z' || state == 'X';
    };
    EXPECT_TRUE(eventually(ended)) << "process " << pid << " was killed";
  }
}

TEST(ShmManagerKill, TheCreatorAlone) {
  Tree tree(0);
  EXPECT_TRUE(tree.is_there());
  tree.kill_creator();
  EXPECT_TRUE(tree.goes());
}

TEST(ShmManagerKill, TheCreatorOfWhatOthersUse) {
  Tree tree(1);
  tree.kill_creator();
  EXPECT_TRUE(tree.stays());
  tree.kill_users();
  EXPECT_TRUE(tree.goes());
}

TEST(ShmManagerKill, OneOfTwoUsers) {
  Tree tree(2);
  tree.kill_creator();
  tree.kill_user(0);
  EXPECT_TRUE(tree.stays());
  tree.kill_user(1);
  EXPECT_TRUE(tree.goes());
}

TEST(ShmManagerKill, OneWorkerWithASegmentOfItsOwn) {
  Tree tree(1, [](node::Node& node, const LeasePtr&, int) {
    static LeasePtr own;
    Result<LeasePtr> made = node.segments().create(5000);
    ASSERT_OK(made);
    own = *std::move(made);
  });
  EXPECT_THAT(shm_segments(tree.token()), SizeIs(2));
  tree.kill_user(0);
  EXPECT_TRUE(eventually([&] { return shm_segments(tree.token()).size() == 1; }, 2000));
  EXPECT_TRUE(tree.is_there());
}

TEST(ShmManagerKill, AllUsersAtOnce) {
  Tree tree(3);
  tree.kill_users();
  tree.kill_creator();
  EXPECT_TRUE(tree.goes());
}

TEST(ShmManagerKill, TheManager) {
  Tree tree(1);
  const ManagerPair first = wait_for_pair(tree.token());
  ::kill(first.serves, SIGKILL);
  // The one who stood by serves, and another one stands by.
  const ManagerPair second = wait_for_pair(tree.token(), first);
  EXPECT_EQ(second.serves, first.stands_by);
  EXPECT_TRUE(tree.stays());
  tree.kill_creator();
  tree.kill_users();
  EXPECT_TRUE(tree.goes());
}

TEST(ShmManagerKill, TheOneWhoStandsBy) {
  Tree tree(0);
  const ManagerPair first = wait_for_pair(tree.token());
  ::kill(first.stands_by, SIGKILL);
  const ManagerPair second = wait_for_pair(tree.token(), {0, first.stands_by});
  EXPECT_EQ(second.serves, first.serves);
  EXPECT_TRUE(tree.stays());
  tree.kill_creator();
  EXPECT_TRUE(tree.goes());
}

TEST(ShmManagerKill, TheManagerAgainAndAgain) {
  Tree tree(1);
  ManagerPair pair = wait_for_pair(tree.token());
  for (int round = 0; round < 10; ++round) {
    ::kill(pair.serves, SIGKILL);
    pair = wait_for_pair(tree.token(), pair);
  }
  EXPECT_TRUE(tree.stays());
  tree.kill_creator();
  tree.kill_users();
  EXPECT_TRUE(tree.goes());
}

TEST(ShmManagerKill, TheManagerAndThenAllUsers) {
  Tree tree(2);
  ::kill(wait_for_pair(tree.token()).serves, SIGKILL);
  tree.kill_users();
  tree.kill_creator();
  EXPECT_TRUE(tree.goes());
}

TEST(ShmManagerKill, BothOfTheManager) {
  Tree tree(0);
  kill_both(wait_for_pair(tree.token()));
  EXPECT_TRUE(tree.stays());
  tree.kill_creator();
  // Nobody is left who could look: the next start of a program does.
  EXPECT_TRUE(tree.is_there());
  EXPECT_EQ(start_a_program(), 0);
  EXPECT_THAT(shm_files(tree.token()), IsEmpty());
}

TEST_F(ShmManagerKillInProcess, TheSenderOfMessagesInFlight) {
  channel::ChannelPtr queue = make_channel();
  Gate sent;
  Child sender([&] {
    for (const std::uint64_t bytes : {5000, 6000}) {
      LeasePtr lease = create(bytes);
      ASSERT_TRUE(lease);
      lease->data()[bytes - 1] = std::byte{7};
      ASSERT_OK(queue->put({.leases = {&lease, 1}}, Deadline::after_seconds(10)));
    }
    sent.open();
    ::pause();
  });
  ASSERT_TRUE(sent.wait());
  sender.kill_now();
  EXPECT_FALSE(eventually([&] { return files().size() != 2; }, 1500));
  {
    channel::Incoming message;
    ASSERT_OK(queue->get(message, Deadline::after_seconds(10)));
    ASSERT_THAT(message.leases(), SizeIs(1));
    ASSERT_OK(arena().open_memory(*message.leases()[0]));
    EXPECT_EQ(message.leases()[0]->data()[4999], std::byte{7});
  }
  EXPECT_THAT(files(), SizeIs(1));
  queue.reset();  // with the message that nobody has taken
  EXPECT_THAT(files(), IsEmpty());
}

// Makers send segments to takers through one queue; some of each, and now and then one of the manager's
// processes, are killed at any moment.
TEST_F(ShmManagerKillInProcess, AStorm) {
  const channel::ChannelPtr queue = make_channel({.capacity = 8});
  const auto make = [&] {
    for (std::uint64_t i = 1;; ++i) {
      Result<LeasePtr> lease = segments().create(i * 997 % 20'000 + 8, i % 2 * 64);
      if (!lease) continue;  // the machine is short of processes while managers come and go
      const std::uint64_t size = (*lease)->size();
      std::memcpy((*lease)->data() + size - sizeof size, &size, sizeof size);
      if (i % 7 == 0) (void)segments().hand_over(**lease);
      (void)queue->put({.leases = {&*lease, 1}}, Deadline::never());
    }
  };
  const auto take = [&] {
    for (;;) {
      channel::Incoming message;
      ASSERT_OK(queue->get(message, Deadline::never()));
      ASSERT_THAT(message.leases(), SizeIs(1));
      const arena::Lease& lease = *message.leases()[0];
      ASSERT_OK(arena().open_memory(*message.leases()[0]));
      std::uint64_t size = 0;
      std::memcpy(&size, lease.data() + lease.size() - sizeof size, sizeof size);
      ASSERT_EQ(size, lease.size());
    }
  };
  std::vector<Child> children(4);
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const std::size_t victim = random() % children.size();
    children[victim].kill_now();
    children[victim] = victim % 2 == 0 ? Child(make) : Child(take);
    if (round % 20 == 10) {
      const std::vector<pid_t> waiting = stand_bys(token_);
      if (!waiting.empty()) ::kill(waiting[random() % waiting.size()], SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 20));
  }
  // A taker whose check failed has left by itself.
  for (Child& child : children) {
    child.signal(SIGKILL);
    EXPECT_EQ(child.wait(), -SIGKILL);
  }
  for (;;) {
    channel::Incoming message;
    if (!queue->get(message, Deadline::after_ns(0))) break;
    ASSERT_OK(arena().open_memory(*message.leases()[0]));
  }
  domain().reap();
  EXPECT_TRUE(eventually([&] { return files().empty() && segments().live() == 0; }, 3000));
}

TEST_F(ShmManagerKillInProcess, BothAndASurvivorStartsAnother) {
  const LeasePtr lease = create(100);
  ASSERT_TRUE(lease);
  const ManagerPair first = wait_for_pair(token_);
  kill_both(first);
  const LeasePtr other = create(100);
  ASSERT_TRUE(other);
  const ManagerPair second = wait_for_pair(token_, first);
  EXPECT_NE(second.serves, first.stands_by);
}

TEST_F(ShmManagerKillInProcess, BothAndAReceiverStartsAnother) {
  const LeasePtr lease = create(100);
  ASSERT_TRUE(lease);
  const ManagerPair first = wait_for_pair(token_);
  kill_both(first);
  Child receiver([&] {
    // As a program that was started joins: with a mapping and a lock of its own.
    const auto joined = node::Node::attach(*domain().control_file().duplicate(),
                                           *domain().data_file().duplicate(), std::nullopt);
    ASSERT_OK(joined);
    EXPECT_OK((*joined)->segments().find(segments().name_of(*lease), 100));
  });
  EXPECT_EQ(receiver.wait(), 0);
  EXPECT_NE(wait_for_pair(token_, first).serves, first.serves);
  domain().reap();
}

TEST(ShmManagerKill, EverythingAtOnce) {
  Tree lives(0);
  Tree tree(2);
  const std::uint64_t token = tree.token();
  const ManagerPair pair = wait_for_pair(token);
  for (const pid_t pid : {pair.serves, pair.stands_by}) ::kill(pid, SIGSTOP);
  tree.kill_users();
  tree.kill_creator();
  kill_both(pair);
  EXPECT_TRUE(tree.is_there());
  EXPECT_EQ(start_a_program(), 0);
  EXPECT_THAT(shm_files(token), IsEmpty());
  EXPECT_TRUE(lives.is_there());
}

// Of several processes that make segments, each is killed at some moment; the step tests kill at each one.
TEST(ShmManagerKill, WhileItMakesSegments) {
  Tree tree(1, [](node::Node& node, const LeasePtr&, int) {
    std::thread([&node] {
      for (std::uint64_t i = 1;; ++i) (void)node.segments().create(i % 5000 + 1);
    }).detach();
  });
  for (int round = 0; round < 5; ++round) std::this_thread::yield();
  ASSERT_TRUE(eventually([&] { return shm_segments(tree.token()).size() >= 1; }));
  tree.kill_user(0);
  EXPECT_TRUE(eventually([&] { return shm_segments(tree.token()).size() == 1; }, 2000));
}

}  // namespace
}  // namespace forklift::test
