// When a getter pauses before its first look: learnt from the waits before it.
#include <gtest/gtest.h>

#include "channel/gather.h"

namespace forklift::channel {
namespace {

// Short waits until the policy pauses.
int waits_before_a_pause(GatherPolicy& policy) {
  int waits = 0;
  for (; !policy.pauses(); ++waits) policy.note(false, GatherPolicy::kFewLooks, 1);
  return waits;
}

TEST(GatherPolicy, ComesWithShortWaitsInARow) {
  GatherPolicy policy;
  for (int i = 1; i < GatherPolicy::kFirstWaits; ++i) policy.note(false, 1, 1);
  EXPECT_FALSE(policy.pauses());
  policy.note(false, GatherPolicy::kFewLooks + 1, 1);
  EXPECT_EQ(waits_before_a_pause(policy), GatherPolicy::kFirstWaits) << "the long wait was forgotten";
}

TEST(GatherPolicy, DoesNotComeWithWaitsThatEndWithoutAMessage) {
  GatherPolicy policy;
  for (int i = 0; i < 2 * GatherPolicy::kFirstWaits; ++i) policy.note(false, 1, 0);
  EXPECT_FALSE(policy.pauses());
}

TEST(GatherPolicy, StaysWhileMessagesGather) {
  GatherPolicy policy;
  waits_before_a_pause(policy);
  for (int i = 0; i < 100; ++i) {
    policy.note(true, 1, 2);
    ASSERT_TRUE(policy.pauses()) << i;
  }
}

TEST(GatherPolicy, GoesWithAPauseInVainAndIsTriedMoreAndMoreRarely) {
  struct {
    int looks;
    std::uint32_t messages;
  } constexpr kVain[] = {{1, 1}, {1, 0}, {2, 2}};
  for (auto [looks, messages] : kVain) {
    GatherPolicy policy;
    int waits = waits_before_a_pause(policy);
    EXPECT_EQ(waits, GatherPolicy::kFirstWaits);
    for (int i = 0; i < 12; ++i) {
      policy.note(true, looks, messages);
      const int more = waits_before_a_pause(policy);
      EXPECT_EQ(more, std::min(2 * waits, GatherPolicy::kMostWaits)) << looks << ' ' << messages;
      waits = more;
    }
    EXPECT_EQ(waits, GatherPolicy::kMostWaits);
  }
}

TEST(GatherPolicy, PausesAtLeastAsLongAsItSays) {
  const std::int64_t begin = os::now_ns();
  GatherPolicy{}.pause();
  EXPECT_GE(os::now_ns() - begin, GatherPolicy::kPauseNs);
}

}  // namespace
}  // namespace forklift::channel
