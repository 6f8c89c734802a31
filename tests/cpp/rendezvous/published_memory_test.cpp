// Tensors, shared arrays, values, containers and a manager's objects under names: the same memory for all programs that open them,
// for as long as the name is there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "forklift/multiprocessing.h"
#include "node/node.h"
#include "support/child.h"

namespace forklift {
namespace {

using std::chrono::seconds;
using test::Child;
using test::eventually;
using testing::HasSubstr;
using testing::IsEmpty;

class PublishedMemory : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    (void)Lock();
    const Manager warm;  // the zygote stays
  }
  void SetUp() override { blocks_ = held(); }
  void TearDown() override {
    EXPECT_THAT(domain_.published(), IsEmpty());
    EXPECT_TRUE(eventually([&] { return node().domain().reap(), held() == blocks_; }));
    EXPECT_THAT(node().audit(), IsEmpty());
  }
  static node::Node& node() { return *node::Node::existing(); }
  static std::uint64_t held() { return node().arena().stats().held_blocks; }
  // Runs it in a process that is killed afterwards.
  static void killed_after(const std::function<void()>& body) {
    test::Gate done;
    Child child([&] {
      body();
      done.open();
      ::pause();
    });
    EXPECT_TRUE(done.wait());
    child.kill_now();
    node().domain().reap();
  }

  Domain domain_ = Domain::own();

 private:
  std::uint64_t blocks_ = 0;
};

TEST_F(PublishedMemory, OutlivesItsPublisher) {
  killed_after([&] {
    Tensor weights = Tensor::zeros({3, 4}, DType::kFloat32);
    weights.data<float>()[5] = 2.5F;
    domain_.publish("weights", weights);
    SharedArray<int> table(10);
    table[3] = 7;
    domain_.publish("table", table);
    domain_.publish("value", SharedValue<double>(1.5));
    domain_.publish("count", SharedCounter(4));
    SharedMap<int, int> map(5);
    map.insert(1, 2);
    domain_.publish("map", map);
    SharedVector<short> numbers(6);
    numbers.push_back(9);
    domain_.publish("numbers", numbers);
  });
  EXPECT_EQ(domain_.published().size(), 6U);
  const Tensor weights = domain_.open<Tensor>("weights");
  EXPECT_EQ(weights.data<float>()[5], 2.5F);
  EXPECT_EQ(domain_.open<SharedArray<int>>("table")[3], 7);
  EXPECT_EQ(domain_.open<SharedValue<double>>("value").get(), 1.5);
  EXPECT_EQ(domain_.open<SharedCounter>("count").add(), 4);
  EXPECT_EQ((domain_.open<SharedMap<int, int>>("map").at(1)), 2);
  EXPECT_EQ(domain_.open<SharedVector<short>>("numbers").at(0), 9);

  // Another process sees the same memory.
  Child other([&] {
    domain_.open<Tensor>("weights").data<float>()[5] = 3;
    domain_.open<SharedMap<int, int>>("map").insert(2, 3);
  });
  EXPECT_EQ(other.wait(), 0);
  EXPECT_EQ(weights.data<float>()[5], 3);
  EXPECT_EQ((domain_.open<SharedMap<int, int>>("map").at(2)), 3);
  EXPECT_EQ(domain_.open<SharedCounter>("count").value(), 5);

  for (const Domain::Published& one : domain_.published()) EXPECT_TRUE(domain_.unpublish(one.name));
  EXPECT_EQ(weights.data<float>()[5], 3);  // those that have it open keep it
  EXPECT_FALSE(domain_.try_open<Tensor>("weights").has_value());
}

