// The storm over collectives: ranks are killed at random in the middle of calls. The others get right results or
// PeerDied within seconds, and nothing of a group stays.
//
// FORKLIFT_STORM_SECONDS (20, of which this takes a quarter) and FORKLIFT_STORM_SEED choose length and dice.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "forklift/collectives.h"
#include "forklift/domain.h"
#include "storm.h"
#include "support/child.h"
#include "support/process_fixture.h"
#include "support/watchdog.h"
#include "sync/word.h"

namespace forklift::test {
namespace {

constexpr int kRanks = 3;

class CollectiveStorm : public ProcessFixture {};

bool all_are(const Tensor& x, float value) {
  for (const float each : x.span<float>())
    if (each != value) return false;
  return true;
}

// Calls of every kind until a rank dies. What it returns is the child's exit code: 0 after PeerDied.
void call_until_a_death(const GroupHandle& handle, int rank, Gate& begun) {
  const Group group = Group::join(handle, rank);
  Tensor small = Tensor::zeros({10}, DType::kFloat32);
  Tensor large = Tensor::zeros({30'000}, DType::kFloat32);
  const Tensor private_memory = Tensor::wrap(Storage::heap(40'000), DType::kFloat32, {10'000});
  // More than a ring's windows; one rank's others can read where it lies.
  const Tensor long_one = rank == 0 ? Tensor::zeros({700'000}, DType::kFloat32)
                                    : Tensor::wrap(Storage::heap(2'800'000), DType::kFloat32, {700'000});
  Tensor all = Tensor::zeros({kRanks, 30'000}, DType::kFloat32);
  try {
    for (int round = 0;; ++round) {
      for (const Tensor& x : {small, large, private_memory, long_one}) {
        Tensor(x).fill(static_cast<float>(rank + round % 7));
        group.all_reduce(x);
        EXPECT_TRUE(all_are(x, static_cast<float>(3 + 3 * (round % 7)))) << "rank " << rank;
      }
      group.broadcast(large, round % kRanks);
      group.all_gather(large, all);
      EXPECT_TRUE(all_are(all, static_cast<float>(3 + 3 * (round % 7)))) << "rank " << rank;
      group.barrier();
      if (round == 0) begun.open();
    }
  } catch (const PeerDied&) {
  }
}

TEST_F(CollectiveStorm, RanksDieAtAnyMoment) {
  set_test_timeout(std::chrono::seconds(140 * kSlower));
  std::mt19937_64 dice(storm_seed(7));
  std::int64_t slowest = 0;
  unsigned kills = 0;
  const std::int64_t until = os::now_ns() + storm_seconds() * kSecond / 4;
  do {
    const GroupHandle handle = Group::create(kRanks);
    Gate begun;
    std::vector<Child> ranks;
    for (int rank = 0; rank < kRanks; ++rank)
      ranks.emplace_back([&, rank] { call_until_a_death(handle, rank, begun); });
    for (int rank = 0; rank < kRanks; ++rank) ASSERT_TRUE(begun.wait(60'000));
    const std::int64_t strike = os::now_ns() + static_cast<std::int64_t>(dice() % 5'000'000);
    while (os::now_ns() < strike) sync::cpu_relax();
    const std::size_t victim = dice() % kRanks;
    ranks[victim].kill_now();
    const std::int64_t killed = os::now_ns();
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(ranks[rank].wait(), 0) << "rank " << rank;
    }
    slowest = std::max(slowest, os::now_ns() - killed);
    ++kills;
  } while (os::now_ns() < until && !HasFailure());
  std::printf("%u ranks were killed; the others knew after at most %.0f ms\n", kills,
              static_cast<double>(slowest) / 1e6);
  EXPECT_LT(slowest, 30 * kSecond * kSlower);
}

}  // namespace
}  // namespace forklift::test
