// forklift::Pool: streams of results whose feeding fails, and stops that end waits for a pool.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <tuple>
#include <vector>

#include "forklift/pool.h"
#include "forklift/shared_value.h"
#include "support/asleep.h"
#include "support/child.h"
#include "support/process_fixture.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

int square(int x) { return x * x; }
const Registered<&square> kSquare{"pool stream square"};

int sleep_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  return ms;
}
const Registered<&sleep_ms> kSleep{"pool stream sleep"};

void mark(const SharedValue<int>& ran, const SharedValue<int>& go) {
  ran.atomic().fetch_add(1);
  while (go.atomic() == 0) sleep_ms(1);
}
const Registered<&mark> kMark{"pool stream mark"};
using MarkArguments = std::tuple<SharedValue<int>, SharedValue<int>>;

// 0, 1, 2, ...: throws when it gives number `bad`, or when it steps there.
struct Numbers {
  int bad;
  bool in_step = false;
  struct Iterator {
    int at;
    const Numbers* of;
    int operator*() const {
      if (at == of->bad && !of->in_step) throw std::runtime_error("bad number");
      return at;
    }
    Iterator& operator++() {
      if (++at == of->bad && of->in_step) throw std::runtime_error("bad step");
      return *this;
    }
    bool operator==(std::nullptr_t) const { return at == 1000; }
  };
  Iterator begin() const { return {0, this}; }
  std::nullptr_t end() const { return nullptr; }
};

class PoolStream : public test::ProcessFixture {};

static_assert(std::input_iterator<ResultStream<int>::Iterator>);
static_assert(std::input_iterator<ResultStream<std::unique_ptr<int>>::Iterator>);
static_assert(std::ranges::input_range<ResultStream<int>>);

TEST_F(PoolStream, IsAnInputRange) {
  Pool pool({.workers = 2});
  const std::vector<int> numbers{1, 2, 3, 4};
  ResultStream<int> squares = pool.imap(square, numbers);
  auto even = squares | std::views::filter([](int n) { return n % 2 == 0; });
  std::vector<int> found;
  std::ranges::copy(even, std::back_inserter(found));
  EXPECT_THAT(found, ElementsAre(4, 16));
  ResultStream<int> again = pool.imap(square, numbers);
  EXPECT_EQ(std::accumulate(again.begin(), again.end(), 0), 30);
}

TEST_F(PoolStream, ARangeThatThrowsIsToldBehindTheResultsBeforeIt) {
  Pool pool({.workers = 2});
  for (const bool in_step : {false, true}) {
    for (const int bad : {1, 3, 60}) {
      ResultStream<int> results = pool.with({.ahead = 8}).imap(square, Numbers{bad, in_step});
      for (int i = 0; i < bad; ++i) EXPECT_EQ(results.get(), i * i);
      EXPECT_TRUE(results.try_wait(0s)) << "the error is there";
      EXPECT_THROW((void)results.get(), std::runtime_error);
      EXPECT_TRUE(results.try_wait(0s));
      EXPECT_THROW((void)results.get(), Closed);
      EXPECT_THROW((void)results.get(), Closed);
    }
  }
  EXPECT_THROW((void)pool.imap(square, Numbers{0}), std::runtime_error);
  EXPECT_EQ(pool.apply(square, 3), 9);
}

TEST_F(PoolStream, AsTheyComeItIsToldLast) {
  Pool pool({.workers = 2});
  ResultStream<int> results = pool.imap_unordered(square, Numbers{3});
  std::vector<int> got;
  try {
    for (const int result : results) got.push_back(result);
    FAIL() << "no exception";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "bad number");
  }
  EXPECT_THAT(got, UnorderedElementsAre(0, 1, 4));
  EXPECT_THROW((void)results.get(), Closed);
}

