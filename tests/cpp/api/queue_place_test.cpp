// What Queue<T>::get makes of a message without a copy in between: structs where the caller has them, vectors
// in one pass, tensors.
#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "forklift/broadcast.h"
#include "forklift/latest.h"
#include "forklift/pipe.h"
#include "forklift/queue.h"
#include "forklift/tensor.h"
#include "sync/past_caches.h"

namespace forklift {
namespace {

template <std::size_t N>
struct Block {
  std::array<std::uint8_t, N> bytes;
};

template <std::size_t N>
void there_and_back() {
  Queue<Block<N>> queue;
  Block<N> sent{};
  std::iota(sent.bytes.begin(), sent.bytes.end(), std::uint8_t{7});
  queue.put(sent);
  queue.put(sent);
  const Block<N> got = queue.get();
  EXPECT_EQ(got.bytes, sent.bytes) << N;
  EXPECT_EQ(queue.try_get().value().bytes, sent.bytes) << N;
}

TEST(QueuePlace, StructsOfEverySizeArrive) {
  there_and_back<1>();
  there_and_back<64>();
  there_and_back<4096>();
  there_and_back<8192>();  // the largest that lies in the channel
  there_and_back<8193>();  // and the first that lies in a block
  there_and_back<100'000>();
}

// Without a default constructor it comes through a buffer.
struct Given {
  explicit Given(int number) : value(number) {}
  int value;
};

TEST(QueuePlace, StructsWithoutDefaultConstructorArrive) {
  Queue<Given> queue;
  queue.put(Given(42));
  EXPECT_EQ(queue.get().value, 42);
}

TEST(QueuePlace, AMessageOfAnotherTypeIsAnErrorAndTheNextOneArrives) {
  Queue<std::array<int, 16>> queue;
  detail::Transfer<std::array<float, 16>>::put(ChannelRef(queue).get().get(), {}, detail::kForever);
  EXPECT_THROW((void)queue.get(), TypeMismatch);
  queue.put({1, 2, 3});
  EXPECT_EQ(queue.get()[2], 3);
}

TEST(QueuePlace, VectorsAndStringsOfEverySizeArrive) {
  Queue<std::vector<std::uint32_t>> numbers;
  Queue<std::string> texts;
  for (const std::size_t size : {0, 1, 1000, 5000, 1'000'000}) {
    std::vector<std::uint32_t> sent(size);
    std::iota(sent.begin(), sent.end(), 3U);
    numbers.put(sent);
    EXPECT_EQ(numbers.get(), sent);
    const std::string text(size, 'x');
    texts.put(text);
    EXPECT_EQ(texts.get(), text);
  }
}

TEST(QueuePlace, WhatIsThereIsUsedAgain) {
  Queue<std::vector<std::uint32_t>> queue;
  std::vector<std::uint32_t> into(300'000, 7U);
  const std::uint32_t* const memory = into.data();
  for (const std::size_t size : {300'000, 10, 0, 5000}) {
    std::vector<std::uint32_t> sent(size);
    std::iota(sent.begin(), sent.end(), 5U);
    queue.put(sent);
    queue.get_into(into);
    EXPECT_EQ(into, sent);
    EXPECT_EQ(into.data(), memory);
  }
  Queue<std::string> texts;
  std::string text = "a text that is there and longer than what comes";
  texts.put("short");
  texts.get_into(text);
  EXPECT_EQ(text, "short");
}

// Copied in and out past the caches, from a size on that depends on the processor (sync/past_caches.h).
TEST(QueuePlace, MessagesThatNoCacheHoldsArrive) {
  const std::size_t limit = sync::past_caches_from() / sizeof(std::uint32_t);
  Queue<std::vector<std::uint32_t>> queue;
  std::vector<std::uint32_t> into(limit + 100, 7U);
  const std::uint32_t* const memory = into.data();
  for (const std::size_t size : {limit + 100, limit, limit - 1, limit + 17}) {
    std::vector<std::uint32_t> sent(size);
    std::iota(sent.begin(), sent.end(), 5U);
    queue.put(sent);
    queue.get_into(into);
    EXPECT_TRUE(into == sent) << size;
    queue.put(sent);
    EXPECT_TRUE(queue.get() == into) << size;
  }
  EXPECT_EQ(into.data(), memory);
  using Large = Block<(std::size_t{64} << 20) + 3>;
  Queue<Large> structs;
  const auto there = std::make_unique<Large>();
  std::iota(there->bytes.begin(), there->bytes.end(), std::uint8_t{9});
  const auto got = std::make_unique<Large>();
  structs.put(*there);
  structs.get_into(*got);
  EXPECT_TRUE(got->bytes == there->bytes);
}

struct alignas(64) Wide {
  std::uint64_t value;
};

// More than the message's own alignment.
TEST(QueuePlace, VectorsOfAlignedItemsArrive) {
  Queue<std::vector<Wide>> queue;
  for (const std::size_t size : {1U, 3U, 1000U}) {
    std::vector<Wide> sent(size);
    for (std::size_t i = 0; i < size; ++i) sent[i].value = i * i;
    queue.put(sent);
    const std::vector<Wide> got = queue.get();
    ASSERT_EQ(got.size(), size);
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(got[i].value, i * i);
  }
}

TEST(QueuePlace, TensorsArriveAndWhatIsNoneIsAnError) {
  Queue<Tensor> queue;
  Tensor sent = Tensor::empty({2, 3}, DType::kFloat32);
  sent.fill(1.5F);
  queue.put(std::move(sent));
  EXPECT_EQ(sent.numel(), 0);
  const Tensor got = queue.get();
  EXPECT_EQ(got.at<float>({1, 2}), 1.5F);
  Queue<Value> values{ChannelRef(queue)};
  values.put(Value(5));
  EXPECT_THROW((void)queue.get(), TypeMismatch);
}

// Larger than the thread's stack: nowhere on it, but where the caller has it.
struct Volume {
  std::array<std::byte, 4 << 20> cells;
};
struct Dense : Volume {
  Dense() { cells.fill(std::byte{7}); }
};

// Runs `run` in a thread with a stack of 256 KiB.
void on_small_stack(const std::function<void()>& run) {
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 256 * 1024);
  pthread_t id{};
  const auto start = [](void* what) -> void* {
    (*static_cast<const std::function<void()>*>(what))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&id, &small, start, const_cast<void*>(static_cast<const void*>(&run))), 0);
  pthread_join(id, nullptr);
  pthread_attr_destroy(&small);
}

TEST(QueuePlace, LargeStructsNeedNoStack) {
  Queue<Volume> volumes;
  Queue<Dense> dense;
  const auto sent = std::make_unique<Dense>();
  on_small_stack([&] {
    const auto volume = std::make_unique<Volume>();
    EXPECT_FALSE(volumes.try_get_into(*volume));
    EXPECT_FALSE(volumes.try_get_into(*volume, std::chrono::milliseconds(1)));
    std::stop_source stop;
    stop.request_stop();
    EXPECT_FALSE(volumes.try_get_into(*volume, stop.get_token()));
    for (int i = 0; i < 4; ++i) volumes.put(*sent);
    volumes.get_into(*volume);
    EXPECT_TRUE(volumes.try_get_into(*volume));
    EXPECT_EQ(volume->cells.back(), std::byte{7});
    const std::unique_ptr<std::optional<Volume>> now(new std::optional<Volume>(volumes.try_get()));
    EXPECT_TRUE(*now);
    const std::unique_ptr<std::optional<Volume>> soon(
        new std::optional<Volume>(volumes.try_get(std::chrono::seconds(1))));
    EXPECT_EQ((*soon)->cells.front(), std::byte{7});
    dense.put(*sent);
    const std::unique_ptr<std::optional<Dense>> full(new std::optional<Dense>(dense.try_get()));
    EXPECT_EQ((*full)->cells.back(), std::byte{7});
  });
}

TEST(QueuePlace, LargeStructsNeedNoStackInOtherClassesEither) {
  Broadcast<Volume> volumes;
  Subscription<Volume> reader = volumes.subscribe();
  Latest<Volume> newest;
  auto [writing, reading] = make_pipe<Volume, void>();
  const auto sent = std::make_unique<Dense>();
  std::stop_source stop;
  stop.request_stop();
  const auto soon = std::chrono::milliseconds(1);
  on_small_stack([&] {
    const auto volume = std::make_unique<Volume>();
    EXPECT_FALSE(reader.try_get_into(*volume));
    EXPECT_FALSE(reader.try_get_into(*volume, soon));
    EXPECT_FALSE(reader.try_get_into(*volume, stop.get_token()));
    for (int i = 0; i < 2; ++i) volumes.put(*sent);
    EXPECT_TRUE(reader.try_get_into(*volume));
    reader.get_into(*volume);
    EXPECT_EQ(volume->cells.back(), std::byte{7});

    volume->cells.fill(std::byte{1});
    EXPECT_FALSE(newest.try_get_into(*volume));
    EXPECT_FALSE(newest.try_get_into(*volume, soon));
    EXPECT_FALSE(newest.try_get_into(*volume, stop.get_token()));
    EXPECT_EQ(volume->cells.back(), std::byte{1});
    newest.put(*sent);
    newest.get_into(*volume);
    EXPECT_EQ(volume->cells.back(), std::byte{7});

    volume->cells.fill(std::byte{1});
    EXPECT_FALSE(reading.try_get_into(*volume, soon));
    EXPECT_FALSE(reading.try_get_into(*volume, stop.get_token()));
    writing.put(*sent);
    reading.get_into(*volume);
    EXPECT_EQ(volume->cells.back(), std::byte{7});
    writing.put(*sent);
    writing.close();
    EXPECT_TRUE(reading.try_get_into(*volume, std::chrono::seconds(1)));
    volume->cells.fill(std::byte{1});
    EXPECT_THROW(reading.get_into(*volume), Closed) << "the end of the pipe";
    EXPECT_EQ(volume->cells.back(), std::byte{1});
  });
}

TEST(QueuePlace, IntoAnythingThatIsThere) {
  Queue<int> numbers;
  int number = 5;
  EXPECT_FALSE(numbers.try_get_into(number));
  EXPECT_EQ(number, 5);
  numbers.put(6);
  numbers.get_into(number);
  EXPECT_EQ(number, 6);
  Queue<std::map<std::string, int>> maps;
  std::map<std::string, int> map{{"old", 1}};
  EXPECT_FALSE(maps.try_get_into(map));
  maps.put({{"new", 2}});
  EXPECT_TRUE(maps.try_get_into(map));
  EXPECT_EQ(map, (std::map<std::string, int>{{"new", 2}}));
  Queue<Tensor> tensors;
  Tensor tensor;
  tensors.put(Tensor::zeros({2}, DType::kInt8));
  tensors.get_into(tensor);
  EXPECT_EQ(tensor.numel(), 2);
}

}  // namespace
}  // namespace forklift
