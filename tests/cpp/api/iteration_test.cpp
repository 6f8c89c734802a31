// Iterating over what comes until it is closed: queues between processes, connections, Subscriptions, Latest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <ranges>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "forklift/multiprocessing.h"
#include "support/asleep.h"
#include "support/child.h"
#include "support/process_fixture.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing::ElementsAre;

static_assert(std::ranges::input_range<Queue<int>>);
static_assert(std::ranges::input_range<Subscription<std::string>>);
static_assert(std::ranges::input_range<Latest<Tensor>>);
static_assert(std::ranges::input_range<Connection<int, void>>);
static_assert(std::ranges::input_range<decltype(std::declval<Queue<int>&>().each(1s))>);

void put_thousand_and_close(Queue<int>& numbers) {
  for (int i = 0; i < 1000; ++i) numbers.put(i);
  numbers.close();
}
const Registered<&put_thousand_and_close> kPutThousand{"iteration: put a thousand"};

void collect(Queue<int>& numbers, Queue<std::vector<int>>& collected) {
  std::vector<int> mine;
  for (const int number : numbers) mine.push_back(number);
  collected.put(mine);
}
const Registered<&collect> kCollect{"iteration: collect"};

class IterationTest : public test::ProcessFixture {};
class IterationMethods : public test::EveryMethod {};
INSTANTIATE_TEST_SUITE_P(Methods, IterationMethods, test::kEveryMethod, test::method_name);

TEST_P(IterationMethods, EndsWhenAnotherProcessHasClosedTheQueue) {
  Queue<int> numbers({.capacity = 16});
  Process child = context().process(put_thousand_and_close, numbers).start();
  int expected = 0;
  for (const int number : numbers) ASSERT_EQ(number, expected++);
  EXPECT_EQ(expected, 1000);
  EXPECT_TRUE(numbers.closed());
  child.join();
}

