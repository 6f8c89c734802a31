// The C++ API in a program that is compiled with -fno-exceptions: attempt() answers, and what fails leaves nothing behind
// (the leak check of support/ counts blocks and leases, too).
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "forklift/attempt.h"
#include "forklift/broadcast.h"
#include "forklift/claim.h"
#include "forklift/domain.h"
#include "forklift/lock.h"
#include "forklift/pool.h"
#include "forklift/process.h"
#include "forklift/queue.h"
#include "forklift/shared_map.h"
#include "forklift/simple_queue.h"
#include "forklift/tensor.h"
#include "forklift/value.h"

#if defined(__cpp_exceptions)
#error "this file is to be compiled with -fno-exceptions"
#endif

namespace forklift::test {
namespace {

using namespace std::chrono_literals;

struct Pose {
  double x, y;
};

template <class T>
void ends_in_closed(const T& item) {
  Result<Queue<T>> queue = attempt([] { return Queue<T>(); });
  ASSERT_TRUE(queue.ok()) << queue.status().to_string();
  EXPECT_TRUE(attempt([&] { queue->put(item); }).ok());
  EXPECT_TRUE(attempt([&] { return queue->get(); }).ok());
  EXPECT_FALSE(attempt([&] { return queue->try_get(1ms); })->has_value()) << "the wait is over: no failure";
  EXPECT_TRUE(attempt([&] { queue->close(); }).ok());
  EXPECT_EQ(attempt([&] { return queue->get(); }).code(), Code::kClosed);
  EXPECT_EQ(attempt([&] { queue->put(item); }).code(), Code::kClosed);
}

TEST(WithoutExceptions, QueuesOfEveryKindAnswerThatTheyAreClosed) {
  ends_in_closed(Pose{1, 2});
  ends_in_closed(std::string("a string that is longer than what fits into the object itself"));
  ends_in_closed(std::vector<float>(100'000, 1.5f));
  ends_in_closed(Tensor::zeros({256, 256}, DType::kFloat32));
  ends_in_closed(Value(Value::List{Value(1), Value("two")}));
}

TEST(WithoutExceptions, AMessageOfAnotherTypeLeavesNothing) {
  Queue<Value> values;
  values.put(Value(Tensor::zeros({512, 512}, DType::kFloat32)));
  values.put(Value("no tensor"));
  Queue<Tensor> tensors{values};
  EXPECT_TRUE(attempt([&] { return tensors.get(); }).ok());
  EXPECT_EQ(attempt([&] { return tensors.get(); }).code(), Code::kInvalid);
  EXPECT_TRUE(tensors.empty()) << "what was taken for a tensor is gone";
  const ChannelRef behind(values);
  EXPECT_EQ(attempt([&] { return Queue<Pose>(behind); }).code(), Code::kInvalid);
}

TEST(WithoutExceptions, AnEmptyHandleAnswers) {
  Queue<Pose> queue;
  queue.reset();
  EXPECT_EQ(attempt([&] { return queue.size(); }).code(), Code::kClosed);
  EXPECT_EQ(attempt([&] { queue.put({1, 2}); }).code(), Code::kClosed);
}

TEST(WithoutExceptions, IterationEndsWhereTheQueueIsClosed) {
  Queue<int> numbers;
  for (int i = 0; i < 100; ++i) numbers.put(i);
  numbers.close();
  int sum = 0;
  for (const int number : numbers) sum += number;
  EXPECT_EQ(sum, 4950);
}

TEST(WithoutExceptions, AClaimComesBackWhereTheMessageWasNotAcknowledged) {
  Queue<std::string, Delivery::kAtLeastOnce> jobs;
  jobs.put("a job");
  {
    Claim<std::string> job = jobs.get();
    job.give_back();
  }
  Claim<std::string> again = jobs.get();
  EXPECT_EQ(again.tries(), 2u);
  again.acknowledge();
  jobs.close();
  EXPECT_EQ(attempt([&] { return jobs.get(); }).code(), Code::kClosed);
}

TEST(WithoutExceptions, ABroadcastAnswersThatItEnded) {
  Broadcast<Pose> poses({.capacity = 8});
  auto subscription = poses.subscribe();
  EXPECT_TRUE(attempt([&] { poses.put({3, 4}); }).ok());
  const Result<Pose> got = attempt([&] { return subscription.get(); });
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->y, 4);
  poses.close();
  EXPECT_EQ(attempt([&] { return subscription.get(); }).code(), Code::kClosed);
}

TEST(WithoutExceptions, WhatAProgramCannotHaveIsAStatus) {
  EXPECT_EQ(attempt([] { return Tensor::empty({-1}, DType::kFloat32); }).code(), Code::kInvalid);
  EXPECT_EQ(attempt([] { return Domain::attach("nobody-serves-this-name", 1ms); }).code(), Code::kNotFound);
  Domain own = Domain::own();
  EXPECT_EQ(attempt([&] { return own.open<Queue<int>>("nothing-is-published-so"); }).code(), Code::kNotFound);
  SharedMap<int, Pose> map(16);
  EXPECT_EQ(attempt([&] { return map.at(7); }).code(), Code::kInvalid);
  Lock lock;
  EXPECT_EQ(attempt([&] { lock.unlock(); }).code(), Code::kInvalid) << "nobody holds it";
}

TEST(WithoutExceptions, AChildWorksAndItsEndIsSeen) {
  Queue<int> answers;
  Process child = Process::fork([&] { answers.put(42); });
  ASSERT_TRUE(attempt([&] { child.start(); }).ok());
  EXPECT_EQ(answers.get(), 42);
  EXPECT_TRUE(attempt([&] { child.join(); }).ok());
  EXPECT_EQ(child.exitcode(), 0);
}

TEST(WithoutExceptions, ResultsChain) {
  const Result<int> sum = attempt([] { return Queue<int>(); }).and_then([](Queue<int> queue) {
    return attempt([&] {
      queue.put(3);
      return queue.get() + 1;
    });
  });
  EXPECT_EQ(sum.value_or(0), 4);
  EXPECT_EQ(Result<int>(Code::kTimeout, "over").value_or(7), 7);
}

}  // namespace
}  // namespace forklift::test