TEST_F(PublishedMemory, IsCheckedWhenItIsOpened) {
  domain_.publish("weights", Tensor::zeros({2, 3}, DType::kFloat64));
  domain_.publish("table", SharedArray<int>(10));
  domain_.publish("map", SharedMap<int, int>(5));
  using OtherMap = SharedMap<int, long>;
  using Map = SharedMap<int, int>;
  EXPECT_THROW((void)domain_.open<SharedArray<float>>("table"), TypeMismatch);
  EXPECT_THROW((void)domain_.open<SharedArray<int>>("weights"), TypeMismatch);
  EXPECT_THROW((void)domain_.open<Tensor>("table"), TypeMismatch);
  EXPECT_THROW((void)domain_.open<OtherMap>("map"), TypeMismatch);
  EXPECT_THROW((void)domain_.open<SharedVector<int>>("map"), TypeMismatch);
  EXPECT_THROW((void)domain_.open<Queue<int>>("weights"), TypeMismatch);
  EXPECT_THROW(domain_.publish("map", Map(5)), Error);

  EXPECT_EQ(domain_.open_or_create<SharedArray<int>>("table", 10U).size(), 10U);
  EXPECT_EQ(domain_.open_or_create<Map>("map", 5U).capacity(), 5U);
  EXPECT_THROW((void)domain_.open_or_create<SharedArray<int>>("table", 11U), Error);
  EXPECT_THROW((void)domain_.open_or_create<Map>("map", 6U), Error);
  const Tensor same = domain_.open_or_create<Tensor>("weights", Tensor::zeros({2, 3}, DType::kFloat64));
  EXPECT_EQ(same.numel(), 6);
  try {
    (void)domain_.open_or_create<Tensor>("weights", Tensor::zeros({6}, DType::kInt32));
    ADD_FAILURE() << "another shape";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("float64 of shape [2 3]"));
    EXPECT_THAT(error.what(), HasSubstr("int32 of shape [6]"));
  }
  for (const char* name : {"weights", "table", "map"}) EXPECT_TRUE(domain_.unpublish(name));
}

TEST_F(PublishedMemory, SeveralProgramsMeetInOne) {
  std::vector<Child> children;
  test::Gate begin;
  for (int i = 0; i < 4; ++i) {
    children.emplace_back([&] {
      ASSERT_TRUE(begin.wait());
      auto map = domain_.open_or_create<SharedMap<int, int>>("scores", 8U);
      auto count = domain_.open_or_create<SharedCounter>("count");
      for (int n = 0; n < 100; ++n) map.upsert(1, 0, [](int& score) { ++score; });
      count.add();
      count.wait_for(4);
    });
  }
  begin.open(4);
  for (Child& child : children) EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ((domain_.open<SharedMap<int, int>>("scores").at(1)), 400);
  EXPECT_TRUE(domain_.unpublish("scores"));
  EXPECT_TRUE(domain_.unpublish("count"));
}

TEST_F(PublishedMemory, AManagersDictionary) {
  {
    Manager manager;
    manager.dict().set("never", 1);
    const ManagedDict scores = manager.dict();
    domain_.publish("scores", scores);
    Child other([&] { domain_.open<ManagedDict>("scores").add("games", 2); });
    EXPECT_EQ(other.wait(), 0);
    EXPECT_EQ(scores.at<std::int64_t>("games"), 2);
    EXPECT_THROW((void)domain_.open<ManagedList>("scores"), TypeMismatch);
  }
  // The name outlives the manager; a call on what it names says so.
  EXPECT_THROW(domain_.open<ManagedDict>("scores").add("games", 2), Error);
  EXPECT_TRUE(domain_.unpublish("scores"));
}

// Publishers are killed at any moment: a name is there with its memory, or not at all.
TEST_F(PublishedMemory, AStorm) {
  for (int round = 0; round < 60; ++round) {
    Child publisher([&] {
      for (std::int64_t i = 1;; ++i) {
        Tensor made = Tensor::empty({100}, DType::kInt64);
        std::fill_n(made.data<std::int64_t>(), 100, i);
        domain_.publish("tensor", made);
        domain_.unpublish("tensor");
      }
    });
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(200 * (round % 20));
    do {
      if (const auto found = domain_.try_open<Tensor>("tensor")) {
        const std::int64_t* numbers = found->data<std::int64_t>();
        ASSERT_EQ(found->numel(), 100);
        ASSERT_GT(numbers[0], 0);
        ASSERT_EQ(numbers[0], numbers[99]);
      }
    } while (std::chrono::steady_clock::now() < until);
    publisher.kill_now();
    node().domain().reap();
    (void)domain_.unpublish("tensor");
  }
}

}  // namespace
}  // namespace forklift
