// What a channel carries: order, sizes, leases, bounds, counting. Within one process; see channel_peers_test.
#include "channel/channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "support/asleep.h"
#include "support/node_fixture.h"

namespace forklift::channel {
namespace {

using arena::Kind;
using arena::LeasePtr;
using os::Deadline;
using test::audit_of;
using test::bytes_of;
using test::get_text;
using test::put_text;
using test::text_of;

constexpr std::size_t kKiB = 1024;

class ChannelTest : public test::NodeFixture {
 protected:
  ChannelRow& row_of(const ChannelPtr& channel) {
    return node().channels().unchecked_row(channel->id().index);
  }
};

std::string pattern(std::size_t bytes, unsigned seed) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 31 + seed);
  return text;
}

TEST_F(ChannelTest, MessagesComeInOrderOverManyChunks) {
  ChannelPtr channel = make_channel();
  constexpr unsigned kCount = 3000;
  for (unsigned i = 0; i < kCount; ++i) ASSERT_OK(put_text(*channel, pattern(i % 700, i)));
  EXPECT_EQ(channel->size(), kCount);
  EXPECT_EQ(audit_of(node()), "");
  for (unsigned i = 0; i < kCount; ++i) ASSERT_EQ(*get_text(*channel), pattern(i % 700, i));
  EXPECT_TRUE(channel->empty());
  EXPECT_EQ(audit_of(node()), "");
  EXPECT_CODE(Code::kTimeout, get_text(*channel, 0));
}

TEST_F(ChannelTest, GrowsAndShrinksAndReusesItsChunks) {
  ChannelPtr channel = make_channel();
  std::uint64_t most = 0;
  for (int round = 0; round < 3; ++round) {
    for (unsigned i = 0; i < 400; ++i) ASSERT_OK(put_text(*channel, pattern(4 * kKiB, i)));
    if (round == 0) most = arena().chunk_bytes();
    EXPECT_GE(arena().chunk_bytes(), 400 * 4 * kKiB);
    EXPECT_EQ(arena().chunk_bytes(), most);  // the chunks of the first round
    for (unsigned i = 0; i < 400; ++i) ASSERT_EQ(*get_text(*channel), pattern(4 * kKiB, i));
    EXPECT_EQ(audit_of(node()), "");
  }
  EXPECT_GE(node().chunks().state().warm_count, most / kChunkBytes - 2);
}

TEST_F(ChannelTest, FreeChunksBeyondAMeasureGiveTheirPagesBack) {
  ChannelPtr channel = make_channel();
  constexpr unsigned kMessages = 3 * 1200;  // three to a chunk: 37 MiB
  const std::string text = pattern(kInlineBytes, 0);
  for (unsigned i = 0; i < kMessages; ++i) ASSERT_OK(put_text(*channel, text));
  EXPECT_GE(arena().chunk_bytes(), std::uint64_t{1200} * kChunkBytes);
  for (unsigned i = 0; i < kMessages; ++i) ASSERT_OK(get_text(*channel));
  EXPECT_LE(arena().chunk_bytes(), std::uint64_t{1030} * kChunkBytes);
  EXPECT_EQ(audit_of(node()), "");
  for (unsigned i = 0; i < kMessages; ++i) ASSERT_OK(put_text(*channel, text));
  EXPECT_EQ(audit_of(node()), "");
}

class ChannelSizeTest : public ChannelTest, public testing::WithParamInterface<std::size_t> {};

TEST_P(ChannelSizeTest, EverySizeArrivesWhole) {
  ChannelPtr channel = make_channel();
  const std::string text = pattern(GetParam(), 3);
  Incoming message;
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK(channel->put({.bytes = bytes_of(text), .codec = 9, .tag = 77}, Deadline::never()));
    EXPECT_EQ(arena().stats().held_blocks, text.size() > kInlineBytes ? 1U : 0U);
    ASSERT_OK(channel->get(message, Deadline::never()));
    EXPECT_EQ(text_of(message), text);
    EXPECT_EQ(message.codec(), 9);
    EXPECT_EQ(message.tag(), 77U);
    EXPECT_TRUE(message.leases().empty());
    EXPECT_EQ(audit_of(node()), "");
    message.clear();
  }
  EXPECT_EQ(arena().stats().held_blocks, 0U);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ChannelSizeTest,
                         testing::Values(0, 1, 31, 32, 33, 63, 64, 65, 4096, kInlineBytes - 1, kInlineBytes,
                                         kInlineBytes + 1, 32 * kKiB, 64 * kKiB + 1, 1024 * kKiB));

