// Topics: their end, the newest of their messages, many threads, damage and wrong arguments.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "support/asleep.h"
#include "support/topic_fixture.h"
#include "topic/topics.h"

namespace forklift::test {
namespace {

TEST_F(TopicTest, FinishedMeansNothingMore) {
  const TopicPtr topic = make();
  const ReaderPtr reader = subscribe(topic);
  EXPECT_OK(put(*topic, 1));
  EXPECT_OK(topic->finish());
  EXPECT_OK(topic->finish());
  EXPECT_EQ(put(*topic, 2).code(), Code::kClosed);
  EXPECT_EQ(take(*reader), 1U);
  Incoming message;
  EXPECT_EQ(reader->get(message, Deadline::never()).code(), Code::kClosed);
  EXPECT_TRUE(reader->at_end());
  EXPECT_FALSE(reader->disconnected());
}

TEST_F(TopicTest, FinishingWakesReadersAndWriters) {
  const TopicPtr topic = make({.capacity = 1, .when_slow = WhenSlow::kWait});
  const ReaderPtr slow = subscribe(topic);
  const TopicPtr other = make();
  const ReaderPtr waiting = subscribe(other);
  EXPECT_OK(put(*topic, 1));
  Sleeper puts, gets;
  std::thread writer([&] {
    puts.is_me();
    EXPECT_EQ(put(*topic, 2, {}, 20).code(), Code::kClosed);
  });
  std::thread reader([&] {
    gets.is_me();
    Incoming message;
    EXPECT_EQ(waiting->get(message, Deadline::never()).code(), Code::kClosed);
  });
  EXPECT_TRUE(puts.asleep());
  EXPECT_TRUE(gets.asleep());
  EXPECT_OK(topic->finish());
  EXPECT_OK(other->finish());
  writer.join();
  reader.join();
}

TEST_F(TopicTest, LeavingWakesAThreadThatWaits) {
  const TopicPtr topic = make();
  const ReaderPtr reader = subscribe(topic);
  Sleeper gets;
  std::thread waiting([&] {
    gets.is_me();
    Incoming message;
    EXPECT_EQ(reader->get(message, Deadline::never()).code(), Code::kClosed);
  });
  EXPECT_TRUE(gets.asleep());
  reader->leave();
  waiting.join();
}

TEST_F(TopicTest, TheNewestWins) {
  const TopicPtr topic = make({.capacity = 2, .keep = 1});
  const ReaderPtr reader = topic->newest();
  const ReaderPtr other = topic->newest();
  Incoming message;
  EXPECT_EQ(reader->peek(message).code(), Code::kTimeout);
  EXPECT_EQ(reader->get(message, Deadline::after_ns(0)).code(), Code::kTimeout);
  const Shape shape{.bytes = 40, .blocks = {5000}};
  const std::uint64_t ring = held_blocks();
  for (std::uint64_t i = 1; i <= 5; ++i) EXPECT_OK(put(*topic, i, shape, 0));
  EXPECT_EQ(held_blocks(), ring + 1);
  EXPECT_EQ(take(*reader, shape), 5U);
  EXPECT_EQ(reader->seen(), 5U);
  EXPECT_EQ(take(*reader, shape), 0U);  // seen already
  std::uint64_t version = 0;
  EXPECT_OK(reader->peek(message, &version));
  EXPECT_EQ(version, 5U);
  message.clear();
  EXPECT_EQ(take(*other, shape), 5U);
  EXPECT_OK(put(*topic, 6, shape));
  EXPECT_EQ(take(*reader, shape), 6U);
}

TEST_F(TopicTest, AReaderOfTheNewestKeepsTheOldOne) {
  const TopicPtr topic = make({.capacity = 2, .keep = 1});
  const Shape shape{.bytes = 40, .blocks = {300'000}};
  EXPECT_OK(put(*topic, 1, shape));
  Incoming weights;
  EXPECT_OK(topic->newest()->get(weights, Deadline::after_seconds(1)));
  for (std::uint64_t i = 2; i < 20; ++i) EXPECT_OK(put(*topic, i, shape));
  Findings found;
  EXPECT_EQ(read_message(weights, shape, found), 1U);
  EXPECT_TRUE(found.empty());
}

// Readers of a ring of two slots are overtaken all the time; nothing that they get is torn.
TEST_F(TopicTest, NothingIsTorn) {
  const TopicPtr topic = make({.capacity = 2, .keep = 1});
  std::atomic<bool> stop = false;
  const Shape small{.bytes = 1500};
  const Shape large{.bytes = 1400, .blocks = {200}};
  std::vector<std::thread> readers;
  std::atomic<std::uint64_t> seen = 0;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      const ReaderPtr reader = topic->newest();
      std::uint64_t last = 0;
      Incoming message;
      while (!stop) {
        if (!reader->get(message, Deadline::after_ns(1'000'000))) continue;
        Findings found;
        const std::uint64_t number = read_message(message, message.leases().empty() ? small : large, found);
        for (const std::string& line : found.lines()) ADD_FAILURE() << line;
        EXPECT_GT(number, last);
        last = number;
        ++seen;
      }
    });
  }
  for (std::uint64_t i = 1; i <= 20'000 || seen < 100; ++i)
    ASSERT_OK(put(*topic, i, i % 4 == 0 ? large : small));
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

TEST_F(TopicTest, SeveralWritersHaveOneOrder) {
  const TopicPtr topic = make({.capacity = 16, .when_slow = WhenSlow::kWait});
  constexpr std::uint64_t kEach = 2000;
  std::vector<std::vector<std::uint64_t>> orders(3);
  std::vector<std::thread> threads;
  for (auto& order : orders) {
    threads.emplace_back([&, reader = subscribe(topic)] {
      for (std::uint64_t i = 0; i < 2 * kEach; ++i) order.push_back(take(*reader, {}, 20));
    });
  }
  for (std::uint64_t writer = 1; writer <= 2; ++writer) {
    threads.emplace_back([&, writer] {
      for (std::uint64_t i = 1; i <= kEach; ++i) EXPECT_OK(put(*topic, writer * 1'000'000 + i, {}, 20));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(orders[0], orders[1]);
  EXPECT_EQ(orders[0], orders[2]);
}

TEST_F(TopicTest, ChildrenOfASpawnTakeUpAnOfferedTopic) {
  const TopicPtr topic = make();
  EXPECT_OK(topic->offer(domain().self()));
  Result<TopicPtr> opened = Topic::open(node().topics(), topic->id());
  ASSERT_OK(opened);
  EXPECT_OK(put(**opened, 1));
  EXPECT_EQ(topic->number(), 1U);
}

TEST_F(TopicTest, BadArguments) {
  EXPECT_EQ(Topic::create(node().topics(), {.capacity = 0}).code(), Code::kInvalid);
  EXPECT_EQ(Topic::create(node().topics(), {.capacity = 0xffffffff}).code(), Code::kInvalid);
  EXPECT_EQ(Topic::create(node().topics(), {.capacity = 4, .keep = 5}).code(), Code::kInvalid);
  EXPECT_EQ(Topic::create(node().topics(), {.slot_bytes = 100}).code(), Code::kInvalid);
  const TopicPtr topic = make();
  EXPECT_EQ(Topic::open(node().topics(), {topic->id().index, topic->id().generation + 1}).code(),
            Code::kInvalid);
  EXPECT_EQ(Topic::open(node().topics(), {77, 1}).code(), Code::kInvalid);
  EXPECT_EQ(topic->wait_readers(topic::kMostReaders + 1, Deadline::never()).code(), Code::kInvalid);
  const LeasePtr block = allocate(Kind::kShare, 64);
  const std::vector<LeasePtr> twice{block, block};
  EXPECT_EQ(topic->put({.leases = twice}, Deadline::never()).code(), Code::kInvalid);
  EXPECT_TRUE(block->held());
}

TEST_F(TopicTest, OneReaderMoreThanThereArePlaces) {
  const TopicPtr topic = make();
  std::vector<ReaderPtr> readers;
  for (std::uint32_t i = 0; i < topic::kMostReaders; ++i) readers.push_back(subscribe(topic));
  EXPECT_EQ(topic->subscribe().code(), Code::kNoSpace);
  readers[5].reset();
  readers[5] = subscribe(topic);
  EXPECT_OK(put(*topic, 1));
  for (const ReaderPtr& reader : readers) EXPECT_EQ(take(*reader), 1U);
}

// A damaged message costs that message.
TEST_F(TopicTest, DamageCostsOneMessage) {
  const TopicPtr topic = make({.capacity = 4});
  const ReaderPtr reader = subscribe(topic);
  const Shape shape{.bytes = 40, .blocks = {64}};
  EXPECT_OK(put(*topic, 1, shape));
  EXPECT_OK(put(*topic, 2, shape));
  topic::TopicRow& row = node().topics().unchecked_row(topic->id().index);
  std::byte* slot = node().topics().slot(row, 0);
  const std::uint64_t absurd = 0xffff'ffff'ffff'ffffU;
  topic::write_racing(slot + sizeof(topic::SlotHeader), &absurd, 8);
  Incoming message;
  EXPECT_EQ(reader->get(message, Deadline::after_seconds(1)).code(), Code::kCorrupt);
  EXPECT_EQ(take(*reader, shape), 2U);
  topic::write_racing(node().topics().slot(row, 2) + 8, &absurd, 8);
  EXPECT_EQ(audit_of(node()), "");
}

class TinyTopicTest : public TopicTest {
 protected:
  TinyTopicTest() : TopicTest(kTinyDomain) {}
};

TEST_F(TinyTopicTest, RunsOutOfPlacesWithAnError) {
  std::vector<TopicPtr> topics;
  for (;;) {
    Result<TopicPtr> made = Topic::create(node().topics(), {.capacity = 1, .slot_bytes = 128});
    if (!made) {
      EXPECT_EQ(made.code(), Code::kNoSpace);
      break;
    }
    topics.push_back(*std::move(made));
  }
  EXPECT_EQ(topics.size(), node().topics().capacity());
  topics.pop_back();
  EXPECT_OK(Topic::create(node().topics(), {.capacity = 1, .slot_bytes = 128}));
}

}  // namespace
}  // namespace forklift::test
