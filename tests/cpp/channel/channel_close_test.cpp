// The end of a channel: what close() refuses, what it leaves and whom it wakes.
#include <gtest/gtest.h>

#include <thread>

#include "channel/channel.h"
#include "support/asleep.h"
#include "support/node_fixture.h"

namespace forklift::channel {
namespace {

using test::audit_of;
using test::get_text;
using test::put_text;
using test::Sleeper;

class ChannelCloseTest : public test::NodeFixture {};

TEST_F(ChannelCloseTest, WhatIsThereIsTakenAndNothingMoreIsPut) {
  const ChannelPtr channel = make_channel();
  ASSERT_OK(put_text(*channel, "one"));
  ASSERT_OK(put_text(*channel, "two"));
  EXPECT_FALSE(channel->closed());
  EXPECT_OK(channel->close());
  EXPECT_OK(channel->close());
  EXPECT_TRUE(channel->closed());
  EXPECT_CODE(Code::kClosed, put_text(*channel, "three"));
  EXPECT_FALSE(channel->at_end());
  EXPECT_EQ(*get_text(*channel), "one");
  EXPECT_EQ(*get_text(*channel), "two");
  EXPECT_TRUE(channel->at_end());
  EXPECT_CODE(Code::kClosed, get_text(*channel));
  EXPECT_CODE(Code::kClosed, get_text(*channel, 0));
  EXPECT_EQ(audit_of(node()), "");
}

TEST_F(ChannelCloseTest, WakesPuttersAndGetters) {
  const ChannelPtr full = make_channel({.capacity = 1});
  const ChannelPtr empty = make_channel();
  ASSERT_OK(put_text(*full, "one"));
  Sleeper puts, gets;
  std::thread putter([&] {
    puts.is_me();
    EXPECT_CODE(Code::kClosed, put_text(*full, "two", 20));
  });
  std::thread getter([&] {
    gets.is_me();
    EXPECT_CODE(Code::kClosed, get_text(*empty, 20));
  });
  EXPECT_TRUE(puts.asleep());
  EXPECT_TRUE(gets.asleep());
  EXPECT_OK(full->close());
  EXPECT_OK(empty->close());
  putter.join();
  getter.join();
  EXPECT_EQ(*get_text(*full), "one");
}

// A tail that a dead putter left broken is repaired first, and stays closed thereafter.
TEST_F(ChannelCloseTest, OfABrokenTail) {
  const ChannelPtr channel = make_channel();
  ASSERT_OK(put_text(*channel, "before"));
  ChannelRow& row = *node().channels().row(channel->id().index);
  row.tail_state.store(kTailBroken);
  EXPECT_OK(channel->close());
  EXPECT_EQ(row.tail_state.load(), static_cast<std::uint64_t>(kTailClosed));
  row.tail_state.fetch_or(kTailBroken);
  EXPECT_CODE(Code::kClosed, put_text(*channel, "after"));
  EXPECT_EQ(row.tail_state.load(), static_cast<std::uint64_t>(kTailClosed));
  EXPECT_EQ(*get_text(*channel), "before");
  EXPECT_CODE(Code::kClosed, get_text(*channel));
}

}  // namespace
}  // namespace forklift::channel
