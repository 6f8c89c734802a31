// forklift::Pool on the three start methods: calls, results, futures. What goes wrong is in
// pool_life_test.cpp.
#include "forklift/pool.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <list>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "support/asleep.h"
#include "support/child.h"
#include "support/process_fixture.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAreArray;

int square(int x) { return x * x; }
const Registered<&square> kSquare{"pool square"};

double mix(int a, double b, char c) { return a + b + c; }
const Registered<&mix> kMix{"pool mix"};

std::string shout(const std::string& text) { return text + "!"; }
const Registered<&shout> kShout{"pool shout"};

std::map<std::string, std::vector<int>> count(const std::vector<std::string>& words, int by) {
  std::map<std::string, std::vector<int>> counts;
  for (const std::string& word : words) counts[word].push_back(by);
  return counts;
}
const Registered<&count> kCount{"pool count"};

Tensor brighten(Tensor image, float by) {
  for (float& pixel : image.span<float>()) pixel += by;
  return image;
}
const Registered<&brighten> kBrighten{"pool brighten"};

pid_t own_pid() { return ::getpid(); }
const Registered<&own_pid> kOwnPid{"pool own pid"};

void nothing(int) {}
const Registered<&nothing> kNothing{"pool nothing"};

int pick(int x) {
  if (x % 3 == 1) throw std::invalid_argument("not " + std::to_string(x));
  return x;
}
const Registered<&pick> kPick{"pool pick"};

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
const Registered<&sleep_ms> kSleep{"pool sleep"};

int slow_square(int ms) {
  sleep_ms(ms);
  return ms * ms;
}
const Registered<&slow_square> kSlowSquare{"pool slow square"};

void fail() { throw std::out_of_range("no such thing"); }
const Registered<&fail> kFail{"pool fail"};

class PoolTest : public test::EveryMethod {
 protected:
  static PoolOptions options(std::size_t workers = 2) {
    PoolOptions made;
    made.workers = workers;
    made.context = context();
    return made;
  }
};

void nothing_at_all() {}
const Registered<&nothing_at_all> kNothingAtAll{"pool nothing at all"};

