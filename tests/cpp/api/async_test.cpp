// Coroutines that wait for queues, topics, events and futures, on EventLoop.
#include "forklift/async.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <numeric>
#include <thread>
#include <vector>

#include "forklift/event_loop.h"
#include "forklift/multiprocessing.h"
#include "support/asleep.h"
#include "support/child.h"
#include "support/process_fixture.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using test::when_asleep;
using testing::ElementsAre;

int twice(int x) { return 2 * x; }
const Registered<&twice> kTwice{"async twice"};
int fail(int) { throw std::runtime_error("as asked"); }
const Registered<&fail> kFail{"async fail"};

class AsyncTest : public test::ProcessFixture {
 protected:
  // Its coroutines go before the fixture looks for what is left.
  void TearDown() override {
    owned_.reset();
    test::ProcessFixture::TearDown();
  }

 private:
  std::unique_ptr<EventLoop> owned_ = std::make_unique<EventLoop>();

 protected:
  EventLoop& loop_ = *owned_;
};

Task<> collect(Reactor& loop, Queue<int> queue, std::vector<int>& got) {
  try {
    for (;;) got.push_back(co_await queue.async_get(loop));
  } catch (const Closed&) {
  }
}

TEST_F(AsyncTest, GetsWhatAnotherProcessPuts) {
  Queue<int> queue({.capacity = 4});
  test::Child putter([&] {
    for (int i = 0; i < 2000; ++i) queue.put(i);
    queue.close();
  });
  std::vector<int> got;
  loop_.spawn(collect(loop_, queue, got));
  loop_.run();
  std::vector<int> expected(2000);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(got, expected);
  EXPECT_EQ(putter.wait(), 0);
}

TEST_F(AsyncTest, ManyCoroutinesShareAQueue) {
  Queue<int> queue;
  test::Child putter([&] {
    for (int i = 0; i < 5000; ++i) queue.put(i);
    queue.close();
  });
  std::vector<std::vector<int>> got(20);
  for (std::vector<int>& each : got) loop_.spawn(collect(loop_, queue, each));
  loop_.run();
  EXPECT_EQ(putter.wait(), 0);
  std::vector<int> all;
  for (const std::vector<int>& each : got) {
    EXPECT_TRUE(std::is_sorted(each.begin(), each.end()));
    all.insert(all.end(), each.begin(), each.end());
  }
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), 5000U);
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

Task<> put_all(Reactor& loop, Queue<int> queue, int count) {
  for (int i = 0; i < count; ++i) co_await queue.async_put(loop, i);
}

TEST_F(AsyncTest, PutsWaitForRoom) {
  Queue<int> queue({.capacity = 2});
  test::Child taker([&] {
    for (int i = 0; i < 2000; ++i) EXPECT_EQ(queue.get(), i);
  });
  loop_.spawn(put_all(loop_, queue, 2000));
  loop_.run();
  EXPECT_EQ(taker.wait(), 0);
}

TEST_F(AsyncTest, ALoopIsItsOwnPeer) {
  Queue<int> queue({.capacity = 1});
  std::vector<int> got;
  loop_.spawn([](Reactor& loop, Queue<int> numbers, std::vector<int>& into) -> Task<> {
    while (into.size() < 100) into.push_back(co_await numbers.async_get(loop));
  }(loop_, queue, got));
  loop_.spawn(put_all(loop_, queue, 100));
  loop_.run();
  EXPECT_EQ(got.size(), 100U);
  EXPECT_EQ(got.back(), 99);
}

TEST_F(AsyncTest, SubscriptionsLatestsAndEvents) {
  Broadcast<int> topic;
  Latest<int> latest;
  Event go;
  std::vector<int> got;
  loop_.spawn([](Reactor& loop, Subscription<int> numbers, Latest<int> newest, Event event,
                 std::vector<int>& into) -> Task<> {
    co_await event.async_wait(loop);
    into.push_back(co_await numbers.async_get(loop));
    into.push_back(co_await newest.async_get(loop));
    into.push_back(co_await newest.async_try_get(loop, 1ms) ? 1 : 0);
    event.clear();
    into.push_back(co_await event.async_try_wait(loop, 1ms) ? 1 : 0);
  }(loop_, topic.subscribe(), latest, go, got));
  test::Child putter([&] {
    latest.put(7);
    topic.put(5);
    go.set();
  });
  loop_.run();
  EXPECT_EQ(putter.wait(), 0);
  EXPECT_THAT(got, ElementsAre(5, 7, 0, 0));
}

