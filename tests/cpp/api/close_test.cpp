// Queue::close() and its kin: what is got before it, what is refused after it, whom it wakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "forklift/multiprocessing.h"
#include "support/asleep.h"
#include "support/process_fixture.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

class CloseTest : public test::ProcessFixture {};

TEST_F(CloseTest, WhatWasPutBeforeTheCloseIsGotThenClosed) {
  Queue<int> queue;
  Queue<int> other = queue;
  queue.put(1);
  queue.put(2);
  EXPECT_FALSE(other.closed());
  queue.close();
  queue.close();  // again changes nothing
  EXPECT_TRUE(other.closed());
  EXPECT_EQ(other.size(), 2U);
  EXPECT_EQ(other.get(), 1);
  EXPECT_EQ(other.try_get(), 2);
  int into = 7;
  EXPECT_THROW((void)other.get(), Closed);
  EXPECT_THROW((void)other.try_get(), Closed);
  EXPECT_THROW((void)other.try_get(20s), Closed);
  EXPECT_THROW(other.get_into(into), Closed);
  EXPECT_THROW((void)other.try_get_into(into), Closed);
  EXPECT_EQ(into, 7);
  for (const int number : other) ADD_FAILURE() << number;
}

TEST_F(CloseTest, APutAfterTheCloseIsAnError) {
  Queue<std::string> words;
  Queue<Tensor> tensors;
  Queue<Value> values;
  words.close();
  tensors.close();
  values.close();
  EXPECT_THROW(words.put("a"), Closed);
  EXPECT_THROW(words.put(std::string_view("a")), Closed);
  EXPECT_THROW(words.put(std::string(100'000, 'a')), Closed);
  EXPECT_THROW((void)words.try_put("a"), Closed);
  EXPECT_THROW((void)words.try_put("a", 20s), Closed);
  EXPECT_THROW(values.put(1), Closed);
  Tensor tensor = Tensor::zeros({3}, DType::kInt32);
  EXPECT_THROW(tensors.put(tensor), Closed);
  EXPECT_THROW(tensors.put(std::move(tensor)), Closed);
  EXPECT_EQ(tensor.numel(), 3)
      << "what was not put is the sender's still";  // NOLINT(bugprone-use-after-move)
  try {
    words.put("a");
    ADD_FAILURE() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kClosed);
  }
  EXPECT_TRUE(words.empty());
}

TEST_F(CloseTest, ACloseWakesWhoWaits) {
  Queue<int> empty;
  Queue<int> full({.capacity = 1});
  full.put(1);
  const auto closes = [](Queue<int>& queue) { return test::when_asleep([&] { queue.close(); }); };
  {
    const std::jthread closer = closes(empty);
    EXPECT_THROW((void)empty.get(), Closed);
  }
  {
    const std::jthread closer = closes(full);
    EXPECT_THROW(full.put(2), Closed);
  }
  EXPECT_EQ(full.get(), 1);
  EXPECT_THROW((void)full.get(), Closed);
  Queue<int> nothing;
  {
    const std::jthread closer = closes(nothing);
    EXPECT_THROW((void)nothing.try_get(1h), Closed) << "an end, and no time-out";
  }
  Queue<int> again({.capacity = 1});
  again.put(1);
  std::stop_source never;
  const std::jthread closer = closes(again);
  EXPECT_THROW((void)again.try_put(2, {1h, never.get_token()}), Closed);
  EXPECT_EQ(again.size(), 1U);
}

TEST_F(CloseTest, ACloseByAnotherProcessWakesAllWhoWait) {
  Queue<int> queue;
  Queue<int> full({.capacity = 1});
  full.put(1);
  test::Sleeper gets[2], puts;
  std::vector<std::jthread> threads;
  for (test::Sleeper& sleeper : gets) {
    threads.emplace_back([&] {
      sleeper.is_me();
      EXPECT_THROW((void)queue.get(), Closed);
    });
  }
  threads.emplace_back([&] {
    puts.is_me();
    EXPECT_THROW(full.put(2), Closed);
  });
  for (const test::Sleeper* each : {&gets[0], &gets[1], &puts}) EXPECT_TRUE(each->asleep());
  Process child = Process::fork([&] {
                    queue.close();
                    full.close();
                  }).start();
  threads.clear();
  child.join();
  EXPECT_EQ(full.get(), 1);
}

TEST_F(CloseTest, WaitAnyTellsOfAClose) {
  Queue<int> queue;
  Queue<int> other;
  Broadcast<int> stream;
  auto reader = stream.subscribe();
  Latest<int> newest;
  auto [writing, reading] = make_pipe<int, void>();
  const auto all = [&, &pipe = reading] { return std::vector<Waitable>{other, queue, reader, newest, pipe}; };
  EXPECT_THAT(try_wait_any(all(), 5ms), IsEmpty());
  {
    const std::jthread closer = test::when_asleep([&] { queue.close(); });
    EXPECT_THAT(wait_any({other, queue}), ElementsAre(1));  // in one system call
  }
  EXPECT_THROW((void)queue.try_get(), Closed);
  EXPECT_THAT(wait_any({other, queue}), ElementsAre(1)) << "it stays so";
  {
    const std::jthread closer = test::when_asleep([&] { stream.close(); });
    EXPECT_THAT(wait_any({other, reader}), ElementsAre(1));
  }
  {
    const std::jthread closer = test::when_asleep([&] { newest.close(); });
    EXPECT_THAT(wait_any({other, newest}), ElementsAre(1));
  }
  EXPECT_THROW((void)newest.try_get(), Closed);
  writing.close();
  EXPECT_THAT(wait_any(all()), ElementsAre(1, 2, 3, 4));
  Queue<int> third;
  auto [held, quiet] = make_pipe<int, void>();
  const std::jthread closer = test::when_asleep([&] { third.close(); });
  EXPECT_THAT(wait_any({third, quiet}), ElementsAre(0));  // together with a descriptor
}

TEST_F(CloseTest, AKilledWriterDoesNotClose) {
  Queue<int> numbers;
  Process writer = Process::fork([&] {
                     numbers.put(1);
                     ::raise(SIGKILL);
                   }).start();
  writer.join();
  EXPECT_FALSE(numbers.closed());
  std::vector<int> got;
  const std::jthread closer = test::when_asleep([&] { numbers.close(); });
  for (const int number : numbers) got.push_back(number);
  EXPECT_THAT(got, ElementsAre(1));
}

TEST_F(CloseTest, MovedAndResetHandles) {
  Queue<int> queue;
  Queue<int> other = queue;
  Queue<int> moved = std::move(queue);
  EXPECT_FALSE(queue);  // NOLINT(bugprone-use-after-move)
  EXPECT_THROW((void)queue.closed(), Error);
  EXPECT_THROW(queue.close(), Error);
  EXPECT_THROW(queue.put(1), Error);
  EXPECT_THROW((void)queue.try_get(), Error);
  EXPECT_THROW((void)queue.size(), Error);
  EXPECT_TRUE(moved);
  moved.reset();
  EXPECT_FALSE(moved);
  EXPECT_THROW((void)moved.get(), Error);
  EXPECT_FALSE(other.closed());
  other.put(1);
  EXPECT_EQ(other.get(), 1);
}

}  // namespace
}  // namespace forklift
