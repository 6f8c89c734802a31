// Groups: all end well, or the first failure ends all, whichever rank it is.
#include "forklift/group.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <numeric>
#include <string>
#include <thread>

#include "support/asleep.h"
#include "support/process_fixture.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::SizeIs;
using testing::UnorderedElementsAre;

enum How {
  kReturn,
  kThrow,
  kExit,
  kAbort,
  kKill,
  kTerminate
};

void tell_rank(int rank, Queue<int>& ranks) { ranks.put(rank); }
const Registered<&tell_rank> kTellRank{"group tell rank"};

// One rank ends in the given way when all are there; the others never do.
void fail_one(int rank, int which, int how, bool stubborn, Queue<int>& ready, Queue<int>& go) {
  if (stubborn) ::signal(SIGTERM, SIG_IGN);
  ready.put(rank);
  if (rank == which) {
    (void)go.get();
    switch (how) {
      case kThrow: throw std::range_error("rank " + std::to_string(rank));
      case kExit: std::exit(7);
      case kAbort: ::signal(SIGABRT, SIG_DFL); std::abort();
      case kKill: ::raise(SIGKILL); break;
      case kTerminate: std::terminate();
      default: return;
    }
  }
  for (;;) ::pause();
}
const Registered<&fail_one> kFailOne{"group fail one"};

// All throw as soon as they have all come.
void fail_all(int rank, Queue<int>& ready, Queue<int>& go) {
  ready.put(rank);
  (void)go.get();
  throw std::runtime_error("all of us");
}
const Registered<&fail_all> kFailAll{"group fail all"};

class GroupTest : public test::EveryMethod {
 protected:
  ProcessContext start_failing(int which, How how, bool stubborn = false,
                               std::chrono::nanoseconds grace = ProcessContext::kGrace) {
    ProcessContext group = spawn({.context = context(), .join = false, .grace = grace}, fail_one, 3, which,
                                 static_cast<int>(how), stubborn, ready_, go_);
    for (int i = 0; i < 3; ++i) (void)ready_.get();
    return group;
  }

  Queue<int> ready_;
  Queue<int> go_;
};

INSTANTIATE_TEST_SUITE_P(, GroupTest, test::kEveryMethod, test::method_name);

TEST_P(GroupTest, EachRankRunsAndAllAreWaitedFor) {
  Queue<int> ranks;
  const ProcessContext group = spawn({.context = context()}, tell_rank, 3, ranks);
  EXPECT_EQ(group.size(), 3U);
  EXPECT_THAT(group.pids(), SizeIs(3));
  std::vector<int> seen{ranks.get(), ranks.get(), ranks.get()};
  EXPECT_THAT(seen, UnorderedElementsAre(0, 1, 2));
}

TEST_P(GroupTest, AnExceptionOfAnyRankEndsAll) {
  for (const int which : {0, 1, 2}) {
    ProcessContext group = start_failing(which, kThrow);
    const std::vector<pid_t> pids = group.pids();
    EXPECT_FALSE(group.try_join(1ms));
    go_.put(1);
    for (int again = 0; again < 2; ++again) {
      try {
        group.join();
        FAIL() << "no exception";
      } catch (const ProcessRaisedError& error) {
        EXPECT_EQ(error.rank(), which);
        EXPECT_EQ(error.pid(), pids[static_cast<std::size_t>(which)]);
        EXPECT_EQ(error.type(), "std::range_error");
        EXPECT_EQ(error.message(), "rank " + std::to_string(which));
      }
    }
    for (std::size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(group[rank].exitcode(), static_cast<int>(rank) == which ? 1 : -SIGTERM);
    }
  }
}

