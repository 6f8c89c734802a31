// put_many() and get_many() of Queue<T>: every way in which a type travels, ranges, waits, failures.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <deque>
#include <list>
#include <numeric>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "forklift/joinable_queue.h"
#include "forklift/process.h"
#include "forklift/simple_queue.h"
#include "support/asleep.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;

template <class T>
std::vector<T> get_all(Queue<T>& queue, std::size_t most = 100) {
  std::vector<T> got;
  std::vector<T> into(most);
  while (const std::size_t count = queue.try_get_many(into))
    got.insert(got.end(), into.begin(), into.begin() + static_cast<std::ptrdiff_t>(count));
  return got;
}

TEST(BatchApi, NumbersFromEveryRange) {
  Queue<int> queue;
  std::vector<int> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 0);
  queue.put_many(numbers);
  queue.put_many(std::span(numbers).subspan(10, 5));
  queue.put_many(std::list<int>(numbers.begin(), numbers.end()));
  queue.put_many(std::deque<long>{7, 8, 9});  // converted, one by one
  queue.put_many(std::array<int, 0>());
  const int three[] = {1, 2, 3};
  queue.put_many(three);
  std::vector<int> expected = numbers;
  expected.insert(expected.end(), {10, 11, 12, 13, 14});
  expected.insert(expected.end(), numbers.begin(), numbers.end());
  expected.insert(expected.end(), {7, 8, 9, 1, 2, 3});
  EXPECT_EQ(queue.size(), expected.size());
  EXPECT_EQ(get_all(queue), expected);
}

struct Point {
  double x, y, z;
  bool operator==(const Point&) const = default;
};