TEST_P(IterationMethods, EachItemReachesOneOfSeveralProcesses) {
  constexpr int kCount = 3000;
  Queue<int> numbers({.capacity = 32});
  Queue<std::vector<int>> collected;
  std::vector<Process> consumers;
  for (int i = 0; i < 3; ++i) consumers.push_back(context().process(collect, numbers, collected).start());
  for (int i = 0; i < kCount; ++i) numbers.put(i);
  numbers.close();
  std::vector<int> all;
  for (int i = 0; i < 3; ++i) {
    const std::vector<int> some = collected.get();
    EXPECT_TRUE(std::is_sorted(some.begin(), some.end()));
    all.insert(all.end(), some.begin(), some.end());
  }
  for (Process& consumer : consumers) consumer.join();
  std::sort(all.begin(), all.end());
  std::vector<int> expected(kCount);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

TEST_F(IterationTest, EachEndsByAStopOrByTime) {
  Queue<int> queue;
  for (int i = 0; i < 3; ++i) queue.put(i);
  std::vector<int> got;
  {
    std::stop_source stop;
    const std::jthread stopper = test::when_asleep([&] { stop.request_stop(); });
    for (const int number : queue.each(stop.get_token())) got.push_back(number);
    EXPECT_TRUE(stop.stop_requested());
  }
  EXPECT_THAT(got, ElementsAre(0, 1, 2));
  EXPECT_FALSE(queue.closed()) << "only this loop has ended";
  for (int i = 3; i < 6; ++i) queue.put(i);
  got.clear();
  for (const int number : queue.each(20ms)) got.push_back(number);
  EXPECT_THAT(got, ElementsAre(3, 4, 5));
  queue.put(6);
  got.clear();
  std::stop_source stopped;
  stopped.request_stop();
  for (const int number : queue.each({1h, stopped.get_token()})) got.push_back(number);
  EXPECT_THAT(got, ElementsAre(6)) << "what is there is taken";
  for (const int number : queue.each(Wait::now())) ADD_FAILURE() << number;
  queue.put(7);
  queue.close();
  for (const int number : queue.each(1h)) EXPECT_EQ(number, 7);
  EXPECT_THROW((void)queue.get(), Closed);
}

TEST_F(IterationTest, AnItemMayBeMovedFrom) {
  Queue<std::string> words;
  Queue<std::vector<int>> lists;
  Queue<std::vector<std::string>> texts;
  std::vector<std::string> sent;
  for (const std::size_t size : {10'000U, 3U, 0U, 100U, 20'000U}) {
    sent.emplace_back(size, static_cast<char>('a' + sent.size()));
    words.put(sent.back());
    lists.put(std::vector<int>(size, static_cast<int>(size)));
    texts.put({sent.back(), "and"});
  }
  words.close();
  lists.close();
  texts.close();
  std::vector<std::string> got;
  for (std::string& word : words) got.push_back(std::move(word));
  EXPECT_EQ(got, sent);
  std::size_t at = 0;
  for (const std::vector<int>& list : lists) {
    ASSERT_EQ(list.size(), sent[at++].size());
    EXPECT_THAT(list, Each(static_cast<int>(list.size())));
  }
  EXPECT_EQ(at, sent.size());
  at = 0;
  for (const std::vector<std::string>& text : texts) EXPECT_THAT(text, ElementsAre(sent[at++], "and"));
  EXPECT_EQ(at, sent.size());
}

TEST_F(IterationTest, TensorsThatAreKeptStayAsTheyAre) {
  Queue<Tensor> frames({.capacity = 4});
  Process child = Process::fork([&] {
                    for (int i = 0; i < 20; ++i) {
                      Tensor frame = Tensor::empty({100}, DType::kInt32);
                      frame.fill(i);
                      frames.put(std::move(frame));
                    }
                    frames.close();
                  }).start();
  std::vector<Tensor> kept;
  for (const Tensor& frame : frames) kept.push_back(frame);
  child.join();
  ASSERT_EQ(kept.size(), 20U);
  for (int i = 0; i < 20; ++i)
    EXPECT_THAT(kept[static_cast<std::size_t>(i)].span<const std::int32_t>(), Each(i));
}

TEST_F(IterationTest, AJoinableQueueToo) {
  JoinableQueue<int> jobs({.capacity = 4});
  SharedValue<int> sum;
  Process worker = Process::fork([&] {
                     for (const int job : jobs) {
                       sum.atomic().fetch_add(job);
                       jobs.task_done();
                     }
                   }).start();
  for (int i = 1; i <= 100; ++i) jobs.put(i);
  jobs.join();
  EXPECT_EQ(sum.get(), 5050);
  jobs.close();
  worker.join();
}

TEST_F(IterationTest, AConnectionUntilTheOtherProcessEnds) {
  for (const bool killed : {false, true}) {
    auto [parent, child] = make_pipe<std::string>();
    Process writer = Process::fork([&, &mine = child, &theirs = parent] {
                       theirs.close();
                       for (int i = 0; i < 100; ++i) mine.put(std::to_string(i));
                       if (killed) ::raise(SIGKILL);
                     }).start();
    child.close();
    int expected = 0;
    for (const std::string& text : parent) EXPECT_EQ(text, std::to_string(expected++));
    EXPECT_EQ(expected, 100);
    EXPECT_THROW((void)parent.get(), Closed);
    EXPECT_THROW((void)parent.try_get(1h), Closed);
    writer.join();
  }
}

TEST_F(IterationTest, AConnectionUntilAStop) {
  auto [writer, reader] = make_pipe<int, void>();
  writer.put(1);
  std::stop_source stop;
  const std::jthread stopper = test::when_asleep([&] { stop.request_stop(); });
  std::vector<int> got;
  for (const int number : reader.each(stop.get_token())) got.push_back(number);
  EXPECT_THAT(got, ElementsAre(1));
  writer.put(2);
  EXPECT_EQ(reader.get(), 2);
}

TEST_F(IterationTest, ASubscriptionUntilTheClose) {
  Broadcast<int> stream({.capacity = 8, .when_slow = WhenSlow::kWait});
  Process child = Process::fork([&] {
                    auto reader = stream.subscribe();
                    int sum = 0;
                    for (const int number : reader) sum += number;
                    return sum;
                  }).start();
  ASSERT_TRUE(stream.try_wait_for_readers(1, 20s));
  auto here = stream.subscribe();
  for (int i = 0; i < 5; ++i) stream.put(i);
  std::vector<int> got;
  for (const int number : here.each(Wait::now())) got.push_back(number);
  EXPECT_THAT(got, ElementsAre(0, 1, 2, 3, 4));
  const std::jthread closer = test::when_asleep([&] {
    stream.put(5);
    stream.close();
  });
  got.clear();
  for (const int number : here) got.push_back(number);
  EXPECT_THAT(got, ElementsAre(5));
  EXPECT_THROW((void)stream.try_put(6), Closed);
  child.join();
  EXPECT_EQ(child.exitcode(), 15);
}

TEST_F(IterationTest, ALatestUntilTheClose) {
  Latest<int> newest;
  Queue<int> seen;
  Process child = Process::fork([&] {
                    for (const int number : newest) seen.put(number);
                    seen.close();
                  }).start();
  for (int i = 1; i <= 5; ++i) {
    newest.put(i);
    EXPECT_EQ(seen.try_get(20s), i);
  }
  newest.put(6);
  newest.close();
  EXPECT_TRUE(newest.closed());
  std::vector<int> rest;
  for (const int number : seen) rest.push_back(number);
  EXPECT_THAT(rest, ElementsAre(6)) << "the last value is got, then it ends";
  child.join();
  EXPECT_EQ(newest.get(), 6);
  EXPECT_THROW((void)newest.get(), Closed);
  EXPECT_THROW(newest.put(7), Closed);
}

// Nothing is got twice, and what is missing is the one item that the killed process had taken and not counted.
TEST_F(IterationTest, OthersGoOnWhenOneOfThemIsKilled) {
  constexpr int kCount = 2000;
  Queue<int> numbers({.capacity = 8});
  const SharedArray<int> got(kCount);
  const SharedValue<int> by_the_first;
  std::vector<Process> consumers;
  for (int who = 0; who < 3; ++who) {
    consumers.push_back(Process::fork([&, who] {
                          for (const int number : numbers) {
                            got.atomic(static_cast<std::size_t>(number)).fetch_add(1);
                            if (who == 0) by_the_first.atomic().fetch_add(1);
                          }
                        }).start());
  }
  for (int i = 0; i < kCount; ++i) {
    numbers.put(i);
    if (i != kCount / 2) continue;
    EXPECT_TRUE(test::eventually([&] { return numbers.empty() || by_the_first.atomic().load() > 0; }));
    consumers[0].kill();
    consumers[0].join();
  }
  numbers.close();
  for (Process& consumer : consumers) consumer.join();
  EXPECT_EQ(consumers[0].exitcode(), -SIGKILL);
  EXPECT_EQ(consumers[1].exitcode(), 0);
  EXPECT_EQ(std::count_if(got.begin(), got.end(), [](int times) { return times > 1; }), 0);
  EXPECT_LE(std::count(got.begin(), got.end(), 0), 1);
}

}  // namespace
}  // namespace forklift