TEST_F(AsyncTest, FuturesAnswerAndThrow) {
  Pool pool({.workers = 1});
  std::vector<int> got;
  std::string failure;
  loop_.spawn([](Reactor& loop, Pool& workers, std::vector<int>& into, std::string& why) -> Task<> {
    Future<int> first = workers.submit(twice, 4);
    into.push_back(co_await first.async_get(loop));
    Future<int> second = workers.submit(twice, 5);
    into.push_back((co_await second.async_try_get(loop, 60s)).value_or(-1));
    Future<int> third = workers.submit(fail, 0);
    try {
      (void)co_await third.async_get(loop);
    } catch (const RemoteError& error) {
      why = error.what();
    }
  }(loop_, pool, got, failure));
  loop_.run();
  EXPECT_THAT(got, ElementsAre(8, 10));
  EXPECT_THAT(failure, testing::HasSubstr("as asked"));
}

TEST_F(AsyncTest, TimesAndStopsEndAWait) {
  Queue<int> queue;
  Queue<int> full({.capacity = 1});
  full.put(1);
  std::stop_source stop;
  std::vector<bool> answers;
  loop_.spawn([](Reactor& loop, Queue<int> empty, Queue<int> bounded, std::stop_token token,
                 std::vector<bool>& into) -> Task<> {
    into.push_back((co_await empty.async_try_get(loop, 5ms)).has_value());
    into.push_back(co_await bounded.async_try_put(loop, 2, 5ms));
    into.push_back((co_await empty.async_try_get(loop, token)).has_value());
    into.push_back((co_await empty.async_try_get(loop, token)).has_value());  // stopped before
    empty.put(1);
    into.push_back((co_await empty.async_try_get(loop, token)).has_value());
  }(loop_, queue, full, stop.get_token(), answers));
  const std::jthread stopper = when_asleep([&] { stop.request_stop(); });
  loop_.run();
  EXPECT_EQ(answers, (std::vector<bool>{false, false, false, false, true}));
  EXPECT_EQ(full.size(), 1U);
}

TEST_F(AsyncTest, ACoroutineThatIsDestroyedWhileItWaitsTakesNothing) {
  Queue<int> queue;
  std::vector<int> got;
  {
    EventLoop loop;
    loop.spawn(collect(loop, queue, got));
    std::stop_source stop;
    loop.spawn([](Reactor& reactor, Queue<int> numbers, std::stop_token token) -> Task<> {
      (void)co_await numbers.async_try_get(reactor, {60s, token});
    }(loop, queue, stop.get_token()));
    stop.request_stop();  // its call is posted, and made by nobody
  }
  queue.put(1);
  EXPECT_TRUE(got.empty());
  EXPECT_EQ(queue.size(), 1U);
}

TEST_F(AsyncTest, AnExceptionEndsTheRunAndLeavesTheOthers) {
  Queue<int> queue;
  std::vector<int> got;
  loop_.spawn(collect(loop_, queue, got));
  loop_.spawn([](Reactor& loop, Queue<int> numbers) -> Task<> {
    (void)co_await numbers.async_try_get(loop, 1ms);
    throw std::runtime_error("of a coroutine");
  }(loop_, queue));
  EXPECT_THROW(loop_.run(), std::runtime_error);
  queue.put(1);
  queue.close();
  loop_.run();
  EXPECT_THAT(got, ElementsAre(1));
}

TEST_F(AsyncTest, StopEndsARunFromAnotherThread) {
  Queue<int> queue;
  std::vector<int> got;
  loop_.spawn(collect(loop_, queue, got));
  {
    const std::jthread stopper = when_asleep([&] { loop_.stop(); });
    loop_.run();
  }
  int posted = 0;
  loop_.post([&] {
    ++posted;
    loop_.stop();
  });
  loop_.run();
  EXPECT_EQ(posted, 1);
}

TEST_F(AsyncTest, AQueueThatIsGoneThrows) {
  Queue<int> queue;
  queue.reset();
  std::vector<int> got;
  loop_.spawn([](Reactor& loop, Queue<int> numbers) -> Task<> {
    EXPECT_THROW((void)co_await numbers.async_get(loop), Error);
  }(loop_, queue));
  loop_.run();
}

TEST_F(AsyncTest, APutterThatIsKilledLeavesNoMessageBehind) {
  for (int round = 0; round < 10; ++round) {
    Queue<int> queue({.capacity = 1});
    std::vector<int> got;
    EventLoop loop;
    loop.spawn([](Reactor& reactor, Queue<int> numbers, std::vector<int>& into) -> Task<> {
      for (;;) into.push_back(co_await numbers.async_get(reactor));
    }(loop, queue, got));
    test::Child putter([&] {
      for (int i = 0;; ++i) queue.put(i);
    });
    loop.post([] {});
    std::jthread killer([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(1000 + 900 * round));
      putter.kill_now();
      // What it left is taken by the loop, if need be after a look for deaths.
      EXPECT_TRUE(test::eventually([&] { return queue.empty(); }, 30'000));
      loop.stop();
    });
    loop.run();
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], static_cast<int>(i));
  }
}

}  // namespace
}  // namespace forklift