TEST(BatchApi, StructsStringsVectorsAndValues) {
  Queue<Point> points;
  const std::vector<Point> line = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
  points.put_many(line);
  EXPECT_EQ(get_all(points), line);

  Queue<std::string> texts;
  const std::vector<std::string> words = {"", "a", "another", std::string(5000, 'x'),
                                          std::string(20'000, 'y')};
  texts.put_many(words);
  EXPECT_EQ(get_all(texts), words);

  Queue<std::vector<float>> rows;
  const std::vector<std::vector<float>> matrix = {{1, 2}, {}, {3}};
  rows.put_many(matrix);
  EXPECT_EQ(get_all(rows), matrix);

  Queue<Value> values;
  values.put_many(std::vector<Value>{Value(1), Value("two")});
  const std::vector<Value> got = get_all(values);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[1].as<std::string>(), "two");
}

TEST(BatchApi, TensorsTravelAsHandles) {
  Queue<Tensor> queue;
  std::vector<Tensor> tensors;
  for (int i = 0; i < 3; ++i) {
    tensors.push_back(Tensor::empty({100'000}, DType::kFloat32));
    tensors.back().span<float>()[0] = static_cast<float>(i);
  }
  queue.put_many(tensors);
  std::vector<Tensor> into(8);
  ASSERT_EQ(queue.get_many(into), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    into[i].span<float>()[1] = 5;  // the same memory
    EXPECT_EQ(tensors[i].span<float>()[1], 5.0F);
    EXPECT_EQ(into[i].span<float>()[0], static_cast<float>(i));
  }
}

TEST(BatchApi, LargeStructsComeByThemselves) {
  using Large = std::array<std::uint64_t, 4096>;
  Queue<Large> queue;
  auto items = std::make_unique<std::array<Large, 3>>();
  for (std::size_t i = 0; i < 3; ++i) (*items)[i].fill(i);
  queue.put_many(*items);
  auto into = std::make_unique<std::array<Large, 3>>();
  EXPECT_EQ(queue.get_many(*into), 3U);
  EXPECT_EQ(*into, *items);
}

TEST(BatchApi, ABoundedQueueSaysHowManyWerePut) {
  Queue<int> queue({.capacity = 4});
  const std::vector<int> numbers = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(queue.try_put_many(numbers), 4U);
  EXPECT_EQ(queue.try_put_many(numbers, 1ms), 0U);
  const std::list<int> list(numbers.begin(), numbers.end());
  EXPECT_EQ(queue.get(), 1);
  EXPECT_EQ(queue.try_put_many(list), 1U);
  std::array<int, 8> into{};
  EXPECT_EQ(queue.get_many(into), 4U);
  EXPECT_EQ(into[3], 1);
  EXPECT_EQ(queue.try_get_many(into), 0U);
  EXPECT_EQ(queue.try_get_many(into, 1ms), 0U);
  EXPECT_EQ(queue.get_many(std::span<int>()), 0U);
}

TEST(BatchApi, PutManyWaitsForRoomAndGetManyForAMessage) {
  Queue<int> queue({.capacity = 4});
  std::vector<int> numbers(100);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::thread putter([&] { queue.put_many(numbers); });
  std::vector<int> got;
  std::array<int, 3> into{};
  while (got.size() < 100) {
    const std::size_t count = queue.get_many(into);
    ASSERT_GT(count, 0U);
    got.insert(got.end(), into.begin(), into.begin() + count);
  }
  putter.join();
  EXPECT_EQ(got, numbers);
}

TEST(BatchApi, AStopEndsBoth) {
  Queue<int> queue({.capacity = 2});
  std::stop_source stop;
  const std::vector<int> numbers = {1, 2, 3};
  std::array<int, 4> into{};
  {
    const std::jthread stopper = test::when_asleep([&] { stop.request_stop(); });
    EXPECT_EQ(queue.try_get_many(into, stop.get_token()), 0U);
  }
  stop = std::stop_source();
  const std::jthread stopper = test::when_asleep([&] { stop.request_stop(); });
  EXPECT_EQ(queue.try_put_many(numbers, stop.get_token()), 2U);
  EXPECT_EQ(queue.get_many(into), 2U);
}

TEST(BatchApi, AClosedQueueThrows) {
  Queue<int> queue;
  queue.put_many(std::array{1, 2, 3});
  queue.close();
  EXPECT_THROW(queue.put_many(std::array{4}), Closed);
  EXPECT_THROW((void)queue.try_put_many(std::array{4}), Closed);
  std::array<int, 8> into{};
  EXPECT_EQ(queue.get_many(into), 3U);
  EXPECT_THROW(queue.get_many(into), Closed);
  Queue<int> none(nullptr);
  EXPECT_THROW(none.put_many(std::array{4}), Error);
  EXPECT_THROW(none.get_many(into), Error);
}

// A getter closes the full queue while the rest waits: what was put is counted, and the next put throws.
TEST(BatchApi, AFailureAfterSomeIsTheNextPuts) {
  Queue<int> queue({.capacity = 2});
  {
    const std::jthread closer = test::when_asleep([&] { queue.close(); });
    EXPECT_EQ(queue.try_put_many(std::array{1, 2, 3}, Wait::forever()), 2U);
  }
  EXPECT_THROW((void)queue.try_put_many(std::array{3}), Closed);
}

TEST(BatchApi, OtherKindsOfQueues) {
  SimpleQueue<int> simple;
  simple.put_many(std::vector<int>{1, 2, 3, 4});
  EXPECT_EQ(get_all<int>(simple), (std::vector<int>{1, 2, 3, 4}));
  std::vector<std::string> kilobytes(100, std::string(1000, 'x'));
  SimpleQueue<std::string> full;
  EXPECT_EQ(full.try_put_many(kilobytes), 65U);

  JoinableQueue<int> tasks;
  tasks.put_many(std::array{1, 2, 3});
  std::array<int, 8> into{};
  EXPECT_EQ(tasks.get_many(into), 3U);
  EXPECT_EQ(tasks.unfinished(), 3U);
  for (int i = 0; i < 3; ++i) tasks.task_done();
  tasks.join();
}

TEST(BatchApi, BetweenProcesses) {
  Queue<std::uint64_t> there({.capacity = 100});
  Queue<std::uint64_t> back;
  Process child = Process::fork([&] {
    std::array<std::uint64_t, 64> words{};
    std::uint64_t sum = 0;
    for (std::size_t done = 0; done < 10'000;) {
      const std::size_t count = there.get_many(words);
      for (std::size_t i = 0; i < count; ++i) sum += words[i];
      done += count;
    }
    back.put(sum);
  });
  child.start();
  std::vector<std::uint64_t> numbers(10'000);
  std::iota(numbers.begin(), numbers.end(), 0);
  there.put_many(numbers);
  EXPECT_EQ(back.get(), std::uint64_t{10'000} * 9'999 / 2);
  child.join();
}

}  // namespace
}  // namespace forklift