TEST_P(GroupTest, ADeathOfAnyRankEndsAll) {
  const std::vector<std::pair<How, int>> ways{{kExit, 7}, {kAbort, -SIGABRT}, {kKill, -SIGKILL}};
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const int which = static_cast<int>(2 - i);
    ProcessContext group = start_failing(which, ways[i].first);
    go_.put(1);
    try {
      group.join();
      FAIL() << "no exception";
    } catch (const ProcessExitedError& error) {
      EXPECT_EQ(error.rank(), which);
      EXPECT_EQ(error.pid(), group.pids()[static_cast<std::size_t>(which)]);
      EXPECT_EQ(error.exitcode(), ways[i].second);
      EXPECT_EQ(error.signal(), ways[i].second < 0 ? -ways[i].second : 0);
      EXPECT_THAT(error.what(), HasSubstr("rank " + std::to_string(which)));
    }
  }
}

TEST_P(GroupTest, WhoDoesNotListenIsKilledAfterTheGrace) {
  ProcessContext group = start_failing(1, kThrow, true, 30ms);
  go_.put(1);
  EXPECT_THROW(group.join(), ProcessRaisedError);
  EXPECT_EQ(group[0].exitcode(), -SIGKILL);
  EXPECT_EQ(group[2].exitcode(), -SIGKILL);
}

TEST_P(GroupTest, StopEndsAll) {
  ProcessContext group = start_failing(0, kThrow);
  group.stop();
  EXPECT_TRUE(group.try_join(0s));
  for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(group[rank].exitcode(), -SIGTERM);
}

TEST_P(GroupTest, AStopRequestEndsTheWaitAndNotTheGroup) {
  ProcessContext group = start_failing(0, kReturn);
  std::stop_source source;
  const std::jthread stopper = test::when_asleep([&] { source.request_stop(); });
  EXPECT_FALSE(group.try_join(source.get_token()));
  EXPECT_TRUE(group[0].is_alive());
  go_.put(1);
  EXPECT_FALSE(group.try_join(std::chrono::steady_clock::now() + 50ms));  // one has returned, two go on
  group.stop();
}

TEST_P(GroupTest, SeveralFailuresAreOneError) {
  ProcessContext group = spawn({.context = context(), .join = false}, fail_all, 3, ready_, go_);
  for (int i = 0; i < 3; ++i) (void)ready_.get();
  for (int i = 0; i < 3; ++i) go_.put(1);
  EXPECT_THROW(group.join(), ProcessRaisedError);
}

TEST_P(GroupTest, AnExceptionInTheParentEndsTheGroup) {
  std::vector<pid_t> pids;
  EXPECT_THROW(
      {
        const ProcessContext group = start_failing(0, kThrow);
        pids = group.pids();
        throw std::logic_error("in the parent");
      },
      std::logic_error);
  for (const pid_t pid : pids) EXPECT_EQ(::kill(pid, 0), -1);
}

TEST_P(GroupTest, AGroupThatNobodyJoinsSaysWhatFailed) {
  testing::internal::CaptureStderr();
  {
    const ProcessContext group = start_failing(1, kThrow);
    go_.put(1);
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("std::range_error: rank 1"));
}

using GroupTests = test::ProcessFixture;

TEST_F(GroupTests, ThePlainCallSpawnsAndJoins) {
  Queue<int> ranks;
  spawn(tell_rank, 2, ranks);
  EXPECT_EQ(ranks.size(), 2U);
  EXPECT_THROW(spawn(tell_rank, 0, ranks), Error);
  EXPECT_THROW(spawn(tell_rank, -1, ranks), Error);
}

TEST_F(GroupTests, AnyCallableOnFork) {
  Queue<int> sums;
  const int base = 10;
  spawn({.context = fork_context()}, [&](int rank, int more) { sums.put(base + rank + more); }, 2, 5);
  EXPECT_EQ(sums.get() + sums.get(), 31);
}

TEST_F(GroupTests, IfOneCannotBeStartedNoneRunsOn) {
  Queue<int> ranks;
  std::vector<Process> members;
  members.push_back(Process::fork([] { ::pause(); }));
  members.push_back(Process::program({"/no/such/program"}));
  EXPECT_THROW((void)ProcessContext::start(std::move(members)), Error);
}

}  // namespace
}  // namespace forklift
