// Ranks that die, leave, come late, call other things or give wrong arguments; forks, threads, futures.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "collective/ranks.h"
#include "forklift/group.h"
#include "forklift/queue.h"
#include "forklift/this_process.h"
#include "support/asleep.h"
#include "support/process_fixture.h"

namespace forklift::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

// What the call throws; "" if nothing.
template <class E>
std::string thrown(const std::function<void()>& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

class GroupFailures : public ProcessFixture {};
class GroupFutures : public ProcessFixture {};
class GroupThreads : public ProcessFixture {};

TEST_F(GroupFailures, ADeadRankEndsTheOthersCalls) {
  const GroupHandle handle = Group::create(3);
  Gate come;
  std::vector<Child> ranks = start_ranks(handle, 3, [&](Group& group) {
    Tensor x = Tensor::zeros({100'000}, DType::kFloat32);
    group.all_reduce(x);
    come.open();
    if (group.rank() == 2) {
      for (;;) ::pause();
    }
    const std::string first = thrown<PeerDied>([&] { group.all_reduce(x); });
    EXPECT_THAT(first, HasSubstr("rank 2 (pid "));
    // All ranks and all later calls say the same.
    EXPECT_EQ(thrown<PeerDied>([&] { group.barrier(); }), first);
    EXPECT_EQ(thrown<BrokenGroup>([&] { group.broadcast(x, 0); }), first);
  });
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(come.wait());
  ranks[2].kill_now();
  EXPECT_EQ(ranks[0].wait(), 0);
  EXPECT_EQ(ranks[1].wait(), 0);
}

TEST_F(GroupFailures, ARankThatReturnsWithoutCalling) {
  run_ranks(2, [](Group& group) {
    if (group.rank() == 1) return;
    EXPECT_THAT(thrown<BrokenGroup>([&] { group.barrier(); }), HasSubstr("rank 1"));
  });
}

TEST_F(GroupFailures, DroppingTheLastGroupLeaves) {
  Gate dropped, seen;
  const GroupHandle handle = Group::create(2);
  Child other([&] {
    {
      const Group group = Group::join(handle, 1);
    }
    dropped.open();
    EXPECT_TRUE(seen.wait());
  });
  const Group group = Group::join(handle, 0);
  ASSERT_TRUE(dropped.wait());
  EXPECT_THAT(thrown<BrokenGroup>([&] { group.barrier(); }), HasSubstr("has left the group"));
  seen.open();
  EXPECT_EQ(other.wait(), 0);
}

TEST_F(GroupFailures, ARankThatNeverComes) {
  const Group group = Group::join(Group::create(2), 0);
  EXPECT_THAT(thrown<CollectiveTimeout>([&] { group.barrier(20ms); }), HasSubstr("rank 1"));
  EXPECT_THAT(thrown<BrokenGroup>([&] { group.barrier(); }), HasSubstr("has waited longer"));
}

TEST_F(GroupFailures, AStopEndsAWaitAndBreaksTheGroup) {
  const Group group = Group::join(Group::create(2), 0);
  std::stop_source stop;
  const std::jthread stopper = when_asleep([&] { stop.request_stop(); });  // else the call would not begin
  EXPECT_NE(thrown<CollectiveTimeout>([&] { group.barrier(stop.get_token()); }), "");
  EXPECT_NE(thrown<BrokenGroup>([&] { group.barrier(); }), "");
}

TEST_F(GroupFailures, DifferentCallsAreNamedAtAllRanks) {
  run_ranks(3, [](Group& group) {
    const int r = group.rank();
    Tensor x = Tensor::zeros({4, 3}, DType::kFloat32);
    const auto calls = [&]() -> std::vector<std::function<void()>> {
      Tensor other = r == 1 ? Tensor::zeros({3, 4}, DType::kFloat32) : x;
      Tensor bytes = r == 1 ? Tensor::zeros({4, 3}, DType::kInt8) : x;
      Tensor large = r == 1 ? Tensor::zeros({100'000}, DType::kFloat32) : x;
      return {[&group, r, x] { r == 1 ? group.barrier() : group.all_reduce(x); },
              [&group, other] { group.all_reduce(other); },
              [&group, bytes] { group.all_reduce(bytes); },
              [&group, large] { group.all_reduce(large); },
              [&group, r, x] { group.broadcast(x, r == 1 ? 1 : 0); },
              [&group, r, x] { group.all_reduce(x, r == 1 ? Reduction::kMax : Reduction::kSum); }};
    }();
    for (const auto& call : calls) {
      const std::string text = thrown<CollectiveMismatch>(call);
      EXPECT_THAT(text, AllOf(HasSubstr("ranks 0, 2: "), HasSubstr("rank 1: ")));
    }
    EXPECT_THAT(thrown<CollectiveMismatch>(calls[0]),
                HasSubstr("ranks 0, 2: all_reduce(float32(4, 3), sum); rank 1: barrier()"));
    // The group goes on.
    x.fill(1.0F);
    group.all_reduce(x);
    EXPECT_THAT(x.span<float>(), Each(3.0F));
  });
}

TEST_F(GroupFailures, WrongArgumentsAreTheRanksOwnErrorAndTheGroupGoesOn) {
  run_ranks(2, [](Group& group) {
    Tensor flags = Tensor::zeros({3}, DType::kBool);
    Tensor ints = Tensor::zeros({3}, DType::kInt32);
    Tensor z = Tensor::zeros({3}, DType::kComplex64);
    Tensor x = Tensor::zeros({3}, DType::kFloat32);
    EXPECT_THAT(thrown<Error>([&] { group.all_reduce(flags); }), HasSubstr("no reduction sum of bool"));
    EXPECT_THAT(thrown<Error>([&] { group.all_reduce(ints, Reduction::kMean); }), HasSubstr("mean of int32"));
    EXPECT_THAT(thrown<Error>([&] { group.all_reduce(z, Reduction::kMax); }), HasSubstr("no order"));
    EXPECT_THAT(thrown<Error>([&] { group.broadcast(x, 2); }), HasSubstr("root 2 of a group of 2"));
    EXPECT_THAT(thrown<Error>([&] { group.broadcast(x, -1); }), HasSubstr("root -1"));
    EXPECT_THAT(thrown<Error>([&] { group.all_reduce(x.as_readonly()); }), HasSubstr("read-only"));
    EXPECT_THAT(thrown<Error>([&] { group.all_gather(x, x); }), HasSubstr("for each of the 2 ranks"));
    EXPECT_THAT(thrown<Error>([&] { group.all_to_all(x, x); }), HasSubstr("2 equal parts"));
    // Wrong at one rank only: the other one is told.
    const auto call = [&] { group.all_reduce(group.rank() == 0 ? x : x.as_readonly()); };
    if (group.rank() == 0) {
      EXPECT_THAT(thrown<CollectiveMismatch>(call),
                  HasSubstr("rank 1: all_reduce(float32(3), sum), refused"));
    } else {
      EXPECT_THAT(thrown<Error>(call), HasSubstr("read-only"));
    }
    x.fill(2.0F);
    group.all_reduce(x);
    EXPECT_THAT(x.span<float>(), Each(4.0F));
  });
}

TEST_F(GroupFailures, HandlesAndRanksAreChecked) {
  EXPECT_THROW((void)Group::create(0), Error);
  EXPECT_THROW((void)Group::create(1'000'000), Error);
  const GroupHandle handle = Group::create(2);
  EXPECT_THAT(thrown<Error>([&] { (void)Group::join(handle, 2); }), HasSubstr("ranks go from 0 to 1"));
  EXPECT_THAT(thrown<Error>([&] { (void)Group::join({Tensor::zeros({100'000}, DType::kUInt8)}, 0); }),
              HasSubstr("no group's"));
  EXPECT_THAT(thrown<Error>([&] { (void)Group::join({}, 0); }), HasSubstr("no group's"));
  EXPECT_THAT(thrown<Error>([&] { (void)Group::world(); }), HasSubstr("no rank of a group"));
  const Group group = Group::join(handle, 0);
  EXPECT_THAT(thrown<Error>([&] { (void)Group::join(handle, 0); }), HasSubstr("already"));
  Child other([&] {
    EXPECT_THAT(thrown<Error>([&] { (void)Group::join(handle, 0); }), HasSubstr("another process's"));
  });
  EXPECT_EQ(other.wait(), 0);
}

TEST_F(GroupFailures, AForkedChildIsNoRank) {
  const Group group = Group::join(Group::create(1), 0);
  group.barrier();
  Child child([&] {
    EXPECT_THAT(thrown<Error>([&] { group.barrier(); }), HasSubstr("no rank of its group"));
    EXPECT_THAT(thrown<Error>([&] { (void)group.barrier_async(); }), HasSubstr("no rank of its group"));
  });
  EXPECT_EQ(child.wait(), 0);
  group.barrier();
}

TEST_F(GroupFutures, CallsAreDoneInTheOrderOfIssue) {
  run_ranks(2, [](Group& group) {
    std::vector<CollectiveFuture> futures;
    std::vector<Tensor> tensors;
    for (int i = 0; i < 20; ++i) {
      tensors.push_back(Tensor::zeros({i % 2 == 0 ? 10 : 20'000}, DType::kInt32));
      tensors.back().fill<std::int32_t>(i);
      futures.push_back(group.all_reduce_async(tensors.back()));
    }
    Tensor last = Tensor::zeros({1}, DType::kInt32);
    group.all_reduce(last);  // waits its turn
    for (int i = 0; i < 20; ++i) {
      const CollectiveFuture& future = futures[static_cast<std::size_t>(i)];
      EXPECT_TRUE(future.ready());
      EXPECT_THAT(future.get().span<std::int32_t>(), Each(2 * i));
    }
  });
}

TEST_F(GroupFutures, FailAsTheCallWouldHave) {
  const Group group = Group::join(Group::create(1), 0);
  Tensor flags = Tensor::zeros({3}, DType::kBool);
  EXPECT_THAT(thrown<Error>([&] { (void)group.all_reduce_async(flags).get(); }),
              HasSubstr("no reduction sum"));
}

TEST_F(GroupFutures, AreTheParentsAfterAFork) {
  const GroupHandle handle = Group::create(2);
  Gate forked;
  Child other([&] {
    const Group group = Group::join(handle, 1);
    EXPECT_TRUE(forked.wait());
    group.barrier();
  });
  const Group group = Group::join(handle, 0);
  const CollectiveFuture future = group.barrier_async();
  EXPECT_FALSE(future.try_wait(1ms));
  Child child([&] { EXPECT_THAT(thrown<Error>([&] { (void)future.get(); }), HasSubstr("parent")); });
  EXPECT_EQ(child.wait(), 0);
  forked.open();
  (void)future.get();
  EXPECT_EQ(other.wait(), 0);
}

// A fork ends the idle helper thread, and a call that is issued meanwhile starts another one.
TEST_F(GroupFutures, AreIssuedWhileTheProcessForks) {
  const Group group = Group::join(Group::create(1), 0);
  std::atomic<bool> over{false};
  std::jthread issuer([&] {
    while (!over) {
      (void)group.barrier_async().get();
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < 300; ++i) {
    Child child([] {});
    EXPECT_EQ(child.wait(), 0);
  }
  over = true;
}

TEST_F(GroupThreads, CallsOfSeveralThreadsAreDoneOneAfterTheOther) {
  run_ranks(2, [](Group& group) {
    const auto work = [&] {
      Tensor x = Tensor::zeros({5'000}, DType::kInt32);
      for (int i = 0; i < 50; ++i) {
        x.fill<std::int32_t>(1);
        group.all_reduce(x);
        EXPECT_THAT(x.span<std::int32_t>(), Each(2));
      }
    };
    std::jthread beside(work);
    work();
  });
}

// --- the group that spawn() makes

void sum_of_ranks(int rank, Queue<int>& sums) {
  const Group group = Group::world();
  if (group.rank() != rank || this_process().world_size != group.size())
    throw std::logic_error("another rank");
  Tensor x = Tensor::zeros({10'000}, DType::kInt32);
  x.fill<std::int32_t>(rank + 1);
  group.all_reduce(x);
  sums.put(x.at<std::int32_t>({9'999}));
}
const Registered<&sum_of_ranks> kSumOfRanks{"collective sum of ranks"};

void die_or_wait(int rank, Queue<std::string>& errors) {
  const Group group = Group::world();
  if (rank == 1) ::raise(SIGKILL);
  try {
    group.barrier();
  } catch (const PeerDied& error) {
    errors.put(error.what());
    throw;
  }
}
const Registered<&die_or_wait> kDieOrWait{"collective die or wait"};

class SpawnedGroup : public EveryMethod {};

TEST_P(SpawnedGroup, IsTheWorldOfItsRanks) {
  Queue<int> sums;
  spawn({.context = context()}, sum_of_ranks, 3, sums);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sums.get(), 6);
}

TEST_P(SpawnedGroup, LosesARank) {
  Queue<std::string> errors;
  ProcessContext group = spawn({.context = context(), .join = false}, die_or_wait, 2, errors);
  EXPECT_THAT(errors.get(), HasSubstr("rank 1 "));
  EXPECT_ANY_THROW(group.join());
}

INSTANTIATE_TEST_SUITE_P(StartMethods, SpawnedGroup, kEveryMethod, method_name);

}  // namespace
}  // namespace forklift::test
