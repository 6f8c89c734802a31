// Which puts are answers.
#include "channel/answers.h"

#include <array>
#include <thread>
#include <vector>

#include "support/node_fixture.h"

namespace forklift::channel {
namespace {

TEST(Answers, APutBehindAWaitIsOne) {
  Answers answers;
  (void)answers.is_answer();  // what this thread did before
  EXPECT_FALSE(answers.is_answer());
  ++exchange.waits_ended;
  EXPECT_TRUE(answers.is_answer());
  EXPECT_FALSE(answers.is_answer());
}

TEST(Answers, EachChannelHasItsOwn) {
  Answers first;
  Answers second;
  (void)first.is_answer();
  (void)second.is_answer();
  ++exchange.waits_ended;
  EXPECT_TRUE(first.is_answer());
  EXPECT_TRUE(second.is_answer());
}

TEST(Exchange, AReaderIsAwakeThatNeitherSleepsNorHasJustWokenThisThread) {
  Exchange own;
  own.note_put(1, false);
  EXPECT_TRUE(own.reader_is_awake);
  own.note_put(1, true);
  EXPECT_FALSE(own.reader_is_awake);
  own.has_slept = true;
  own.note_put(1, false);
  EXPECT_FALSE(own.reader_is_awake) << "it may still be waking this thread";
  own.note_put(1, false);
  EXPECT_TRUE(own.reader_is_awake) << "it was put without a sleep";
}

class AnswersTest : public test::NodeFixture {};

TEST_F(AnswersTest, WhatIsLearntOfWaitsForAnswersIsLearntForSleepingReadersApart) {
  const ChannelPtr questions = make_channel(), answers = make_channel();
  const auto policy = [&] { return answers->for_message().spin_policy; };
  exchange = {};
  ASSERT_OK(test::put_text(*questions, "nobody sleeps"));
  const domain::SpinPolicy* const awake = policy();
  ASSERT_OK(test::get_text(*questions).status());
  {
    std::thread reader([&] { EXPECT_OK(test::get_text(*questions, 60).status()); });
    while (!questions->items().has_sleepers()) std::this_thread::yield();
    ASSERT_OK(test::put_text(*questions, "it sleeps"));
    reader.join();
  }
  EXPECT_NE(policy(), awake);
  ASSERT_OK(test::put_text(*questions, "and now nobody sleeps"));
  EXPECT_EQ(policy(), awake);
  // Several at once, likewise.
  ASSERT_OK(test::get_text(*questions).status());
  {
    std::thread reader([&] {
      EXPECT_OK(test::get_text(*questions, 60).status());
      EXPECT_OK(test::get_text(*questions, 60).status());
    });
    while (!questions->items().has_sleepers()) std::this_thread::yield();
    const std::array<Outgoing, 2> two{};
    std::size_t count = 0;
    ASSERT_OK(questions->put_many(two, count, os::Deadline::never()));
    ASSERT_EQ(count, 2U);
    reader.join();
  }
  EXPECT_NE(policy(), awake);
  // Who was woken does not know whether the one who woke it is done with that.
  std::thread other([&] {
    while (!answers->items().has_sleepers()) std::this_thread::yield();
    EXPECT_OK(test::put_text(*answers, "answer"));
  });
  ASSERT_OK(test::get_text(*answers, 60).status());
  other.join();
  ASSERT_OK(test::put_text(*questions, "at once"));
  EXPECT_NE(policy(), awake);
}

TEST_F(AnswersTest, SeveralMessagesPutTogetherAreOneQuestion) {
  const ChannelPtr channel = make_channel();
  exchange = {};
  const std::vector<std::byte> bytes(1024);
  const std::vector<Outgoing> many(64, Outgoing{.bytes = bytes});
  std::size_t count = 0;
  ASSERT_OK(channel->put_many(many, count, os::Deadline::never()));
  EXPECT_EQ(exchange.unanswered_bytes, 65536U);
}

TEST_F(AnswersTest, AGetThatWaitsIsAWait) {
  const ChannelPtr channel = make_channel();
  const std::uint32_t before = exchange.waits_ended;
  ASSERT_OK(test::put_text(*channel, "there"));
  ASSERT_OK(test::get_text(*channel).status());
  EXPECT_EQ(exchange.waits_ended, before);
  std::thread putter([&] {
    while (!channel->items().is_awaited()) std::this_thread::yield();
    ASSERT_OK(test::put_text(*channel, "comes"));
  });
  ASSERT_OK(test::get_text(*channel, 60).status());
  putter.join();
  EXPECT_GT(exchange.waits_ended, before);
}

}  // namespace
}  // namespace forklift::channel