class ChannelLeaseTest : public ChannelTest, public testing::WithParamInterface<std::size_t> {};

TEST_P(ChannelLeaseTest, AnyNumberOfLeasesTravels) {
  ChannelPtr channel = make_channel();
  std::vector<LeasePtr> leases;
  for (std::size_t i = 0; i < GetParam(); ++i) {
    leases.push_back(allocate(i % 3 ? Kind::kShare : Kind::kPrivate, 8 + i));
    std::memcpy(leases[i]->data(), &i, sizeof i);
  }
  const std::string text = pattern(100, 1);
  ASSERT_OK(channel->put({.bytes = bytes_of(text), .leases = leases}, Deadline::never()));
  for (const LeasePtr& lease : leases) EXPECT_FALSE(lease->held());
  leases.clear();
  EXPECT_EQ(audit_of(node()), "");
  Incoming message;
  ASSERT_OK(channel->get(message, Deadline::never()));
  EXPECT_EQ(text_of(message), text);
  ASSERT_EQ(message.leases().size(), GetParam());
  for (std::size_t i = 0; i < GetParam(); ++i) {
    const LeasePtr& lease = message.leases()[i];
    std::size_t seen = 0;
    std::memcpy(&seen, lease->data(), sizeof seen);
    ASSERT_EQ(seen, i);
    ASSERT_EQ(lease->size(), 8 + i);
    ASSERT_EQ(lease->kind(), i % 3 ? Kind::kShare : Kind::kPrivate);
    ASSERT_TRUE(lease->held());
  }
  EXPECT_EQ(audit_of(node()), "");
}

INSTANTIATE_TEST_SUITE_P(Numbers, ChannelLeaseTest,
                         testing::Values(0, 1, 2, 252, 253, 254, 255, 256, 257, 1000));

TEST_F(ChannelTest, WhatCannotBeSentIsRefusedAndKept) {
  ChannelPtr channel = make_channel({.capacity = 1});
  LeasePtr good = allocate(Kind::kShare, 100);
  LeasePtr passed = allocate(Kind::kShare, 100);
  ASSERT_TRUE(pass(channel, passed));
  const auto refuse = [&](std::vector<LeasePtr> leases) {
    EXPECT_CODE(Code::kInvalid, channel->put({.leases = leases}, Deadline::never()));
    EXPECT_TRUE(good->held());
    EXPECT_TRUE(channel->empty());
    EXPECT_EQ(audit_of(node()), "");
  };
  refuse({good, nullptr});
  refuse({good, passed});
  refuse({good, good});  // one right cannot go twice
  std::vector<LeasePtr> many;
  for (int i = 0; i < 300; ++i) many.push_back(allocate(Kind::kShare, 64));
  many.push_back(many[7]);
  refuse(many);
  many.clear();

  ASSERT_OK(put_text(*channel, "full now"));
  EXPECT_CODE(Code::kTimeout, channel->put({.leases = {&good, 1}}, Deadline::after_seconds(0.01)));
  EXPECT_TRUE(good->held());
  EXPECT_EQ(*get_text(*channel), "full now");
  EXPECT_EQ(pass(channel, good)->handle().offset, good->handle().offset);
}

TEST_F(ChannelTest, ABoundHoldsAndARoomIsUsed) {
  ChannelPtr channel = make_channel({.capacity = 3});
  EXPECT_EQ(channel->capacity(), 3U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(channel->full());
    ASSERT_OK(put_text(*channel, std::to_string(i), 0));
  }
  EXPECT_TRUE(channel->full());
  EXPECT_CODE(Code::kTimeout, put_text(*channel, "no", 0));
  EXPECT_CODE(Code::kTimeout, put_text(*channel, "no", 0.02));
  std::thread putter([&] { EXPECT_OK(put_text(*channel, "3")); });
  EXPECT_EQ(*get_text(*channel), "0");
  putter.join();
  EXPECT_TRUE(channel->full());
  for (int i = 1; i < 4; ++i) EXPECT_EQ(*get_text(*channel), std::to_string(i));
  EXPECT_FALSE(channel->full());
}

