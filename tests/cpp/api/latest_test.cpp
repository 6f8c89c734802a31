// Latest<T>: versions, what is kept, copies of handles, deaths.
#include "forklift/latest.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "forklift/process.h"
#include "support/asleep.h"
#include "support/process_fixture.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;

class LatestTest : public test::ProcessFixture {};

TEST_F(LatestTest, TheNewestWins) {
  Latest<std::string> text;
  EXPECT_EQ(text.version(), 0U);
  EXPECT_EQ(text.peek(), std::nullopt);
  EXPECT_EQ(text.try_get(), std::nullopt);
  for (const char* word : {"one", "two", "three"}) text.put(word);
  EXPECT_EQ(text.version(), 3U);
  EXPECT_EQ(text.peek(), "three");
  EXPECT_EQ(text.seen(), 0U);
  EXPECT_EQ(text.get(), "three");
  EXPECT_EQ(text.seen(), 3U);
  EXPECT_EQ(text.try_get(5ms), std::nullopt);
  EXPECT_EQ(text.peek(), "three");
  const std::jthread writer = test::when_asleep([&] { text.put("four"); });
  EXPECT_EQ(text.get(), "four");
}

TEST_F(LatestTest, EachHandleSeesForItself) {
  Latest<int> number;
  number.put(1);
  EXPECT_EQ(number.get(), 1);
  Latest<int> copy = number;
  EXPECT_EQ(copy.get(), 1);
  EXPECT_EQ(number.try_get(), std::nullopt);
  Process child = Process::fork([&] {
                    return number.try_get() == 1 && number.try_get() == std::nullopt ? 0 : 1;
                  }).start();
  child.join();
  EXPECT_EQ(child.exitcode(), 0);
  number.reset();
  EXPECT_FALSE(number);
  EXPECT_THROW((void)number.get(), Error);
  EXPECT_THROW(number.put(2), Error);
  copy.put(2);
  EXPECT_EQ(copy.get(), 2);
}

TEST_F(LatestTest, AReaderKeepsItsOldTensor) {
  Latest<Tensor> weights;
  Tensor first = Tensor::zeros({100'000}, DType::kFloat32);
  first.fill(1.0f);
  weights.put(std::move(first));
  Tensor old = weights.get();
  for (int i = 2; i < 20; ++i) {
    Tensor next = Tensor::zeros({100'000}, DType::kFloat32);
    next.fill(static_cast<float>(i));
    weights.put(std::move(next));
  }
  EXPECT_EQ(old.span<float>().back(), 1);
  EXPECT_EQ(weights.get().span<float>().back(), 19);
}

// What is read is one value, whoever is killed while writing it.
TEST_F(LatestTest, AKilledWriterLeavesAWholeValue) {
  struct Numbers {
    std::array<std::uint64_t, 300> all{};
  };
  Latest<Numbers> numbers;
  for (int round = 0; round < 20; ++round) {
    Process writer = Process::fork([&] {
                       for (std::uint64_t i = 1;; ++i) {
                         Numbers next;
                         next.all.fill(i);
                         numbers.put(next);
                       }
                     }).start();
    for (int i = 0; i < 50; ++i) {
      const Numbers got = numbers.get();
      for (const std::uint64_t each : got.all) ASSERT_EQ(each, got.all[0]);
    }
    writer.kill();
    writer.join();
    const Numbers last = numbers.peek().value();
    for (const std::uint64_t each : last.all) ASSERT_EQ(each, last.all[0]);
  }
  numbers.put({});
  EXPECT_EQ(numbers.get().all[7], 0U);
}

}  // namespace
}  // namespace forklift
