// Topics: what every reader sees, what is kept and released, what happens to the slow and the dead.
#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "support/asleep.h"
#include "support/topic_fixture.h"

namespace forklift::test {
namespace {

TEST_F(TopicTest, EveryReaderGetsEveryMessageFromWhenItCame) {
  const TopicPtr topic = make();
  EXPECT_OK(put(*topic, 1));
  const ReaderPtr early = subscribe(topic);
  EXPECT_OK(put(*topic, 2));
  const ReaderPtr late = subscribe(topic);
  EXPECT_OK(put(*topic, 3));
  EXPECT_EQ(topic->readers(), 2U);
  EXPECT_EQ(early->behind(), 2U);
  EXPECT_EQ(take(*early), 2U);
  EXPECT_EQ(take(*early), 3U);
  EXPECT_EQ(take(*early), 0U);
  EXPECT_EQ(take(*late), 3U);
  EXPECT_EQ(take(*late), 0U);
  EXPECT_EQ(early->missed() + late->missed(), 0U);
}

TEST_F(TopicTest, AMessageOfAnySizeArrivesWhole) {
  const TopicPtr topic = make({.capacity = 4});
  const ReaderPtr first = subscribe(topic);
  const ReaderPtr second = subscribe(topic);
  std::uint64_t number = 0;
  for (const Shape& shape :
       {Shape{.bytes = 16}, Shape{.bytes = 2015}, Shape{.bytes = 2016}, Shape{.bytes = 2017},
        Shape{.bytes = 100'000}, Shape{.bytes = 40, .blocks = {64, 5000}},
        Shape{.bytes = 3000, .blocks = {64, 70'000, 8}}, Shape{.bytes = 40, .blocks = {20'000}}}) {
    ASSERT_OK(put(*topic, ++number, shape));
    EXPECT_EQ(take(*first, shape), number) << shape.bytes;
    EXPECT_EQ(take(*second, shape), number) << shape.bytes;
  }
}

TEST_F(TopicTest, AllReadersSeeOneCopy) {
  const TopicPtr topic = make();
  const ReaderPtr first = subscribe(topic);
  const ReaderPtr second = subscribe(topic);
  const LeasePtr block = allocate(Kind::kShare, 4096);
  const std::byte* memory = block->data();
  EXPECT_OK(topic->put({.leases = {&block, 1}}, Deadline::after_seconds(1)));
  EXPECT_FALSE(block->held());
  Incoming one;
  Incoming two;
  EXPECT_OK(first->get(one, Deadline::after_seconds(1)));
  EXPECT_OK(second->get(two, Deadline::after_seconds(1)));
  ASSERT_EQ(one.leases().size(), 1U);
  EXPECT_EQ(one.leases()[0]->data(), memory);
  EXPECT_EQ(two.leases()[0]->data(), memory);
}

TEST_F(TopicTest, BlocksGoWhenTheLastReaderHasPassed) {
  const TopicPtr topic = make({.capacity = 8});
  const std::uint64_t ring = held_blocks();
  const ReaderPtr first = subscribe(topic);
  const ReaderPtr second = subscribe(topic);
  const Shape shape{.bytes = 40, .blocks = {5000, 64}};
  for (std::uint64_t i = 1; i <= 3; ++i) EXPECT_OK(put(*topic, i, shape));
  EXPECT_EQ(held_blocks(), ring + 6);
  for (std::uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(take(*first, shape), i);
  EXPECT_EQ(held_blocks(), ring + 6);
  EXPECT_EQ(take(*second, shape), 1U);
  EXPECT_EQ(held_blocks(), ring + 4);
  second->leave();
  EXPECT_EQ(held_blocks(), ring);
  EXPECT_EQ(topic->readers(), 1U);
  // Without readers nothing stays at all.
  first->leave();
  EXPECT_OK(put(*topic, 4, shape));
  EXPECT_EQ(held_blocks(), ring);
}

TEST_F(TopicTest, AReaderKeepsWhatItReceived) {
  const TopicPtr topic = make({.capacity = 1});
  const ReaderPtr reader = subscribe(topic);
  const Shape shape{.bytes = 40, .blocks = {5000}};
  EXPECT_OK(put(*topic, 1, shape));
  Incoming kept;
  EXPECT_OK(reader->get(kept, Deadline::after_seconds(1)));
  for (std::uint64_t i = 2; i < 40; ++i) EXPECT_OK(put(*topic, i, shape));
  Findings found;
  EXPECT_EQ(read_message(kept, shape, found), 1U);
  EXPECT_TRUE(found.empty());
}

TEST_F(TopicTest, KeptMessagesAreForReadersToCome) {
  const TopicPtr topic = make({.capacity = 4, .keep = 2});
  const Shape shape{.bytes = 40, .blocks = {64}};
  const std::uint64_t ring = held_blocks();
  for (std::uint64_t i = 1; i <= 10; ++i) EXPECT_OK(put(*topic, i, shape));
  EXPECT_EQ(held_blocks(), ring + 2);
  const ReaderPtr reader = subscribe(topic, true);
  EXPECT_EQ(take(*reader, shape), 9U);
  EXPECT_EQ(take(*reader, shape), 10U);
  EXPECT_EQ(take(*reader, shape), 0U);
  EXPECT_EQ(held_blocks(), ring + 2);
  for (std::uint64_t i = 11; i <= 13; ++i) EXPECT_OK(put(*topic, i, shape));
  EXPECT_EQ(held_blocks(), ring + 3);  // the reader has not seen 11
  EXPECT_EQ(take(*subscribe(topic, true), shape), 11U);
}

TEST_F(TopicTest, ASlowReaderMissesTheOldestAndIsTold) {
  const TopicPtr topic = make({.capacity = 4});
  const ReaderPtr slow = subscribe(topic);
  const ReaderPtr fast = subscribe(topic);
  const Shape shape{.bytes = 40, .blocks = {64}};
  for (std::uint64_t i = 1; i <= 10; ++i) {
    EXPECT_OK(put(*topic, i, shape, 0));
    EXPECT_EQ(take(*fast, shape), i);
  }
  EXPECT_EQ(slow->behind(), 4U);
  for (std::uint64_t i = 7; i <= 10; ++i) EXPECT_EQ(take(*slow, shape), i);
  EXPECT_EQ(slow->missed(), 6U);
  EXPECT_EQ(fast->missed(), 0U);
}

TEST_F(TopicTest, ASlowReaderIsDisconnected) {
  const TopicPtr topic = make({.capacity = 2, .when_slow = WhenSlow::kDisconnect});
  const ReaderPtr slow = subscribe(topic);
  for (std::uint64_t i = 1; i <= 2; ++i) EXPECT_OK(put(*topic, i));
  EXPECT_EQ(take(*slow), 1U);  // just in time
  for (std::uint64_t i = 3; i <= 5; ++i) EXPECT_OK(put(*topic, i));
  Incoming message;
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(slow->get(message, Deadline::after_seconds(1)).code(), Code::kClosed);
    EXPECT_TRUE(slow->disconnected());
  }
  EXPECT_GE(slow->missed(), 2U);
  EXPECT_EQ(topic->readers(), 0U);
}

TEST_F(TopicTest, AWriterWaitsForASlowReader) {
  const TopicPtr topic = make({.capacity = 2, .when_slow = WhenSlow::kWait});
  for (std::uint64_t i = 1; i <= 5; ++i) EXPECT_OK(put(*topic, i, {}, 0));  // nobody reads: nobody waits
  const ReaderPtr reader = subscribe(topic);
  EXPECT_OK(put(*topic, 6, {}, 0));
  EXPECT_OK(put(*topic, 7, {}, 0));
  EXPECT_EQ(put(*topic, 8, {}, 0).code(), Code::kTimeout);
  EXPECT_EQ(put(*topic, 8, {}, 0.05).code(), Code::kTimeout);
  std::thread writer([&] {
    for (std::uint64_t i = 8; i <= 200; ++i) EXPECT_OK(put(*topic, i, {}, 10));
  });
  for (std::uint64_t i = 6; i <= 200; ++i) EXPECT_EQ(take(*reader, {}, 10), i);
  writer.join();
  EXPECT_EQ(reader->missed(), 0U);
}

TEST_F(TopicTest, ALeavingReaderLetsTheWriterGoOn) {
  const TopicPtr topic = make({.capacity = 1, .when_slow = WhenSlow::kWait});
  const ReaderPtr reader = subscribe(topic);
  EXPECT_OK(put(*topic, 1));
  const std::jthread leaving = when_asleep([&] { reader->leave(); });
  EXPECT_OK(put(*topic, 2, {}, 10));
}

TEST_F(TopicTest, ADeadReaderHoldsNobodyUp) {
  const TopicPtr topic = make({.capacity = 2, .when_slow = WhenSlow::kWait});
  Gate ready;
  Child child([&] {
    const ReaderPtr reader = subscribe(topic);
    ready.open();
    ::pause();
  });
  ASSERT_TRUE(ready.wait());
  EXPECT_OK(put(*topic, 1, {.bytes = 40, .blocks = {64}}));
  EXPECT_OK(put(*topic, 2));
  EXPECT_EQ(put(*topic, 3, {}, 0).code(), Code::kTimeout);
  child.kill_now();
  EXPECT_OK(put(*topic, 3, {}, 0));  // it is looked after before anything is waited for
  EXPECT_EQ(topic->readers(), 0U);
}

TEST_F(TopicTest, AReaderThatDiesWhileItIsWaitedForIsForgotten) {
  const TopicPtr topic = make({.capacity = 1, .when_slow = WhenSlow::kWait});
  Gate ready, full;
  const pid_t writer = ::getpid();
  Child child([&] {
    const ReaderPtr reader = subscribe(topic);
    ready.open();
    EXPECT_TRUE(full.wait());
    EXPECT_TRUE(eventually_asleep(writer));
    ::raise(SIGKILL);
  });
  ASSERT_TRUE(ready.wait());
  EXPECT_OK(put(*topic, 1));
  full.open();
  EXPECT_OK(put(*topic, 2, {}, 10));
  EXPECT_EQ(child.wait(), -SIGKILL);
}

TEST_F(TopicTest, AChildReadsWhatItsParentPuts) {
  const TopicPtr topic = make({.capacity = 8, .when_slow = WhenSlow::kWait});
  const Shape shape{.bytes = 40, .blocks = {5000}};
  std::vector<Child> children;
  for (int i = 0; i < 3; ++i) {
    children.emplace_back([&] {
      const ReaderPtr reader = subscribe(topic);
      for (std::uint64_t number = 1; number <= 100; ++number) EXPECT_EQ(take(*reader, shape, 10), number);
    });
  }
  ASSERT_OK(topic->wait_readers(3, Deadline::after_seconds(10)));
  for (std::uint64_t number = 1; number <= 100; ++number) EXPECT_OK(put(*topic, number, shape, 10));
  for (Child& child : children) EXPECT_EQ(child.wait(), 0);
  domain().reap();
  EXPECT_EQ(topic->readers(), 0U);
}

TEST_F(TopicTest, ASubscriptionBelongsToItsProcess) {
  const TopicPtr topic = make();
  const ReaderPtr reader = subscribe(topic);
  Child child([&] {
    Incoming message;
    EXPECT_EQ(reader->get(message, Deadline::after_seconds(1)).code(), Code::kRefused);
    reader->leave();
  });
  EXPECT_EQ(child.wait(), 0);
  domain().reap();
  EXPECT_EQ(topic->readers(), 1U);
  EXPECT_OK(put(*topic, 1));
  EXPECT_EQ(take(*reader), 1U);
}

}  // namespace
}  // namespace forklift::test