TEST_F(ChannelTest, BytesAreBoundedAndALargeMessageWaitsForAnEmptyChannel) {
  ChannelPtr channel = make_channel({.byte_capacity = 64 * kKiB});
  for (unsigned i = 0; i < 3; ++i) ASSERT_OK(put_text(*channel, pattern(20 * kKiB, i), 0));
  EXPECT_CODE(Code::kTimeout, put_text(*channel, pattern(4 * kKiB + 1, 0), 0));
  ASSERT_OK(put_text(*channel, pattern(4 * kKiB, 3), 0));
  EXPECT_CODE(Code::kTimeout, put_text(*channel, "x", 0));
  ASSERT_OK(put_text(*channel, "", 0));  // weighs nothing
  const std::string large = pattern(200 * kKiB, 9);
  EXPECT_CODE(Code::kTimeout, put_text(*channel, large, 0));
  for (unsigned i = 0; i < 3; ++i) EXPECT_EQ(*get_text(*channel), pattern(20 * kKiB, i));
  EXPECT_EQ(*get_text(*channel), pattern(4 * kKiB, 3));
  EXPECT_CODE(Code::kTimeout, put_text(*channel, large, 0));
  EXPECT_EQ(*get_text(*channel), "");
  ASSERT_OK(put_text(*channel, large, 0));
  EXPECT_CODE(Code::kTimeout, put_text(*channel, "x", 0));
  EXPECT_EQ(*get_text(*channel), large);
  ASSERT_OK(put_text(*channel, "x", 0));
  EXPECT_EQ(*get_text(*channel), "x");
  EXPECT_EQ(audit_of(node()), "");
}

TEST_F(ChannelTest, LeasesWeighWhatTheyHold) {
  ChannelPtr channel = make_channel({.byte_capacity = 64 * kKiB});
  LeasePtr block = allocate(Kind::kShare, 60 * kKiB);
  ASSERT_OK(channel->put({.leases = {&block, 1}}, Deadline::never()));
  EXPECT_CODE(Code::kTimeout, put_text(*channel, pattern(5 * kKiB, 0), 0));
  EXPECT_OK(put_text(*channel, pattern(4 * kKiB, 0), 0));
}

// One wake-up must reach the putter that has room, whoever came first.
TEST_F(ChannelTest, ASmallMessageDoesNotWaitBehindALargeOne) {
  ChannelPtr channel = make_channel({.byte_capacity = 64 * kKiB});
  for (int i = 0; i < 4; ++i) ASSERT_OK(put_text(*channel, pattern(16 * kKiB, 0), 0));
  test::Sleeper first, second;
  std::thread large([&] {
    first.is_me();
    EXPECT_OK(put_text(*channel, pattern(100 * kKiB, 1)));
  });
  ASSERT_TRUE(first.asleep());
  std::atomic<std::int64_t> put_at{0};
  std::thread small([&] {
    second.is_me();
    EXPECT_OK(put_text(*channel, pattern(8 * kKiB, 2)));
    put_at = os::now_ns();
  });
  ASSERT_TRUE(second.asleep());
  const std::int64_t room_at = os::now_ns();
  EXPECT_OK(get_text(*channel));
  small.join();
  EXPECT_LT(put_at - room_at, 60'000'000) << "it slept to the end of its slice";
  for (int i = 0; i < 4; ++i) EXPECT_OK(get_text(*channel));
  large.join();
  EXPECT_OK(get_text(*channel));
}

