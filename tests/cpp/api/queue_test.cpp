// Queue<T>: every way in which a type travels, time-outs, mismatches, between processes.
#include "forklift/queue.h"
#include "forklift/simple_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "channel/channel.h"
#include "forklift/init.h"
#include "forklift/process.h"
#include "support/asleep.h"
#include "support/child.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;

struct Frame {
  std::uint64_t number;
  std::array<float, 14> data;
};
struct NoDefault {
  explicit NoDefault(int n) : value(n) {}
  int value;
};
struct Unsendable {
  std::string name;
};

static_assert(Sendable<Frame> && Sendable<int> && Sendable<std::optional<int>> && Sendable<std::string>);
static_assert(Sendable<std::vector<Frame>> && Sendable<Tensor> && Sendable<Value> &&
              Sendable<std::vector<bool>>);
static_assert(Sendable<std::map<std::string, std::vector<std::string>>> &&
              Sendable<std::tuple<int, std::string>>);
static_assert(!Sendable<const char*> && !Sendable<std::string_view> && !Sendable<std::span<int>>);
static_assert(!Sendable<Unsendable> && !Sendable<std::vector<Unsendable>> &&
              !Sendable<std::vector<const char*>>);
static_assert(!Sendable<std::reference_wrapper<int>> && !Sendable<std::unique_ptr<int>> && !Sendable<int[3]>);
static_assert(detail::type_hash<long>() == detail::type_hash<long long>());
static_assert(detail::type_hash<int>() != detail::type_hash<unsigned>());
static_assert(detail::type_hash<std::vector<int>>() != detail::type_hash<std::vector<float>>());

class QueueTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { (void)stats(); }
  void SetUp() override { before_ = stats(); }
  void TearDown() override {
    const Stats after = stats();
    EXPECT_EQ(after.channels, before_.channels);
    EXPECT_EQ(after.held_blocks, before_.held_blocks);
    EXPECT_EQ(after.leases, before_.leases);
    EXPECT_THAT(audit(), IsEmpty());
  }

 private:
  Stats before_{};
};

TEST_F(QueueTest, ValuesComeOutInOrder) {
  Queue<int> queue;
  for (int i = 0; i < 1000; ++i) queue.put(i);
  EXPECT_EQ(queue.size(), 1000U);
  EXPECT_FALSE(queue.full());
  EXPECT_EQ(queue.capacity(), 0U);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(queue.get(), i);
  EXPECT_TRUE(queue.empty());
}

TEST_F(QueueTest, StructsStringsVectorsAndWhatValueKnows) {
  Queue<Frame> frames;
  frames.put({7, {1.5F}});
  EXPECT_EQ(frames.get().data[0], 1.5F);

  Queue<NoDefault> strict;
  strict.put(NoDefault(3));
  EXPECT_EQ(strict.try_get(1s)->value, 3);

  Queue<std::string> strings;
  for (const std::string& text : {std::string(), std::string("a\0b", 3), std::string(1'000'000, 'z')}) {
    strings.put(text);
    EXPECT_EQ(strings.get(), text);
  }

  Queue<std::vector<double>> vectors;
  std::vector<double> numbers(100'000);
  std::iota(numbers.begin(), numbers.end(), 0.0);
  vectors.put(numbers);
  vectors.put({});
  EXPECT_EQ(vectors.get(), numbers);
  EXPECT_TRUE(vectors.get().empty());

  Queue<std::map<std::string, std::vector<std::string>>> maps;
  maps.put({{"a", {"b", "c"}}});
  EXPECT_EQ(maps.get().at("a").at(1), "c");

  Queue<std::optional<int>> maybe;
  maybe.put(std::nullopt);
  EXPECT_EQ(maybe.get(), std::nullopt);
}

TEST_F(QueueTest, AFullQueueMakesPutWait) {
  Queue<int> queue({.capacity = 2});
  EXPECT_EQ(queue.capacity(), 2U);
  EXPECT_TRUE(queue.try_put(1));
  EXPECT_TRUE(queue.try_put(2, 1s));
  EXPECT_TRUE(queue.full());
  EXPECT_FALSE(queue.try_put(3));
  EXPECT_FALSE(queue.try_put(3, 5ms));
  {
    const std::jthread taker = test::when_asleep([&] { EXPECT_EQ(queue.get(), 1); });
    queue.put(3);
  }
  EXPECT_EQ(queue.get(), 2);
  EXPECT_EQ(queue.get(), 3);
}

TEST_F(QueueTest, AnEmptyQueueMakesGetWait) {
  Queue<int> queue;
  EXPECT_EQ(queue.try_get(), std::nullopt);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(queue.try_get(20ms), std::nullopt);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 20ms);
  EXPECT_EQ(queue.try_get(-1s), std::nullopt);
  queue.put(1);
  EXPECT_EQ(queue.try_get(std::chrono::hours::max()), 1);
}