TEST_P(PoolTest, Apply) {
  Pool pool(options());
  EXPECT_EQ(pool.apply(square, 7), 49);
  EXPECT_EQ(pool.apply(mix, 1, 2.5, 'a'), 1 + 2.5 + 'a');
  EXPECT_EQ(pool.apply(shout, "well"), "well!");
  EXPECT_EQ(pool.apply(count, std::vector<std::string>{"a", "b", "a"}, 3),
            (std::map<std::string, std::vector<int>>{{"a", {3, 3}}, {"b", {3}}}));
  pool.apply(nothing, 3);
  pool.apply(nothing_at_all);
  EXPECT_NE(pool.apply(own_pid), ::getpid());
  EXPECT_EQ(pool.apply(shout, std::string(100'000, 'x')).size(), 100'001U);
}

TEST_P(PoolTest, TensorsAreTheSameMemory) {
  Pool pool(options(1));
  const Tensor image = Tensor::zeros({64, 64}, DType::kFloat32);
  const Tensor result = pool.apply(brighten, image, 2.0F);
  EXPECT_EQ(image.at<float>({63, 63}), 2.0F);
  EXPECT_EQ(result.raw(), image.raw());
}

TEST_P(PoolTest, Map) {
  Pool pool(options());
  std::vector<int> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 0);
  const std::vector<int> squares = pool.map(square, numbers);
  ASSERT_EQ(squares.size(), numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(squares[i], numbers[i] * numbers[i]);
  EXPECT_THAT(pool.map(shout, std::list<const char*>{"a", "b"}), ElementsAre("a!", "b!"));
  EXPECT_THAT(pool.map(square, std::vector<int>()), IsEmpty());
  pool.map(nothing, numbers);
  EXPECT_THAT(pool.starmap(mix, std::vector<std::tuple<int, int, char>>{{1, 2, '\0'}, {3, 4, '\0'}}),
              ElementsAre(3.0, 7.0));
}

TEST_P(PoolTest, MapThrowsTheFirstFailure) {
  Pool pool(options());
  try {
    (void)pool.map(pick, std::vector<int>{0, 3, 4, 6, 7});
    FAIL() << "no exception";
  } catch (const RemoteError& error) {
    EXPECT_EQ(error.message(), "not 4");
    EXPECT_EQ(error.type(), "std::invalid_argument");
    EXPECT_THAT(error.process(), HasSubstr("PoolWorker-"));
    EXPECT_THAT(pool.pids(), testing::Contains(error.pid()));
  }
  EXPECT_EQ(pool.apply(square, 2), 4);
}

TEST_P(PoolTest, ImapIsInOrderAndNotFarAhead) {
  Pool pool(options());
  int made = 0;
  struct Endless {
    int* made;
    struct Iterator {
      int* made;
      int operator*() const { return (*made)++; }
      Iterator& operator++() { return *this; }
      bool operator==(std::nullptr_t) const { return *made >= 500; }
    };
    Iterator begin() const { return {made}; }
    std::nullptr_t end() const { return nullptr; }
  };
  int expected = 0;
  ResultStream<int> results = pool.with({.ahead = 10}).imap(square, Endless{&made});
  for (const int result : results) {
    EXPECT_EQ(result, expected * expected);
    ++expected;
    EXPECT_LE(made, expected + 10);
  }
  EXPECT_EQ(expected, 500);
}

TEST_P(PoolTest, ImapUnorderedGivesAll) {
  Pool pool(options());
  const std::vector<int> numbers{5, 1, 4, 2, 3};
  std::vector<int> results;
  for (const int result : pool.imap_unordered(square, numbers)) results.push_back(result);
  EXPECT_THAT(results, UnorderedElementsAreArray({25, 1, 16, 4, 9}));
}

TEST_P(PoolTest, ImapGoesOnBehindAFailure) {
  Pool pool(options());
  ResultStream<int> results = pool.imap(pick, std::vector<int>{0, 1, 2});
  EXPECT_TRUE(results.try_wait(20s));
  EXPECT_EQ(results.get(), 0);
  EXPECT_THROW((void)results.get(), RemoteError);
  EXPECT_TRUE(results.try_wait(std::chrono::hours::max()));
  EXPECT_EQ(results.get(), 2);
  EXPECT_THROW((void)results.get(), Closed);
}

TEST_P(PoolTest, AWaitForResultsHasAnEnd) {
  Pool pool(options(1));
  ResultStream<int> results = pool.imap(slow_square, std::vector<int>{300, 3});
  EXPECT_FALSE(results.try_wait(10ms));
  std::stop_source stop;
  const std::jthread stopper = test::when_asleep([&] { stop.request_stop(); });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(results.try_wait(stop.get_token()));
  EXPECT_FALSE(results.try_wait({1h, stop.get_token()}));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 250ms);
  EXPECT_EQ(results.get(), 90'000);
  std::stop_source never;
  EXPECT_TRUE(results.try_wait(never.get_token()));
  EXPECT_TRUE(results.try_wait(stop.get_token())) << "what is there is there";
  EXPECT_EQ(results.get(), 9);
}

TEST_P(PoolTest, Futures) {
  Pool pool(options());
  Future<int> future = pool.submit(square, 12);
  EXPECT_TRUE(future.try_wait(20s));
  EXPECT_TRUE(future.ready());
  EXPECT_EQ(future.get(), 144);
  EXPECT_FALSE(future.valid());
  EXPECT_THROW((void)future.get(), Error);
  Future<void> slow = pool.submit(sleep_ms, 300);
  EXPECT_FALSE(slow.ready());
  EXPECT_FALSE(slow.try_wait(10ms));
  std::stop_source stop;
  const std::jthread stopper = test::when_asleep([&] { stop.request_stop(); });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(slow.try_wait(stop.get_token()));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 250ms);
  slow.get();
}

TEST_P(PoolTest, Callbacks) {
  Pool pool(options());
  std::atomic<int> sum{0};
  std::atomic<int> failed{0};
  for (int i = 1; i <= 10; ++i) {
    pool.submit(square, i).then([&](Future<int> done) { sum += done.get(); });
  }
  pool.submit(fail).then([&](Future<void> done) {
    EXPECT_THROW(done.get(), RemoteError);
    ++failed;
  });
  EXPECT_TRUE(eventually([&] { return sum == 385 && failed == 1; }));
}

TEST_P(PoolTest, ACallbackThatThrowsIsSaid) {
  Pool pool(options());
  testing::internal::CaptureStderr();
  std::atomic<bool> called{false};
  pool.submit(square, 3).then([&](Future<int>) {
    called = true;
    throw std::runtime_error("the callback's own");
  });
  EXPECT_TRUE(eventually([&] { return called.load(); }));
  std::atomic<bool> after{false};
  pool.submit(square, 3).then([&](Future<int>) { after = true; });
  EXPECT_TRUE(eventually([&] { return after.load(); }));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("the callback's own"));
}

INSTANTIATE_TEST_SUITE_P(Methods, PoolTest, test::kEveryMethod, test::method_name);

}  // namespace
}  // namespace forklift