TEST_F(ChannelTest, ARowStartsItsNextLifeAfresh) {
  ChannelPtr channel = make_channel();
  const ChannelId first = channel->id();
  for (int i = 0; i < 7; ++i) ASSERT_OK(put_text(*channel, pattern(1000, 0)));
  for (int i = 0; i < 4; ++i) ASSERT_OK(get_text(*channel));
  channel.reset();
  channel = make_channel({.capacity = 2, .byte_capacity = 3000, .flags = kPortable});
  EXPECT_EQ(channel->id().index, first.index);
  EXPECT_NE(channel->id().generation, first.generation);
  EXPECT_EQ(channel->flags(), kPortable);
  EXPECT_EQ(channel->size(), 0U);
  EXPECT_EQ(channel->unfinished(), 0U);
  EXPECT_FALSE(channel->task_done());
  for (int round = 0; round < 3; ++round) {
    ASSERT_OK(put_text(*channel, pattern(1500, 1), 0));
    ASSERT_OK(put_text(*channel, pattern(1500, 2), 0));
    EXPECT_CODE(Code::kTimeout, put_text(*channel, "", 0));
    EXPECT_EQ(*get_text(*channel), pattern(1500, 1));
    EXPECT_EQ(*get_text(*channel), pattern(1500, 2));
  }
}

TEST_F(ChannelTest, TheLastHolderEmptiesIt) {
  ChannelPtr channel = make_channel();
  for (unsigned i = 0; i < 300; ++i) {
    LeasePtr block = allocate(Kind::kShare, 5000);
    const std::string text = pattern(i * 50, i);  // some spill
    ASSERT_OK(channel->put({.bytes = bytes_of(text), .leases = {&block, 1}}, Deadline::never()));
  }
  EXPECT_GE(arena().stats().held_blocks, 300U);
  channel.reset();
  EXPECT_EQ(arena().stats().held_blocks, 0U);
  EXPECT_EQ(node().channels().live(), 0U);
  EXPECT_EQ(audit_of(node()), "");
}

TEST_F(ChannelTest, AnIdOpensItsChannelAndNoOther) {
  ChannelPtr channel = make_channel();
  const ChannelId id = channel->id();
  Result<ChannelPtr> second = Channel::open(node().channels(), id);
  ASSERT_OK(second);
  ASSERT_OK(put_text(*channel, "through the other"));
  channel.reset();
  EXPECT_EQ(node().channels().live(), 1U);
  EXPECT_EQ(*get_text(**second), "through the other");
  EXPECT_CODE(Code::kInvalid, Channel::open(node().channels(), {id.index, id.generation + 1}));
  EXPECT_CODE(Code::kInvalid, Channel::open(node().channels(), {id.index + 1, id.generation}));
  EXPECT_CODE(Code::kInvalid, Channel::open(node().channels(), {0xffffffff, 1}));
  second->reset();
  EXPECT_CODE(Code::kInvalid, Channel::open(node().channels(), id));
  ChannelPtr next = make_channel();
  EXPECT_EQ(next->id().index, id.index);
  EXPECT_CODE(Code::kInvalid, Channel::open(node().channels(), id));
}

TEST_F(ChannelTest, TasksAreCounted) {
  ChannelPtr channel = make_channel();
  EXPECT_OK(channel->join(Deadline::after_seconds(0)));
  EXPECT_FALSE(channel->task_done());
  for (int i = 0; i < 3; ++i) ASSERT_OK(put_text(*channel, "task"));
  EXPECT_EQ(channel->unfinished(), 3U);
  EXPECT_OK(get_text(*channel));
  EXPECT_EQ(channel->unfinished(), 3U);
  EXPECT_TRUE(channel->task_done());
  EXPECT_CODE(Code::kTimeout, channel->join(Deadline::after_seconds(0)));
  EXPECT_CODE(Code::kTimeout, channel->join(Deadline::after_seconds(0.02)));
  std::thread waiter([&] { EXPECT_OK(channel->join(Deadline::after_seconds(10))); });
  EXPECT_TRUE(channel->task_done());
  EXPECT_TRUE(channel->task_done());
  waiter.join();
  EXPECT_FALSE(channel->task_done());
  EXPECT_EQ(channel->unfinished(), 0U);
}

