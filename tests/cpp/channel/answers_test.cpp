// Which puts are answers.
#include "channel/answers.h"

#include <thread>

#include "support/node_fixture.h"

namespace forklift::channel {
namespace {

TEST(Answers, APutBehindAWaitIsOne) {
  Answers answers;
  (void)answers.is_answer();  // what this thread did before
  EXPECT_FALSE(answers.is_answer());
  ++waits_ended;
  EXPECT_TRUE(answers.is_answer());
  EXPECT_FALSE(answers.is_answer());
}

TEST(Answers, EachChannelHasItsOwn) {
  Answers first;
  Answers second;
  (void)first.is_answer();
  (void)second.is_answer();
  ++waits_ended;
  EXPECT_TRUE(first.is_answer());
  EXPECT_TRUE(second.is_answer());
}

class AnswersTest : public test::NodeFixture {};

TEST_F(AnswersTest, AGetThatWaitsIsAWait) {
  const ChannelPtr channel = make_channel();
  const std::uint32_t before = waits_ended;
  ASSERT_OK(test::put_text(*channel, "there"));
  ASSERT_OK(test::get_text(*channel).status());
  EXPECT_EQ(waits_ended, before);
  std::thread putter([&] {
    while (!channel->items().is_awaited()) std::this_thread::yield();
    ASSERT_OK(test::put_text(*channel, "comes"));
  });
  ASSERT_OK(test::get_text(*channel, 60).status());
  putter.join();
  EXPECT_GT(waits_ended, before);
}

}  // namespace
}  // namespace forklift::channel
