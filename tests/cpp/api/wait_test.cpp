// Wait: every way to make one, what it says of itself, and that every call that takes one ends by it.
#include "forklift/wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <concepts>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "forklift/multiprocessing.h"
#include "support/asleep.h"
#include "support/process_fixture.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using std::chrono::system_clock;
using Seconds = std::chrono::duration<double>;

static_assert(std::convertible_to<std::chrono::minutes, Wait> && std::convertible_to<Seconds, Wait>);
static_assert(std::convertible_to<steady_clock::time_point, Wait>);
static_assert(std::convertible_to<std::chrono::sys_days, Wait>);
static_assert(std::convertible_to<std::stop_token, Wait>);
static_assert(!std::convertible_to<int, Wait> && !std::convertible_to<double, Wait>);
static_assert(!std::convertible_to<bool, Wait> && !std::convertible_to<std::nullptr_t, Wait>);
static_assert(std::is_nothrow_default_constructible_v<Wait> && std::copyable<Wait>);

bool is_limited(const Wait& wait) { return !wait.over() && !wait.is_forever(); }
bool is_over(const Wait& wait) { return wait.over() && !wait.is_forever(); }
bool is_endless(const Wait& wait) { return !wait.over() && wait.is_forever(); }

TEST(Wait, NothingIsNotAtAll) {
  EXPECT_TRUE(is_over(Wait()));
  EXPECT_TRUE(is_over(Wait::now()));
  EXPECT_TRUE(is_over({}));
  EXPECT_TRUE(is_endless(Wait::forever()));
}

TEST(Wait, OfADuration) {
  EXPECT_TRUE(is_limited(5ms));
  EXPECT_TRUE(is_limited(1ns));
  EXPECT_TRUE(is_limited(Seconds(0.5)));
  EXPECT_TRUE(is_limited(std::chrono::days(365 * 100)));
  EXPECT_TRUE(is_over(0s));
  EXPECT_TRUE(is_over(-5ms));
  EXPECT_TRUE(is_over(std::chrono::nanoseconds::min()));
  EXPECT_TRUE(is_over(std::chrono::hours::min()));
  EXPECT_TRUE(is_over(Seconds(-INFINITY)));
  EXPECT_TRUE(is_over(Seconds(std::nan(""))));
  EXPECT_TRUE(is_endless(Seconds(INFINITY)));
  EXPECT_TRUE(is_endless(Seconds(1e300)));
  EXPECT_TRUE(is_endless(std::chrono::hours::max()));
  EXPECT_TRUE(is_endless(std::chrono::nanoseconds::max()));
}

TEST(Wait, OfATimePointOfAnyClock) {
  const auto of_clock = []<class Clock>(Clock) {
    EXPECT_TRUE(is_limited(Clock::now() + 1h));
    EXPECT_TRUE(is_over(Clock::now() - 1ms));
    EXPECT_TRUE(is_over(Clock::now() - 24h));
    EXPECT_TRUE(is_over(Clock::time_point::min()));
    EXPECT_TRUE(is_endless(Clock::time_point::max()));
    const Wait soon(Clock::now() + 20ms);
    EXPECT_TRUE(is_limited(soon));
    std::this_thread::sleep_for(30ms);
    EXPECT_TRUE(is_over(soon)) << "it means that time whenever it is used";
  };
  of_clock(steady_clock());
  of_clock(system_clock());
  of_clock(std::chrono::file_clock());
  EXPECT_TRUE(is_over(std::chrono::sys_days::min()));
  EXPECT_TRUE(is_over(std::chrono::sys_time<Seconds>(Seconds(-INFINITY))));
  EXPECT_TRUE(is_over(std::chrono::sys_time<Seconds>(Seconds(std::nan("")))));
  EXPECT_TRUE(is_endless(std::chrono::sys_days::max()));
  EXPECT_TRUE(is_endless(std::chrono::sys_time<Seconds>(Seconds(INFINITY))));
}

TEST(Wait, OfAStopToken) {
  EXPECT_TRUE(is_endless(std::stop_token())) << "nothing can stop it";
  std::stop_source source;
  const Wait wait = source.get_token();
  EXPECT_TRUE(is_limited(wait));
  EXPECT_EQ(wait.stop(), source.get_token());
  EXPECT_FALSE(Wait(5ms).stop().stop_possible());
  source.request_stop();
  EXPECT_TRUE(is_over(wait));
  EXPECT_TRUE(is_over(source.get_token()));
}

TEST(Wait, OfBothInBraces) {
  std::stop_source source;
  const std::stop_token stop = source.get_token();
  const Wait waits[] = {{1h, stop},
                        {steady_clock::now() + 1h, stop},
                        {system_clock::now() + 1h, stop},
                        {Seconds(INFINITY), stop},
                        {steady_clock::time_point::max(), stop}};
  for (const Wait& wait : waits) {
    EXPECT_TRUE(is_limited(wait));
    EXPECT_EQ(wait.stop(), stop);
  }
  EXPECT_TRUE(is_over({0s, stop}));
  EXPECT_TRUE(is_over({-1s, stop}));
  EXPECT_TRUE(is_over({system_clock::now() - 1s, stop}));
  EXPECT_TRUE(is_limited({1h, std::stop_token()}));
  EXPECT_TRUE(is_endless({Seconds(INFINITY), std::stop_token()}));
  EXPECT_TRUE(is_endless({steady_clock::time_point::max(), std::stop_token()}));
  source.request_stop();
  for (const Wait& wait : waits) EXPECT_TRUE(is_over(wait));
}

