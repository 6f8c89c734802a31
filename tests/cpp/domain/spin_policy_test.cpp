// How long a wait spins: learnt from what came of the spins and sleeps before it.
#include "channel/waiting.h"

#include <gtest/gtest.h>
#include <sched.h>

#include "support/asleep.h"
#include "support/node_fixture.h"

namespace forklift::channel {
namespace {

using domain::SpinPolicy;
using os::Deadline;

TEST(SpinPolicy, ComesWithShortSleepsAndGoesWithOneSpinInVain) {
  constexpr std::int64_t kShort = SpinPolicy::kShortSleepNs, kLong = kShort + 1;
  SpinPolicy spin_policy;
  EXPECT_FALSE(spin_policy.is_long());
  spin_policy.note_sleep(kShort);
  EXPECT_FALSE(spin_policy.is_long());
  spin_policy.note_sleep(kLong);
  spin_policy.note_sleep(kShort);
  EXPECT_FALSE(spin_policy.is_long()) << "a long sleep was forgotten";
  spin_policy.note_sleep(kShort);
  EXPECT_TRUE(spin_policy.is_long());
  spin_policy.note_sleep(kLong);
  EXPECT_FALSE(spin_policy.is_long());

  for (int i = 0; i < SpinPolicy::kShortSleeps; ++i) spin_policy.note_sleep(kShort);
  spin_policy.note_spin(false);
  for (int i = 1; i < SpinPolicy::kShortSleepsAfterAll; ++i) {
    spin_policy.note_sleep(kShort);
    EXPECT_FALSE(spin_policy.is_long()) << i;
    spin_policy.note_sleep(kLong);  // says nothing about spins
  }
  for (int i = 0; i < SpinPolicy::kShortSleeps; ++i) spin_policy.note_sleep(kShort);
  EXPECT_TRUE(spin_policy.is_long());
}

TEST(SpinPolicy, RestsWhereSpinsDoNotPayAndTriesAgain) {
  constexpr std::int64_t kUsual = 7;
  SpinPolicy spin_policy;
  for (int i = 1; i < SpinPolicy::kVainSpins; ++i) {
    EXPECT_EQ(spin_policy.spin_ns(kUsual), kUsual);
    spin_policy.note_spin(false);
  }
  spin_policy.note_spin(true);  // one that pays, and all before it are forgotten
  int apart = SpinPolicy::kFirstRest;
  for (int i = 0; i < SpinPolicy::kVainSpins; ++i) {
    EXPECT_EQ(spin_policy.spin_ns(kUsual), kUsual);
    spin_policy.note_spin(false);
  }
  for (int round = 0; round < 8; ++round, apart = std::min(2 * apart, SpinPolicy::kRarest)) {
    for (int i = 1; i < apart; ++i) ASSERT_EQ(spin_policy.spin_ns(kUsual), 0) << round << ' ' << i;
    ASSERT_EQ(spin_policy.spin_ns(kUsual), kUsual) << round;
    spin_policy.note_spin(false);
  }
  while (spin_policy.spin_ns(kUsual) == 0) {
  }
  spin_policy.note_spin(true);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(spin_policy.spin_ns(kUsual), kUsual);
}

// Makes sleeps short, and spins be in vain until it rests.
void learn_to_rest(SpinPolicy& spin_policy) {
  for (int i = 0; i < SpinPolicy::kVainSpins; ++i) {
    ASSERT_EQ(spin_policy.spin_ns(1, SpinPolicy::kTrialNs), 1);
    spin_policy.note_spin(false);
  }
  for (int i = 0; i < SpinPolicy::kShortSleeps; ++i) spin_policy.note_sleep(SpinPolicy::kShortSleepNs);
  ASSERT_TRUE(spin_policy.is_long());
}

// How many waits do not spin, each of them a short sleep; and how long the next one spins.
std::pair<int, std::int64_t> rest(SpinPolicy& spin_policy, std::int64_t most_ns = SpinPolicy::kTrialNs) {
  for (int waits = 0;; ++waits) {
    if (const std::int64_t ns = spin_policy.spin_ns(1, most_ns); ns != 0) return {waits, ns};
    spin_policy.note_sleep(SpinPolicy::kShortSleepNs);
  }
}

TEST(SpinPolicy, WhereEndsThatSleepGoOnSoALongTrialIsMadeNowAndThen) {
  constexpr std::int64_t kLong = SpinPolicy::kLongestNs;
  SpinPolicy spin_policy;
  learn_to_rest(spin_policy);
  EXPECT_EQ(rest(spin_policy), std::pair(SpinPolicy::kFirstRest - 1, SpinPolicy::kTrialNs));
  // A trial that ends well is followed by a spin of the usual kind, and only what comes of that one counts.
  spin_policy.note_spin(true, true);
  EXPECT_EQ(rest(spin_policy), std::pair(0, kLong));
  spin_policy.note_spin(false);
  int apart = 2 * SpinPolicy::kFirstRest;
  for (int round = 0; round < 10; ++round, apart = std::min(2 * apart, SpinPolicy::kRarestTrial)) {
    ASSERT_EQ(rest(spin_policy), std::pair(apart - 1, SpinPolicy::kTrialNs)) << round;
    spin_policy.note_spin(false, true);
  }
  EXPECT_EQ(rest(spin_policy).second, SpinPolicy::kTrialNs);
  // Where another thread spins, this one does not: nothing is noted then, and the trial is still to be made.
  EXPECT_EQ(rest(spin_policy), std::pair(0, SpinPolicy::kTrialNs));
  spin_policy.note_spin(true, true);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(rest(spin_policy), std::pair(0, kLong)) << i;
    spin_policy.note_spin(true);
  }
}

TEST(SpinPolicy, MakesNoTrialWhereTheWaitMayNotLastSoLongNorWhereSleepsAreLong) {
  SpinPolicy spin_policy;
  learn_to_rest(spin_policy);
  EXPECT_EQ(rest(spin_policy, SpinPolicy::kTrialNs - 1).second, SpinPolicy::kLongestNs);
  spin_policy.note_spin(false);
  EXPECT_EQ(rest(spin_policy, 0).second, SpinPolicy::kLongestNs);
  spin_policy.note_spin(false);
  spin_policy.note_sleep(SpinPolicy::kShortSleepNs + 1);
  std::int64_t after_long_sleep = 0;
  while ((after_long_sleep = spin_policy.spin_ns(1, SpinPolicy::kTrialNs)) == 0) {
  }
  EXPECT_EQ(after_long_sleep, 1);
  EXPECT_EQ(domain::most_spin_ns(Deadline::never()), SpinPolicy::kTrialNs);
  EXPECT_LE(domain::most_spin_ns(Deadline::after_ns(1'000'000)), 1'000'000);
  EXPECT_EQ(domain::most_spin_ns(Deadline::after_ns(0)), 0);
}

// A thread that may run on one processor only, as with taskset or Pool(cpus=).
class Pinned {
 public:
  explicit Pinned(int cpu) {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(cpu), &one);
    ::sched_setaffinity(0, sizeof one, &one);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() { ::sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_{};
};

TEST(Waiting, AThreadThatIsBoundToAProcessorSpinsForAPeerOnAnother) {
  if (os::online_cpus() < 2) GTEST_SKIP() << "with one processor nobody spins";
  const int here = os::current_cpu();
  const Pinned pinned(here);
  ASSERT_EQ(os::allowed_cpus(), 1);
  const sync::Word on_this{static_cast<std::uint64_t>(here) + 1},
      on_another{static_cast<std::uint64_t>(here) + 2};
  EXPECT_FALSE(domain::peer_runs_elsewhere(on_this));
  EXPECT_TRUE(domain::peer_runs_elsewhere(on_another));
  EXPECT_TRUE(domain::peer_runs_elsewhere(domain::kUnknownCpu)) << "it is tried, and what it brings counts";
}

class SpinPolicyAtAPlace : public test::NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    if (os::online_cpus() < 2) GTEST_SKIP() << "with one processor nobody spins";
  }
  bool learn() {
    // A thread that is stopped in the middle of a sleep sleeps long.
    for (int i = 0; i < 1000 && !spin_policy_.is_long(); ++i) {
      Status slept = wait([] { return true; });
      if (!slept) return false;
    }
    return spin_policy_.is_long();
  }
  // Without the spin, whose place is taken.
  Status wait(const std::function<bool()>& ready) {
    spinner_.store(~std::uint64_t{0});
    Status status = wait_until(place_, ready, domain(), Deadline::never(), nullptr);
    spinner_.store(0);
    return status;
  }

  sync::EventCount event_{};
  sync::Word spinner_{};
  SpinPolicy spin_policy_;
  WaitPoint place_{event_, spinner_, domain::kUnknownCpu, 1, &spin_policy_};
};

TEST_F(SpinPolicyAtAPlace, IsLearntFromSleeps) {
  EXPECT_TRUE(learn());
  EXPECT_OK(wait([] {
    const std::int64_t begin = os::now_ns();
    while (os::now_ns() - begin <= SpinPolicy::kShortSleepNs) {
    }
    return true;
  }));
  EXPECT_FALSE(spin_policy_.is_long());
}

TEST_F(SpinPolicyAtAPlace, MakesALongerSpin) {
  EXPECT_FALSE(domain::spin_at(place_, [] { return false; }, domain()));
  EXPECT_TRUE(learn());
  EXPECT_TRUE(
      domain::spin_at(place_, [begin = os::now_ns()] { return os::now_ns() - begin > 50'000; }, domain()));
  EXPECT_TRUE(spin_policy_.is_long());
  EXPECT_FALSE(domain::spin_at(place_, [] { return false; }, domain()));
  EXPECT_FALSE(spin_policy_.is_long());
}

}  // namespace
}  // namespace forklift::channel
