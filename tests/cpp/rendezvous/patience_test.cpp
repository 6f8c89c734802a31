// Domain::try_attach and try_open: programs that wait for one that comes later.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "forklift/multiprocessing.h"
#include "node/node.h"
#include "support/asleep.h"
#include "support/child.h"
#include "support/runtime_dir.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using test::Child;
using test::eventually;

// {name, gate to open when it has begun}: attaches as soon as somebody serves, and puts its pid into "numbers" as
// soon as that is published.
int come_early(const std::vector<std::string>& arguments) {
  const std::uint64_t one = 1;
  (void)!::write(std::stoi(arguments.at(1)), &one, sizeof one);
  const std::optional<Domain> domain = Domain::try_attach(arguments.at(0), 20s);
  if (!domain) return 1;
  if (domain->name() != arguments.at(0)) return 2;
  std::optional<Queue<int>> numbers = domain->try_open<Queue<int>>("numbers", 20s);
  if (!numbers) return 3;
  numbers->put(::getpid());
  return 0;
}
const bool kComesEarly = test::add_helper("comes early", come_early);

template <class Call>
Code code_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return Code::kOk;
}

class PatienceTest : public testing::Test {
 protected:
  // What ended processes held is given back when somebody looks.
  void TearDown() override {
    node::Node* const node = node::Node::existing();
    EXPECT_TRUE(!node || eventually([&] { return node->domain().reap(), node->domain().live_slots() == 1; }));
  }

  test::RuntimeDir directory_;
  const std::string name_ = "camera";
};

TEST_F(PatienceTest, AProgramThatComesBeforeTheServer) {
  ASSERT_TRUE(kComesEarly);
  test::Gate begun;
  const int gate = begun.fd().get();
  std::vector<Child> children;
  for (int i = 0; i < 2; ++i) {
    children.push_back(test::start_helper("comes early", {name_, std::to_string(gate)}, std::array{gate}));
    ASSERT_TRUE(begun.wait());
    EXPECT_TRUE(test::eventually_asleep(children.back().pid()));
  }
  const std::uint64_t before = stats().processes;
  Domain domain = Domain::serve(name_);
  EXPECT_TRUE(eventually([&] { return stats().processes == before + 2; })) << "both have attached";
  Queue<int> numbers;
  domain.publish("numbers", numbers);
  const std::optional<int> one = numbers.try_get(20s);
  const std::optional<int> two = numbers.try_get(20s);
  ASSERT_TRUE(one && two);
  EXPECT_EQ(*one + *two, children[0].pid() + children[1].pid());
  for (Child& child : children) EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(domain.unpublish("numbers"));
}

TEST_F(PatienceTest, NobodyComes) {
  EXPECT_FALSE(Domain::try_attach(name_));
  EXPECT_FALSE(Domain::try_attach(name_, -1s));
  const auto begin = steady_clock::now();
  EXPECT_FALSE(Domain::try_attach(name_, 20ms));
  EXPECT_FALSE(Domain::try_attach(name_, std::chrono::system_clock::now() + 20ms, {.stand_by = false}));
  EXPECT_GE(steady_clock::now() - begin, 39ms);
  EXPECT_LT(steady_clock::now() - begin, 5s);
  EXPECT_EQ(code_of([&] { Domain::attach(name_); }), Code::kNotFound) << "attach() waits for nobody";
  EXPECT_EQ(code_of([&] { (void)Domain::try_attach("a/b", 1h); }), Code::kInvalid);
}

TEST_F(PatienceTest, AStopEndsTheWaitForAServer) {
  std::stop_source source;
  {
    const std::jthread stopper = test::when_asleep([&] { source.request_stop(); });
    EXPECT_FALSE(Domain::try_attach(name_, source.get_token()));
  }
  EXPECT_TRUE(source.stop_requested());
  EXPECT_FALSE(Domain::try_attach(name_, {1h, source.get_token()})) << "requested before";
}

TEST_F(PatienceTest, NothingIsPublished) {
  const Domain domain = Domain::own();
  EXPECT_FALSE(domain.try_open<Queue<int>>("numbers"));
  EXPECT_FALSE(domain.try_open<Lock>("lock", -1s));
  EXPECT_FALSE(domain.try_open<Broadcast<int>>("stream", steady_clock::time_point::min()));
  const auto begin = steady_clock::now();
  EXPECT_FALSE(domain.try_open<Latest<int>>("newest", 20ms));
  EXPECT_GE(steady_clock::now() - begin, 20ms);
  std::stop_source source;
  {
    const std::jthread stopper = test::when_asleep([&] { source.request_stop(); });
    EXPECT_FALSE(domain.try_open<Queue<int>>("numbers", source.get_token()));
  }
  EXPECT_TRUE(source.stop_requested());
  EXPECT_FALSE(domain.try_open<Queue<int>>("numbers", {1h, source.get_token()})) << "requested before";
  EXPECT_EQ(code_of([&] { (void)domain.try_open<Lock>("a/b", 1h); }), Code::kInvalid);
}

TEST_F(PatienceTest, WhatAnotherProcessPublishesLaterIsOpened) {
  Domain domain = Domain::own();
  Child child([waiter = ::getpid()] {
    (void)test::eventually_asleep(waiter);
    Domain own = Domain::own();
    Queue<int> numbers({.capacity = 3});
    numbers.put(5);
    own.publish("numbers", numbers);
    own.publish("gate", Event());
  });
  std::optional<Queue<int>> numbers = domain.try_open<Queue<int>>("numbers", 20s);
  ASSERT_TRUE(numbers);
  EXPECT_EQ(numbers->capacity(), 3U);
  EXPECT_EQ(numbers->get(), 5);
  std::optional<Event> gate = domain.try_open<Event>("gate", Wait::forever());
  ASSERT_TRUE(gate);
  EXPECT_FALSE(gate->is_set());
  EXPECT_EQ(child.wait(), 0);
  EXPECT_THROW((void)domain.try_open<Queue<std::string>>("numbers", 1h), TypeMismatch) << "it does not wait";
  EXPECT_THROW((void)domain.try_open<Lock>("numbers", 1h), TypeMismatch);
  EXPECT_TRUE(domain.unpublish("numbers"));
  EXPECT_TRUE(domain.unpublish("gate"));
  EXPECT_FALSE(domain.try_open<Queue<int>>("numbers"));
}

}  // namespace
}  // namespace forklift