TEST_F(QueueTest, ATensorIsTheSameMemoryInBothProcesses) {
  Queue<Tensor> there;
  Queue<Tensor> back;
  Process child = Process::fork([&] {
                    const Tensor tensor = there.get();
                    for (float& x : tensor.span<float>()) x *= 2;
                    Tensor mine = Tensor::empty({2, 2}, DType::kInt32);
                    mine.fill(9);
                    back.put(std::move(mine));
                    back.put(tensor.select(0, 1));
                  }).start();
  const Tensor tensor = Tensor::zeros({2, 3}, DType::kFloat32);
  (void)Tensor(tensor).fill(1.5F);
  there.put(tensor);
  const Tensor made = back.get();
  const Tensor row = back.get();
  child.join();  // what it made outlives it
  EXPECT_EQ(made.at<std::int32_t>({1, 1}), 9);
  EXPECT_EQ(tensor.at<float>({1, 2}), 3);
  tensor.at<float>({1, 0}) = -1;
  EXPECT_EQ(row.at<float>({0}), -1);
}

TEST_F(QueueTest, AMovedTensorIsGivenAway) {
  Queue<Tensor> queue;
  Tensor tensor = Tensor::zeros({100}, DType::kFloat32);
  const std::uint64_t leases = stats().leases;
  queue.put(std::move(tensor));
  EXPECT_EQ(tensor.numel(), 0);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(stats().leases, leases);
  Tensor one = queue.get();
  const Tensor two = one;
  queue.put(std::move(one));  // another user keeps it
  EXPECT_EQ(queue.get().raw(), two.raw());
}

TEST_F(QueueTest, EveryPutGivesAMovedTensorAway) {
  Queue<Tensor> queue({.capacity = 1});
  const std::uint64_t before = stats().leases;
  Tensor tensor = Tensor::zeros({100}, DType::kFloat32);
  const std::uint64_t leases = stats().leases;
  // NOLINTBEGIN(bugprone-use-after-move)
  const auto gives = [&](auto&& put) {
    EXPECT_TRUE(put(std::move(tensor)));
    EXPECT_EQ(tensor.numel(), 0);
    EXPECT_EQ(stats().leases, leases) << "the message has the sender's own";
    const Tensor other = Tensor::zeros({1}, DType::kFloat32);
    Tensor kept = other;
    EXPECT_FALSE(queue.try_put(std::move(kept)));
    EXPECT_TRUE(kept.same_elements(other)) << "what was not put is the sender's still";
    tensor = queue.get();
  };
  const auto soon = [] { return std::chrono::steady_clock::now() + 5s; };
  gives([&](Tensor&& t) { return queue.try_put(std::move(t)); });
  gives([&](Tensor&& t) { return queue.try_put(std::move(t), std::stop_token()); });
  gives([&](Tensor&& t) { return queue.try_put(std::move(t), 5s); });
  gives([&](Tensor&& t) { return queue.try_put(std::move(t), {5s, std::stop_token()}); });
  gives([&](Tensor&& t) { return queue.try_put(std::move(t), soon()); });
  // NOLINTEND(bugprone-use-after-move)
  tensor = Tensor();
  EXPECT_EQ(stats().leases, before);
}

