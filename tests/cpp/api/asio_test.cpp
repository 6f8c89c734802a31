// Forklift on Asio's io_context. Compiled where Asio is installed.
#if defined(FORKLIFT_TEST_ASIO)
#include "forklift/asio.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "forklift/event_loop.h"
#include "forklift/multiprocessing.h"
#include "support/child.h"
#include "support/process_fixture.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

class AsioTest : public test::ProcessFixture {
 protected:
  asio::io_context io_;
};

#if defined(ASIO_HAS_CO_AWAIT)
TEST_F(AsioTest, ItsCoroutinesGetMessages) {
  Queue<int> queue({.capacity = 3});
  test::Child putter([&] {
    for (int i = 0; i < 2000; ++i) queue.put(i);
    queue.close();
  });
  AsioSource source(io_.get_executor(), queue);
  int next = 0;
  bool closed = false;
  asio::co_spawn(
      io_,
      [&]() -> asio::awaitable<void> {
        try {
          for (;; ++next) EXPECT_EQ(co_await source.async_get(), next);
        } catch (const Closed&) {
          closed = true;
        }
      },
      asio::detached);
  io_.run();
  EXPECT_EQ(next, 2000);
  EXPECT_TRUE(closed);
  EXPECT_EQ(putter.wait(), 0);
}
#endif

TEST_F(AsioTest, HandlersAndCancellation) {
  Queue<int> queue;
  AsioSource source(io_.get_executor(), queue);
  std::vector<int> got;
  source.async_ready([&](const asio::error_code& error) {
    EXPECT_FALSE(error);
    got.push_back(source.source().try_get().value_or(-1));
  });
  queue.put(5);
  io_.run();
  EXPECT_THAT(got, ElementsAre(5));
  io_.restart();
  asio::error_code why;
  source.async_ready([&](const asio::error_code& error) { why = error; });
  asio::post(io_, [&] { source.cancel(); });
  io_.run();
  EXPECT_EQ(why, asio::error::operation_aborted);
  queue.put(6);
  EXPECT_EQ(queue.size(), 1U);
}

Task<> count(Reactor& loop, Queue<int> queue, int& got) {
  while (auto item = co_await queue.async_try_get(loop, 20s)) ++got;
}

TEST_F(AsioTest, OurCoroutinesRunOnIt) {
  AsioReactor reactor(io_);
  Queue<int> queue;
  test::Child putter([&] {
    for (int i = 0; i < 2000; ++i) queue.put(i);
    queue.close();
  });
  int got = 0, ended = 0;
  // Two coroutines wait for one descriptor.
  const auto run = [&]() -> Task<> {
    try {
      co_await count(reactor, queue, got);
    } catch (const Closed&) {
      ++ended;
    }
  };
  EventLoop starter;  // begins them; from their first wait on they are the reactor's
  starter.spawn(run());
  starter.spawn(run());
  io_.run();
  EXPECT_EQ(got, 2000);
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(putter.wait(), 0);
}

}  // namespace
}  // namespace forklift
#endif