TEST_F(PoolStream, APoolThatIsClosedInTheMiddleLosesNothing) {
  Pool pool({.workers = 2});
  const std::vector<int> numbers(200, 3);
  ResultStream<int> results = pool.with({.ahead = 20}).imap(square, numbers);
  int got = 0;
  for (; got < 5; ++got) EXPECT_EQ(results.get(), 9);
  pool.close();
  try {
    for (;; ++got) EXPECT_EQ(results.get(), 9);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kClosed);
    EXPECT_EQ(dynamic_cast<const Closed*>(&error), nullptr) << "the feeding's end comes first";
  }
  EXPECT_GE(got, 20);
  EXPECT_LE(got, 25);
  EXPECT_THROW((void)results.get(), Closed);
  try {
    (void)pool.imap(square, numbers);
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kClosed);
  }
}

TEST_F(PoolStream, AMovedStreamIsClosed) {
  Pool pool({.workers = 2});
  ResultStream<int> results = pool.imap(square, std::vector<int>{1, 2});
  ResultStream<int> moved = std::move(results);
  const auto expect_closed = [](auto&& use) {
    try {
      use();
      ADD_FAILURE() << "no exception";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kClosed);
    }
  };
  // NOLINTBEGIN(bugprone-use-after-move)
  expect_closed([&] { (void)results.get(); });
  expect_closed([&] { (void)results.try_get(std::stop_token()); });
  expect_closed([&] { (void)results.try_wait(1s); });
  expect_closed([&] { (void)results.begin(); });
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_EQ(moved.get(), 1);
  EXPECT_EQ(moved.get(), 4);
  EXPECT_THROW((void)moved.get(), Closed);
}

TEST_F(PoolStream, AStopEndsAWaitAndTheStreamGoesOnAfterwards) {
  Pool pool({.workers = 2});
  ResultStream<int> results = pool.with({.ahead = 1}).imap(sleep_ms, std::vector<int>{300, 3});
  std::stop_source stop;
  {
    const std::jthread stopper = test::when_asleep([&] { stop.request_stop(); });
    EXPECT_EQ(results.try_get(stop.get_token()), std::nullopt);
  }
  EXPECT_FALSE(results.try_wait(0s)) << "it was the stop, not the end";
  EXPECT_EQ(results.get(), 300);
  EXPECT_TRUE(results.try_wait(20s));
  EXPECT_EQ(results.try_get(stop.get_token()), 3) << "what is there is there";
  EXPECT_THROW((void)results.try_get(std::stop_source().get_token()), Closed);
}

// Runs `call(options)` and stops it when it sleeps: it throws, and soon.
template <class Call>
void expect_stopped(Call&& call) {
  std::stop_source stop;
  const std::jthread stopper = test::when_asleep([&] { stop.request_stop(); });
  const auto begin = std::chrono::steady_clock::now();
  try {
    call(CallOptions{.wait = stop.get_token()});
    ADD_FAILURE() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInterrupted) << error.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
}

TEST_F(PoolStream, AStopEndsTheCallsAndCancelsWhatHasNotBegun) {
  Pool pool({.workers = 2});
  const SharedValue<int> ran;
  const SharedValue<int> go;
  const Future<void> busy[] = {pool.submit(mark, ran, go), pool.submit(mark, ran, go)};
  ASSERT_TRUE(test::eventually([&] { return ran.get() == 2; }));
  expect_stopped([&](const CallOptions& options) { pool.with(options).apply(mark, ran, go); });
  const std::vector<MarkArguments> many(2000, {ran, go});
  expect_stopped([&](const CallOptions& options) { pool.with(options).starmap(mark, many); });
  expect_stopped([&](const CallOptions& options) {
    (void)pool.with(options).map(sleep_ms, std::vector<int>{5000, 5000});
  });
  std::optional<ResultStream<int>> results;
  expect_stopped([&](const CallOptions& options) {
    results.emplace(pool.with(options).imap(sleep_ms, std::vector<int>(100, 5000)));
    (void)results->get();
  });
  EXPECT_THROW((void)results->get(), Closed);
  go.set(1);
  for (const Future<void>& each : busy) each.wait();
  EXPECT_EQ(pool.apply(square, 3), 9) << "nothing is in its way";
  EXPECT_EQ(ran.get(), 2) << "what had not begun never did";
}