TEST_F(QueueTest, PutsAndGetsUntilAPointInTime) {
  using Clock = std::chrono::steady_clock;
  Queue<int> numbers({.capacity = 1});
  EXPECT_EQ(numbers.try_get(Clock::time_point::min()), std::nullopt);
  EXPECT_EQ(numbers.try_get(Clock::now() + 5ms), std::nullopt);
  EXPECT_TRUE(numbers.try_put(1, Clock::time_point::min())) << "there is room";
  EXPECT_FALSE(numbers.try_put(2, Clock::time_point::min()));
  EXPECT_FALSE(numbers.try_put(2, std::chrono::system_clock::now() + 5ms));
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_FALSE(numbers.try_put(2, {Clock::time_point::max(), stopped.get_token()}));
  EXPECT_EQ(numbers.try_get(Clock::time_point::max()), 1);
  EXPECT_EQ(numbers.try_get({Clock::time_point::max(), stopped.get_token()}), std::nullopt);
}

TEST_F(QueueTest, ViewsWaitAsLongAsIsSaid) {
  Queue<std::string> words({.capacity = 1});
  Queue<std::vector<int>> numbers({.capacity = 1});
  std::stop_source stopped;
  stopped.request_stop();
  const auto now = std::chrono::steady_clock::now;
  const std::string_view word = "word";
  const int three[] = {1, 2, 3};
  const std::span<const int> view(three);
  const auto each = [&](auto&& put) {
    EXPECT_TRUE(put(words, word));
    EXPECT_TRUE(put(numbers, view));
    EXPECT_FALSE(put(words, word));
    EXPECT_FALSE(put(numbers, view));
    EXPECT_EQ(words.get(), word);
    EXPECT_EQ(numbers.get(), (std::vector<int>{1, 2, 3}));
  };
  each([&](auto& queue, auto items) { return queue.try_put(items, stopped.get_token()); });
  each([&](auto& queue, auto items) { return queue.try_put(items, 5ms); });
  each([&](auto& queue, auto items) { return queue.try_put(items, {1h, stopped.get_token()}); });
  each([&](auto& queue, auto items) { return queue.try_put(items, now() + 5ms); });
  each([&](auto& queue, auto items) { return queue.try_put(items, {now() + 1h, stopped.get_token()}); });
}

TEST_F(QueueTest, PrivateMemoryIsCopied) {
  Queue<Tensor> queue;
  std::vector<float> pixels(6, 1.0F);
  queue.put(Tensor::wrap(Storage::borrow(pixels.data(), 24), DType::kFloat32, {2, 3}));
  pixels[0] = 5;
  const Tensor copy = queue.get();
  EXPECT_EQ(copy.at<float>({0, 0}), 1);
}

TEST_F(QueueTest, AnotherTypeIsAnErrorAndTheQueueGoesOn) {
  Queue<int> ints;
  detail::Endpoint endpoint = ChannelRef(ints).get().get();
  detail::Transfer<float>::put(endpoint, 1, detail::kForever);  // as a program of another version might
  ints.put(2);
  ints.put(3);
  EXPECT_THROW((void)ints.get(), TypeMismatch);
  try {
    (void)detail::Transfer<Value>::get(endpoint);
    FAIL() << "no error";
  } catch (const TypeMismatch& error) {
    EXPECT_THAT(error.what(), HasSubstr("a C++ value as bytes where a portable value was expected"));
  }
  EXPECT_EQ(ints.get(), 3);

  Queue<Value> portable;
  Queue<Tensor> tensors{ChannelRef(portable)};
  portable.put("text");
  EXPECT_THROW((void)tensors.get(), TypeMismatch);
  Queue<std::map<std::string, int>> maps{ChannelRef(portable)};
  portable.put(Value::List{1, 2});
  EXPECT_THROW((void)maps.get(), TypeMismatch);
  portable.put(Value::Map{{"a", 1}});
  EXPECT_EQ(maps.get().at("a"), 1);
}

// Where nothing is lost yet: when the handle is made.
TEST_F(QueueTest, AReferenceToAnotherTypeOfQueueIsAnError) {
  Queue<int> ints;
  const ChannelRef behind = ints;
  EXPECT_THROW(Queue<std::string>{behind}, TypeMismatch);
  EXPECT_THROW(Queue<Value>{behind}, TypeMismatch);
  EXPECT_THROW(SimpleQueue<float>{behind}, TypeMismatch);
  Queue<Value> portable;
  EXPECT_THROW(Queue<int>{ChannelRef(portable)}, TypeMismatch);
  ints.put(1);
  EXPECT_EQ(Queue<int>(behind).get(), 1);
  EXPECT_EQ((Queue<std::map<std::string, int>>(portable).size()), 0U);
  EXPECT_FALSE(Queue<int>(ChannelRef()));
}