// A putter knows the bytes that were sent until its own last put, and not those that others sent since.
TEST_F(ChannelTest, PuttersInTurnCountAllBytes) {
  ChannelPtr one = make_channel();
  Result<ChannelPtr> another = Channel::open(node().channels(), one->id());
  ASSERT_OK(another);
  const ChannelRow& row = row_of(one);
  std::uint64_t bytes = 0;
  for (unsigned i = 0; i < 20; ++i) {
    const std::string text = pattern(100 * i + 1, i);
    ASSERT_OK(put_text(i % 3 == 0 ? *one : **another, text));
    bytes += text.size();
    const std::uint64_t tail = row.tail.load();
    EXPECT_EQ(row.tail_bytes[Position::unpack(tail).sequence() & 1].load(), bytes);
    EXPECT_EQ(row.put_tail.load(), tail);
    ASSERT_EQ(audit_of(node()), "");
  }
}

// On some processors those are written past the caches whose reader has taken all that was put before (copy_in).
TEST_F(ChannelTest, ContentsOfBlocksOfAllSizes) {
  ChannelPtr channel = make_channel();
  for (const std::size_t bytes :
       {9'000U, 32'767U, 32'768U, 32'769U, 65'536U, 100'003U, 262'144U, 524'288U, 524'289U, 700'001U}) {
    for (unsigned there = 1; there <= 4; ++there) {
      for (unsigned i = 0; i < there; ++i) ASSERT_OK(put_text(*channel, pattern(bytes - i, i)));
      for (unsigned i = 0; i < there; ++i) EXPECT_TRUE(*get_text(*channel) == pattern(bytes - i, i)) << bytes;
    }
  }
}

TEST_F(ChannelTest, APlaceForPuttersThatIsNotTheTailIsFoundByTheAudit) {
  ChannelPtr channel = make_channel();
  ASSERT_OK(put_text(*channel, "a"));
  ChannelRow& row = row_of(channel);
  const std::uint64_t place = row.put_tail.load();
  row.put_tail.store(Position::unpack(place).past(1).pack());
  EXPECT_NE(audit_of(node()).find("another place"), std::string::npos);
  row.put_tail.store(place);
  row.tail_state.store(kTailClosed);
  EXPECT_NE(audit_of(node()).find("another place"), std::string::npos);
  row.put_tail.store(0);
  EXPECT_EQ(audit_of(node()), "");
}

// Sequences are 30 bits and positions wrap; so do the counts derived from them.
TEST_F(ChannelTest, SequencesWrap) {
  for (const ChannelOptions& options :
       {ChannelOptions{}, ChannelOptions{.capacity = 5}, ChannelOptions{.byte_capacity = 100'000}}) {
    ChannelPtr channel = make_channel(options);
    ChannelRow& row = row_of(channel);
    const std::uint32_t start = kSequenceMask - 20;
    const std::uint64_t position = Position{0, 0, start}.pack();
    row.tail = position;
    row.put_tail = 0;
    row.head = position;
    row.done = start;
    row.seen_head = start;
    row.seen_tail = position;
    row.tail_bytes[start & 1] = 0;
    row.head_bytes[start & 1] = 0;
    for (unsigned i = 0; i < 50; ++i) {
      LeasePtr block = allocate(Kind::kShare, 100);
      const std::string text = pattern(i, i);
      ASSERT_OK(channel->put({.bytes = bytes_of(text), .leases = {&block, 1}}, Deadline::after_seconds(0)));
      ASSERT_OK(put_text(*channel, pattern(10'000, i), 0));
      EXPECT_EQ(channel->size(), 2U);
      EXPECT_EQ(channel->unfinished(), 2U);
      ASSERT_EQ(audit_of(node()), "");
      Incoming message;
      ASSERT_OK(channel->get(message, Deadline::after_seconds(0)));
      EXPECT_EQ(text_of(message), text);
      EXPECT_EQ(message.leases().size(), 1U);
      EXPECT_EQ(*get_text(*channel, 0), pattern(10'000, i));
      EXPECT_TRUE(channel->task_done());
      EXPECT_TRUE(channel->task_done());
      EXPECT_FALSE(channel->task_done());
    }
    EXPECT_LT(Position::unpack(row.tail.load()).sequence(), 100U);
  }
}

}  // namespace
}  // namespace forklift::channel
