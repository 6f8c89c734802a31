// get_many() of a Queue<T, Delivery::kAtLeastOnce>: several claims in a call, which end one by one or together.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "forklift/multiprocessing.h"
#include "support/asleep.h"
#include "support/child.h"
#include "support/process_fixture.h"

namespace forklift {
namespace {

template <class T>
using Reliable = Queue<T, Delivery::kAtLeastOnce>;
template <class T>
using Claims = std::vector<Claim<T>>;

template <class T>
std::vector<T> contents(const Claims<T>& claims) {
  std::vector<T> all;
  for (const Claim<T>& claim : claims) all.push_back(*claim);
  return all;
}

class ClaimManyTest : public test::ProcessFixture {
 protected:
  void SetUp() override {
    test::ProcessFixture::SetUp();
    numbers_ = Reliable<int>({.claims = 4});
    numbers_.put_many(std::vector<int>{0, 1, 2, 3, 4});
  }
  void TearDown() override {
    numbers_.reset();
    test::ProcessFixture::TearDown();
  }
  Reliable<int> numbers_{nullptr};
};

TEST_F(ClaimManyTest, TakesWhatIsThere) {
  Claims<int> claims;
  EXPECT_EQ(numbers_.get_many(claims, 3), 3U);
  EXPECT_EQ(contents(claims), (std::vector{0, 1, 2}));
  EXPECT_EQ(numbers_.unacknowledged(), 3U);
  numbers_.acknowledge(claims);
  EXPECT_EQ(numbers_.unacknowledged(), 0U);
  EXPECT_FALSE(claims[0]);
  claims.clear();
  EXPECT_EQ(numbers_.try_get_many(claims, 3), 2U);
  EXPECT_EQ(contents(claims), (std::vector{3, 4}));
  EXPECT_EQ(numbers_.try_get_many(claims, 3), 0U);
  EXPECT_EQ(claims.size(), 2U) << "what it held stays claimed";
  EXPECT_EQ(numbers_.unacknowledged(), 2U);
  claims.clear();
  EXPECT_TRUE(numbers_.try_join()) << "the end of their scope acknowledges";
}

TEST_F(ClaimManyTest, EachEndsByItself) {
  Claims<int> claims;
  EXPECT_EQ(numbers_.get_many(claims, 3), 3U);
  claims[1].acknowledge();
  numbers_.give_back(claims);
  claims.clear();
  EXPECT_EQ(numbers_.get_many(claims, 3), 3U);
  EXPECT_EQ(contents(claims), (std::vector{0, 2, 3})) << "what came back comes first, in order";
  EXPECT_EQ(claims[0].tries(), 2U);
  EXPECT_EQ(claims[1].tries(), 2U);
  EXPECT_EQ(claims[2].tries(), 1U);
}

TEST_F(ClaimManyTest, AnExceptionGivesThemBack) {
  EXPECT_THROW(
      {
        Claims<int> claims;
        numbers_.get_many(claims, 2);
        throw std::runtime_error("work failed");
      },
      std::runtime_error);
  Claims<int> claims;
  EXPECT_EQ(numbers_.get_many(claims, 4), 4U);
  EXPECT_EQ(contents(claims), (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(claims[1].tries(), 2U);
  EXPECT_EQ(claims[2].tries(), 1U);
}

TEST_F(ClaimManyTest, AKilledProcesssClaimsComeBack) {
  test::Gate claimed;
  test::Child dies([&] {
    Claims<int> held;
    numbers_.get_many(held, 3);
    held[1].acknowledge();
    claimed.open();
    test::Gate never;
    never.wait(600'000);
  });
  ASSERT_TRUE(claimed.wait(60'000));
  dies.kill_now();
  numbers_.close();
  std::vector<int> came;
  std::uint32_t again = 0;
  for (Claim<int>& claim : numbers_) {
    came.push_back(*claim);
    again += claim.tries() - 1;
  }
  std::sort(came.begin(), came.end());
  EXPECT_EQ(came, (std::vector{0, 2, 3, 4}));
  EXPECT_EQ(again, 2U);
}

TEST_F(ClaimManyTest, AsManyAsTheQueueAllows) {
  Claims<int> claims;
  EXPECT_EQ(numbers_.get_many(claims, 100), 4U);
  try {
    numbers_.get_many(claims, 100);
    ADD_FAILURE() << "it waits for itself";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kNoSpace);
  }
  EXPECT_EQ(contents(claims), (std::vector{0, 1, 2, 3}));
}

TEST_F(ClaimManyTest, WaitsForTheFirst) {
  Claims<int> claims;
  EXPECT_EQ(numbers_.get_many(claims, 4), 4U);
  claims.clear();
  EXPECT_EQ(*numbers_.get(), 4);
  const std::jthread putter = test::when_asleep([&] { numbers_.put(5); });
  EXPECT_EQ(numbers_.get_many(claims, 4), 1U);
  EXPECT_EQ(contents(claims), std::vector{5});
}

TEST_F(ClaimManyTest, AClosedQueue) {
  numbers_.close();
  Claims<int> claims;
  EXPECT_EQ(numbers_.get_many(claims, 3), 3U);
  claims.clear();
  EXPECT_EQ(numbers_.get_many(claims, 3), 2U);
  claims.clear();
  EXPECT_THROW(numbers_.get_many(claims, 3), Closed);
}

TEST_F(ClaimManyTest, WhatCannotBeReadThrowsBehindTheOthers) {
  Reliable<Value> values;
  values.put(Value(Value::List{Value("a"), Value("b")}));
  values.put(Value(7));
  values.put(Value(Value::List{Value("c")}));
  using Words = std::vector<std::string>;
  Reliable<Words> words{ChannelRef(values)};
  Claims<Words> claims;
  EXPECT_THROW(words.get_many(claims, 3), TypeMismatch);
  EXPECT_EQ(contents(claims), (std::vector<Words>{{"a", "b"}}));
  EXPECT_EQ(words.get_many(claims, 3), 1U) << "the one that cannot be read is gone";
  EXPECT_EQ(*claims[1], Words{"c"});
}

TEST_F(ClaimManyTest, StringsOfAllLengths) {
  Reliable<std::string> texts;
  const std::vector<std::string> all = {"a", "bb", std::string(1000, 'c'), "", std::string(100'000, 'd'),
                                        "e"};
  texts.put_many(all);
  Claims<std::string> claims;
  EXPECT_EQ(texts.get_many(claims, 100), all.size());
  EXPECT_EQ(contents(claims), all);
  texts.give_back(claims);
  claims.clear();
  EXPECT_EQ(texts.get_many(claims, 100), all.size());
  EXPECT_EQ(contents(claims), all);
  EXPECT_EQ(claims[5].tries(), 2U);
  texts.acknowledge(claims);
  EXPECT_TRUE(texts.try_join());
}

TEST_F(ClaimManyTest, TensorsAndAnEmptyHandle) {
  Reliable<Tensor> tensors;
  for (int i = 0; i < 3; ++i) {
    Tensor tensor = Tensor::empty({1000}, DType::kInt32);
    tensor.data<int>()[0] = i;
    tensors.put(std::move(tensor));
  }
  Claims<Tensor> claims;
  EXPECT_EQ(tensors.get_many(claims, 10), 3U);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(claims[static_cast<std::size_t>(i)]->data<int>()[0], i);
  tensors.acknowledge(claims);
  EXPECT_TRUE(tensors.try_join());
  tensors.reset();
  EXPECT_THROW(tensors.get_many(claims, 1), Error);
}

}  // namespace
}  // namespace forklift