TEST_F(QueueTest, AMessageOfAnotherLengthIsAnError) {
  Queue<std::vector<int>> queue;
  const std::array<std::byte, 7> odd{};
  ASSERT_TRUE(ChannelRef(queue)
                  .get()
                  ->put({odd, {}, 1, detail::type_hash<std::vector<int>>()}, os::Deadline::never())
                  .ok());
  EXPECT_THROW((void)queue.get(), TypeMismatch);
}

TEST_F(QueueTest, AValueThatCannotBeSentLeavesTheQueueAsItWas) {
  Queue<Value> queue;
  EXPECT_THROW(queue.put(Value("\xff")), Error);
  EXPECT_THROW(queue.put(Value(Value::Map{{Value(Value::List{}), 1}})), Error);
  EXPECT_TRUE(queue.empty());
  queue.put(1);
  EXPECT_EQ(queue.get(), Value(1));
}

// As in Python: while others may give memory back there is something to wait for.
TEST_F(QueueTest, APutOverTheBudgetWaitsForMemory) {
  const std::vector<char> half(10 << 20, 'x');
  Queue<std::vector<char>> queue;
  set_budget(16 << 20);
  queue.put(half);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW((void)queue.try_put(half), Error);
  EXPECT_THROW((void)queue.try_put(half, std::chrono::milliseconds(100)), Error);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(100));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW((void)queue.try_put(half, stop.get_token()), Error);
  std::thread reader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(queue.get().size(), half.size());
  });
  EXPECT_TRUE(queue.try_put(half, std::chrono::seconds(30)));
  reader.join();
  set_budget(0);
  EXPECT_EQ(queue.get(), half);
}

TEST_F(QueueTest, OverTheBudgetIsAnErrorAndNothingWasPut) {
  const Tensor big = Tensor::wrap(Storage::heap(64 << 20), DType::kUInt8, {64 << 20});
  Queue<Tensor> queue;
  set_budget(16 << 20);
  try {
    queue.put(big);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kOverBudget);
  }
  set_budget(0);
  EXPECT_TRUE(queue.empty());
  queue.put(big);
  EXPECT_TRUE(queue.get().same_elements(big));
}

TEST_F(QueueTest, ManyProcessesPutAndGetEachMessageOnce) {
  constexpr int kEach = 2000;
  Queue<int> work({.capacity = 64});
  Queue<std::vector<int>> results;
  std::vector<Process> processes;
  for (int p = 0; p < 2; ++p) {
    processes.push_back(Process::fork([&, p] {
                          for (int i = 0; i < kEach; ++i) work.put(p * kEach + i);
                        }).start());
    processes.push_back(Process::fork([&] {
                          std::vector<int> got;
                          for (int i = 0; i < kEach; ++i) got.push_back(work.get());
                          results.put(got);
                        }).start());
  }
  for (Process& process : processes) process.join();
  std::vector<int> all = results.get();
  const std::vector<int> rest = results.get();
  all.insert(all.end(), rest.begin(), rest.end());
  std::sort(all.begin(), all.end());
  for (int i = 0; i < 2 * kEach; ++i) ASSERT_EQ(all[static_cast<std::size_t>(i)], i);
}

TEST_F(QueueTest, AKilledReaderLosesNothingThatItHadNotTaken) {
  Queue<int> queue;
  Process reader = Process::fork([&] {
                     for (;;) (void)queue.get();
                   }).start();
  queue.put(4);
  EXPECT_TRUE(test::eventually([&] { return queue.empty(); }));
  EXPECT_TRUE(test::eventually_asleep(reader.pid()));
  reader.kill();
  reader.join();
  queue.put(5);
  EXPECT_EQ(queue.try_get(5s), 5);
}

}  // namespace
}  // namespace forklift