TEST(Wait, BegunItsTimeRuns) {
  std::stop_source source;
  const Wait wait(20ms, source.get_token());
  const Wait begun = wait.begun();
  const Wait again = begun.begun();
  EXPECT_TRUE(is_limited(begun));
  EXPECT_EQ(begun.stop(), source.get_token());
  std::this_thread::sleep_for(30ms);
  EXPECT_TRUE(is_limited(wait)) << "a duration counts from the call that it is given to";
  EXPECT_TRUE(is_over(begun));
  EXPECT_TRUE(is_over(again)) << "it began once";
  EXPECT_TRUE(is_endless(Wait::forever().begun()));
  EXPECT_TRUE(is_endless(Wait(std::chrono::nanoseconds::max()).begun()));
  EXPECT_TRUE(is_over(Wait::now().begun()));
  EXPECT_TRUE(is_limited(Wait(std::chrono::days(365 * 290)).begun()));
  const Wait stopped = Wait(1h, source.get_token()).begun();
  EXPECT_TRUE(is_limited(Wait(source.get_token()).begun()));
  source.request_stop();
  EXPECT_TRUE(is_over(stopped));
}

class WaitCalls : public test::ProcessFixture {};

TEST_F(WaitCalls, ADurationIsEachCallsOwnAndABegunOneIsShared) {
  Queue<int> queue;
  const Wait each(30ms);
  auto begin = steady_clock::now();
  EXPECT_EQ(queue.try_get(each), std::nullopt);
  EXPECT_EQ(queue.try_get(each), std::nullopt);
  EXPECT_GE(steady_clock::now() - begin, 60ms);
  begin = steady_clock::now();
  const Wait shared = Wait(200ms).begun();
  int calls = 0;
  for (; !shared.over(); ++calls) EXPECT_EQ(queue.try_get(shared), std::nullopt);
  EXPECT_GE(steady_clock::now() - begin, 200ms);
  EXPECT_LE(calls, 2);
}

TEST_F(WaitCalls, WhatIsThereIsTakenByAWaitThatIsOver) {
  std::stop_source stopped;
  stopped.request_stop();
  const std::stop_token stop = stopped.get_token();
  Queue<int> queue({.capacity = 1});
  for (const Wait& wait : std::vector<Wait>{{},
                                            0s,
                                            -1s,
                                            stop,
                                            {1h, stop},
                                            steady_clock::time_point::min(),
                                            {steady_clock::time_point::max(), stop}}) {
    EXPECT_TRUE(queue.try_put(3, wait));
    EXPECT_FALSE(queue.try_put(4, wait));
    EXPECT_EQ(queue.try_get(wait), 3);
    EXPECT_EQ(queue.try_get(wait), std::nullopt);
  }
}

// Everything that waits, on something that does not come: false, each time.
class NothingComes {
 public:
  NothingComes() {
    full_.put(1);
    unfinished_.put(1);
    stream_.put(1);
    held_.lock();
    locked_.wait();
  }
  ~NothingComes() {
    held_.unlock();
    over_.set();
  }

  using Call = std::function<bool(const Wait&)>;
  std::vector<std::pair<std::string, Call>> calls() {
    return {
        {"get", [this](const Wait& wait) { return empty_.try_get(wait).has_value(); }},
        {"get_into", [this](const Wait& wait) { return empty_.try_get_into(item_, wait); }},
        {"put", [this](const Wait& wait) { return full_.try_put(2, wait); }},
        {"join", [this](const Wait& wait) { return unfinished_.try_join(wait); }},
        {"connection get", [this](const Wait& wait) { return pipe_.first.try_get(wait).has_value(); }},
        {"connection poll", [this](const Wait& wait) { return pipe_.first.poll(wait); }},
        {"broadcast put", [this](const Wait& wait) { return stream_.try_put(2, wait); }},
        {"readers", [this](const Wait& wait) { return stream_.try_wait_for_readers(2, wait); }},
        {"subscription", [this](const Wait& wait) { return other_reader_.try_get(wait).has_value(); }},
        {"latest", [this](const Wait& wait) { return newest_.try_get(wait).has_value(); }},
        {"lock", [this](const Wait& wait) { return held_.try_lock(wait); }},
        {"rlock", [this](const Wait& wait) { return recursive_.try_lock(wait); }},
        {"semaphore", [this](const Wait& wait) { return units_.try_acquire(wait); }},
        {"event", [this](const Wait& wait) { return event_.try_wait(wait); }},
        {"condition, no predicate",
         [this](const Wait& wait) {
           std::unique_lock guard(guarded_);
           return condition_.try_wait(guard, wait);
         }},
        {"condition",
         [this](const Wait& wait) {
           std::unique_lock guard(guarded_);
           return condition_.try_wait(guard, wait, [] { return false; });
         }},
        {"barrier",
         [this](const Wait& wait) {
           const bool passed = barrier_.try_arrive_and_wait(wait).has_value();
           EXPECT_TRUE(barrier_.broken());
           barrier_.reset();
           return passed;
         }},
        {"shared value", [this](const Wait& wait) { return number_.try_wait(0, wait); }},
        {"wait_any, queues",
         [this](const Wait& wait) { return !try_wait_any({empty_, newest_}, wait).empty(); }},
        {"wait_any, mixed",
         [this](const Wait& wait) { return !try_wait_any({empty_, pipe_.first}, wait).empty(); }},
        {"open", [](const Wait& wait) { return Domain::own().try_open<Lock>("nothing", wait).has_value(); }},
    };
  }