TEST_F(PoolStream, AStopThatNeverComesChangesNothing) {
  Pool pool({.workers = 2});
  std::stop_source never;
  const PoolCalls calls = pool.with({.wait = never.get_token()});
  EXPECT_EQ(calls.apply(square, 3), 9);
  std::vector<int> numbers(3000);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int>(i);
  const std::vector<int> squares = calls.map(square, numbers);
  ASSERT_EQ(squares.size(), numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(squares[i], numbers[i] * numbers[i]);
  int sum = 0;
  for (const int result : calls.imap_unordered(square, std::vector<int>{1, 2, 3})) sum += result;
  EXPECT_EQ(sum, 14);
}

TEST_F(PoolStream, AStopThatWasRequestedStartsNothing) {
  Pool pool({.workers = 2});
  std::stop_source stop;
  stop.request_stop();
  const PoolCalls calls = pool.with({.wait = stop.get_token()});
  const SharedValue<int> ran;
  EXPECT_THROW(calls.apply(mark, ran, ran), Error);
  EXPECT_THROW(calls.starmap(mark, std::vector<MarkArguments>{{ran, ran}}), Error);
  EXPECT_EQ(pool.apply(square, 2), 4);
  EXPECT_EQ(ran.get(), 0);
}

TEST_F(PoolStream, ATimeThatIsOverEndsTheCalls) {
  Pool pool({.workers = 2});
  const auto expect_over = [&](const Wait& wait, auto&& call) {
    const auto begin = std::chrono::steady_clock::now();
    try {
      call(pool.with({.wait = wait}));
      ADD_FAILURE() << "no exception";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kTimeout) << error.what();
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  };
  const std::vector<int> slow(100, 400);
  for (const Wait& wait : {Wait(20ms), Wait(std::chrono::system_clock::now() + 20ms), Wait::now()}) {
    expect_over(wait, [](const PoolCalls& calls) { (void)calls.apply(sleep_ms, 400); });
    expect_over(wait, [&](const PoolCalls& calls) { (void)calls.map(sleep_ms, slow); });
    expect_over(wait, [&](const PoolCalls& calls) {
      for (const int result : calls.imap(sleep_ms, slow)) EXPECT_EQ(result, 400);
    });
  }
  // Of a stream it is the time for all of it.
  expect_over(600ms, [](const PoolCalls& calls) {
    for (const int result : calls.imap(sleep_ms, std::vector<int>(100, 50))) EXPECT_EQ(result, 50);
  });
  EXPECT_EQ(pool.with({.wait = 20s}).apply(square, 3), 9) << "nothing is in its way";
}

TEST_F(PoolStream, TryGetTakesWhatIsThere) {
  Pool pool({.workers = 2});
  ResultStream<int> results = pool.with({.ahead = 1}).imap(sleep_ms, std::vector<int>{300, 3});
  EXPECT_EQ(results.try_get(), std::nullopt);
  EXPECT_EQ(results.try_get(5ms), std::nullopt);
  EXPECT_EQ(results.try_get(20s), 300);
  EXPECT_EQ(results.try_get(Wait::forever()), 3);
  EXPECT_THROW((void)results.try_get(), Closed);

  Future<int> number = pool.submit(sleep_ms, 300);
  EXPECT_EQ(number.try_get(), std::nullopt);
  EXPECT_EQ(number.try_get({5ms, std::stop_token()}), std::nullopt);
  EXPECT_TRUE(number.valid()) << "it is still to come";
  EXPECT_EQ(number.try_get(20s), 300);
  EXPECT_FALSE(number.valid());
  const SharedValue<int> ran;
  const SharedValue<int> go;
  Future<void> nothing = pool.submit(mark, ran, go);
  EXPECT_FALSE(nothing.try_get(5ms));
  go.set(1);
  EXPECT_TRUE(nothing.try_get(20s));
}

TEST_F(PoolStream, AFutureWaitsUntil) {
  Pool pool({.workers = 2});
  const Future<int> slow = pool.submit(sleep_ms, 300);
  EXPECT_FALSE(slow.try_wait(std::chrono::steady_clock::now() + 10ms));
  EXPECT_FALSE(slow.try_wait(std::chrono::steady_clock::time_point::min()));
  EXPECT_TRUE(slow.try_wait(std::chrono::system_clock::now() + 20s));
}

}  // namespace
}  // namespace forklift
