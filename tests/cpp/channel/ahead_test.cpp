// A sender that keeps ahead of the receivers of an unbounded channel, and sleeps until they have caught up.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <functional>
#include <thread>

#include "channel/waiting.h"

#include "support/asleep.h"
#include "support/node_fixture.h"

namespace forklift::channel {
namespace {

using os::Deadline;
using test::bell_of;
using test::eventually;
using test::get_text;
using test::put_text;
using test::time_of;

class AheadTest : public test::NodeFixture {
 protected:
  ChannelRow& row_of(const ChannelPtr& channel) {
    return node().channels().unchecked_row(channel->id().index);
  }
};

// Sleeps so long at least who is not woken.
constexpr std::int64_t kSlice = sync::kLongSlices ? sync::kLongSliceNs : sync::kSliceNs;

TEST_F(AheadTest, WhoIsAheadOfTheReceiversIsWokenWhenTheyHaveCaughtUp) {
  ChannelPtr channel = make_channel();
  std::atomic<std::uint32_t> news{0};
  for (int i = 0; i < 4; ++i) ASSERT_OK(put_text(*channel, "ahead"));
  EXPECT_OK(channel->wait_drained(4, news, 0, Deadline::never()));
  EXPECT_CODE(Code::kTimeout, channel->wait_drained(2, news, 0, Deadline::after_seconds(0.01)));
  // The best of three, since the machine may be busy; a wake-up that is never given costs a slice each time.
  std::int64_t best = kSlice;
  for (int round = 0; round < 3; ++round) {
    ChannelRow& row = row_of(channel);
    std::thread taker([&] {
      EXPECT_TRUE(eventually([&] { return row.space.has_sleepers(); }));
      for (int i = 0; i < 2; ++i) EXPECT_EQ(*get_text(*channel), "ahead");
    });
    best = std::min(best, time_of([&] { EXPECT_OK(channel->wait_drained(2, news, 0, Deadline::never())); }));
    taker.join();
    for (int i = 0; i < 2; ++i) ASSERT_OK(put_text(*channel, "ahead"));
  }
  EXPECT_LT(best, kSlice / 2);
}

TEST_F(AheadTest, WhoIsAheadOfTheReceiversIsNotWokenForEachMessage) {
  ChannelPtr channel = make_channel();
  std::atomic<std::uint32_t> news{0};
  for (int i = 0; i < 8; ++i) ASSERT_OK(put_text(*channel, "ahead"));
  ChannelRow& row = row_of(channel);
  std::thread sender([&] { EXPECT_OK(channel->wait_drained(2, news, 0, Deadline::never())); });
  EXPECT_TRUE(eventually([&] { return row.space.has_sleepers(); }));
  const std::uint32_t bell = bell_of(row.space);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(*get_text(*channel), "ahead");
  EXPECT_EQ(bell_of(row.space), bell);
  EXPECT_EQ(*get_text(*channel), "ahead");
  EXPECT_NE(bell_of(row.space), bell);
  sender.join();
}

TEST_F(AheadTest, NewsEndTheWaitOfWhoIsAhead) {
  ChannelPtr channel = make_channel();
  std::atomic<std::uint32_t> news{0};
  ASSERT_OK(put_text(*channel, "ahead"));
  std::thread sender([&] { EXPECT_OK(channel->wait_drained(0, news, 0, Deadline::never())); });
  EXPECT_TRUE(eventually([&] { return row_of(channel).space.has_sleepers(); }));
  news.store(1);
  channel->space().notify(INT_MAX);
  sender.join();
  EXPECT_EQ(channel->size(), 1U);
}

}  // namespace
}  // namespace forklift::channel