 private:
  Queue<int> empty_;
  int item_ = 0;
  Queue<int> full_{{.capacity = 1}};
  JoinableQueue<int> unfinished_;
  std::pair<Connection<int>, Connection<int>> pipe_ = make_pipe<int>();
  Broadcast<int> stream_{{.capacity = 1, .when_slow = WhenSlow::kWait}};
  Subscription<int> slow_reader_ = stream_.subscribe();
  Broadcast<int> quiet_;
  Subscription<int> other_reader_ = quiet_.subscribe();
  Latest<int> newest_;
  Lock held_;
  RLock recursive_;
  Semaphore units_{{.value = 0}};
  Event event_;
  Lock guarded_;
  Condition condition_;
  Barrier barrier_{2};
  SharedValue<int> number_;
  Event locked_;
  Event over_;
  // An RLock can be locked again by the thread that holds it.
  std::jthread holder_{[this] {
    const std::scoped_lock lock(recursive_);
    locked_.set();
    over_.wait();
  }};
};

TEST_F(WaitCalls, EachEndsAtItsTime) {
  NothingComes nothing;
  for (const auto& [name, call] : nothing.calls()) {
    for (const Wait& over :
         std::vector<Wait>{{}, -1s, steady_clock::time_point::min(), system_clock::now() - 1h}) {
      const auto begin = steady_clock::now();
      EXPECT_FALSE(call(over)) << name;
      EXPECT_LT(steady_clock::now() - begin, 1s) << name;
    }
    const auto begin = steady_clock::now();
    EXPECT_FALSE(call(5ms)) << name;
    EXPECT_FALSE(call(steady_clock::now() + 5ms)) << name;
    EXPECT_FALSE(call({5ms, std::stop_source().get_token()})) << name;
    EXPECT_GE(steady_clock::now() - begin, 15ms) << name;
    const auto when = system_clock::now() + 5ms;
    EXPECT_FALSE(call(when)) << name;
    EXPECT_GE(system_clock::now() + 1ms, when) << name;  // that clock may be set meanwhile
  }
}

TEST_F(WaitCalls, AStopEndsEach) {
  NothingComes nothing;
  for (const auto& [name, call] : nothing.calls()) {
    std::stop_source source;
    {
      const std::jthread stopper = test::when_asleep([&] { source.request_stop(); });
      EXPECT_FALSE(call(source.get_token())) << name;
      EXPECT_TRUE(source.stop_requested()) << name;
    }
    std::stop_source timed;
    {
      const std::jthread stopper = test::when_asleep([&] { timed.request_stop(); });
      EXPECT_FALSE(call({steady_clock::now() + 1h, timed.get_token()})) << name;
      EXPECT_TRUE(timed.stop_requested()) << name;
    }
    const auto begin = steady_clock::now();
    EXPECT_FALSE(call(source.get_token())) << name << ", requested before";
    EXPECT_FALSE(call({1h, source.get_token()})) << name << ", requested before";
    EXPECT_LT(steady_clock::now() - begin, 1s) << name;
  }
}

TEST_F(WaitCalls, AProcessAndItsGroup) {
  std::vector<Process> members;
  members.push_back(Process::fork([] {
    for (;;) ::pause();
  }));
  members[0].set_daemon(true).start();
  std::stop_source source;
  {
    const std::jthread stopper = test::when_asleep([&] { source.request_stop(); });
    EXPECT_FALSE(members[0].try_join(source.get_token()));
  }
  EXPECT_FALSE(members[0].try_join());
  EXPECT_FALSE(members[0].try_join({1h, source.get_token()}));
  EXPECT_FALSE(members[0].try_join(system_clock::now() + 5ms));
  ProcessContext group(std::move(members));
  EXPECT_FALSE(group.try_join());
  EXPECT_FALSE(group.try_join({5ms, std::stop_token()}));
  EXPECT_FALSE(group.try_join(source.get_token()));
  group.stop();
  EXPECT_TRUE(group.try_join());
}

}  // namespace
}  // namespace forklift
