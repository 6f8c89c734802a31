// Waiting: time-outs, interrupts, what stopped and killed peers do to those who wait.
#include "channel/waiting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "support/asleep.h"
#include "support/node_fixture.h"

namespace forklift::channel {
namespace {

using arena::Kind;
using arena::LeasePtr;
using os::Deadline;
using test::bell_of;
using test::Child;
using test::eventually;
using test::Gate;
using test::get_text;
using test::put_text;
using test::time_of;
using testing::HasSubstr;

constexpr std::int64_t kMs = 1'000'000;

class WaitingTest : public test::NodeFixture {
 protected:
  void TearDown() override {
    EXPECT_TRUE(eventually([&] { return domain().reap(), domain().live_slots() == 1; }));
    NodeFixture::TearDown();
  }
  ChannelRow& row_of(const ChannelPtr& channel) {
    return node().channels().unchecked_row(channel->id().index);
  }
};

// Asked to stop at the n-th question.
class StopAfter : public WaitHooks {
 public:
  explicit StopAfter(int questions, std::int64_t slice = 5 * kMs) : left_(questions) { slice_ns = slice; }
  Status poll() override {
    ++asked;
    return --left_ > 0 ? Status() : Status(Code::kInterrupted, "stop");
  }
  int asked = 0;

 private:
  int left_;
};

TEST(Waiting, WhereLargeMessagesGoASpinOutlastsTheirCopy) {
  EXPECT_EQ(spin_ns_for(0), sync::kSpinNs);
  EXPECT_EQ(spin_ns_for(64), sync::kSpinNs + 8);
  EXPECT_EQ(spin_ns_for(1 << 20), sync::kSpinNs + 131'072);
  EXPECT_EQ(spin_ns_for(2 << 20), sync::kSpinNs + 262'144);
  EXPECT_EQ(spin_ns_for((2 << 20) + 1), sync::kSpinNs);
  EXPECT_EQ(spin_ns_for(~std::uint64_t{0}), sync::kSpinNs);
}

TEST_F(WaitingTest, AfterALargeMessageASpinForTheAnswerOutlastsItsReading) {
  ChannelPtr questions = make_channel(), answers = make_channel();
  const auto spin_ns = [&] { return answers->for_message().spin_ns; };
  exchange.unanswered_bytes = 0;  // this thread ran other tests
  ASSERT_OK(put_text(*questions, "small"));
  EXPECT_LT(spin_ns(), sync::kSpinNs + 100);
  LeasePtr block = allocate(Kind::kShare, 1 << 20);
  const std::uint64_t bytes = block->size();
  ASSERT_OK(questions->put({.leases = {&block, 1}}, Deadline::never()));
  EXPECT_EQ(spin_ns(), spin_ns_for(bytes));
  ASSERT_OK(put_text(*questions, "and a small one"));
  EXPECT_EQ(spin_ns(), spin_ns_for(bytes)) << "both are unanswered";
  std::thread([&] { EXPECT_LT(spin_ns(), sync::kSpinNs + 100) << "another thread's"; }).join();
  // A wait in vain is no answer, and what is there is not waited for.
  EXPECT_CODE(Code::kTimeout, get_text(*answers, 0.001));
  EXPECT_EQ(spin_ns(), spin_ns_for(bytes));
  {
    const std::jthread other = test::when_asleep([&] { EXPECT_OK(put_text(*answers, "answer")); });
    EXPECT_EQ(*get_text(*answers), "answer");
  }
  EXPECT_LT(spin_ns(), sync::kSpinNs + 100);

  // What takes longer than a spin may last changes nothing at a channel of large messages.
  LeasePtr large = allocate(Kind::kShare, 1 << 20), larger = allocate(Kind::kShare, 4 << 20);
  ASSERT_OK(answers->put({.leases = {&large, 1}}, Deadline::never()));
  ASSERT_OK(questions->put({.leases = {&larger, 1}}, Deadline::never()));
  EXPECT_EQ(spin_ns(), spin_ns_for(bytes));
}

TEST_F(WaitingTest, ATimeOutTakesItsTimeAndNoMore) {
  ChannelPtr channel = make_channel({.capacity = 1});
  for (const double seconds : {0.0, -1.0, std::nan(""), -std::numeric_limits<double>::infinity()}) {
    EXPECT_LT(time_of([&] { EXPECT_CODE(Code::kTimeout, get_text(*channel, seconds)); }), 50 * kMs);
  }
  for (const double seconds : {1e-9, 0.001, 0.05, 0.3}) {
    const std::int64_t took = time_of([&] { EXPECT_CODE(Code::kTimeout, get_text(*channel, seconds)); });
    EXPECT_GE(took, static_cast<std::int64_t>(seconds * 1e9));
    EXPECT_LT(took, static_cast<std::int64_t>(seconds * 1e9) + 150 * kMs);
  }
  ASSERT_OK(put_text(*channel, "full"));
  for (const double seconds : {0.0, -1.0, std::nan(""), 0.001, 0.25}) {
    const std::int64_t took =
        time_of([&] { EXPECT_CODE(Code::kTimeout, put_text(*channel, "no", seconds)); });
    EXPECT_TRUE(!(seconds > 0) || took >= static_cast<std::int64_t>(seconds * 1e9));
    EXPECT_LT(took, 400 * kMs);
  }
  // Without time to wait, what is there is taken all the same.
  EXPECT_EQ(*get_text(*channel, -1), "full");
  EXPECT_OK(put_text(*channel, "room", std::nan("")));
  EXPECT_OK(channel->wait_readable(Deadline::after_seconds(0)));
  EXPECT_EQ(*get_text(*channel, 0), "room");
  EXPECT_CODE(Code::kTimeout, channel->wait_readable(Deadline::after_seconds(0)));
  EXPECT_CODE(Code::kTimeout, channel->wait_readable(Deadline::after_seconds(0.01)));
}

TEST_F(WaitingTest, AnInterruptedGetTakesNothing) {
  ChannelPtr channel = make_channel();
  StopAfter hooks(3);
  Incoming message;
  EXPECT_CODE(Code::kInterrupted, channel->get(message, Deadline::never(), &hooks));
  EXPECT_EQ(hooks.asked, 3);
  EXPECT_CODE(Code::kInterrupted, channel->wait_readable(Deadline::never(), &hooks));
  ASSERT_OK(put_text(*channel, "still here"));
  EXPECT_OK(channel->get(message, Deadline::never(), &hooks));  // nothing to wait for, nobody asked
  EXPECT_EQ(test::text_of(message), "still here");
  EXPECT_EQ(hooks.asked, 4);
  StopAfter join_hooks(2);
  EXPECT_CODE(Code::kInterrupted, channel->join(Deadline::never(), &join_hooks));
}

TEST_F(WaitingTest, AnInterruptedPutSendsNothing) {
  ChannelPtr channel = make_channel({.capacity = 1});
  ASSERT_OK(put_text(*channel, "full"));
  LeasePtr block = allocate(Kind::kShare, 5000);
  StopAfter hooks(3);
  EXPECT_CODE(Code::kInterrupted, channel->put({.leases = {&block, 1}}, Deadline::never(), &hooks));
  EXPECT_TRUE(block->held());
  EXPECT_EQ(channel->size(), 1U);
  EXPECT_EQ(*get_text(*channel), "full");
}

TEST_F(WaitingTest, HooksAreAskedAtLeastEverySlice) {
  ChannelPtr channel = make_channel();
  StopAfter often(1000, 10 * kMs);
  Incoming message;
  EXPECT_CODE(Code::kTimeout, channel->get(message, Deadline::after_seconds(0.3), &often));
  EXPECT_GE(often.asked, 10);
  EXPECT_LE(often.asked, 40);
  StopAfter rarely(1000, 3600'000 * kMs);  // the liveness checks go on nevertheless
  EXPECT_CODE(Code::kTimeout, channel->get(message, Deadline::after_seconds(0.5), &rarely));
  EXPECT_GE(rarely.asked, 2);
}

TEST_F(WaitingTest, ASignalAsksTheHooksAtOnce) {
  ChannelPtr channel = make_channel();
  Child child([&] {
    struct sigaction action{};
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR1, &action, nullptr);
    StopAfter hooks(1, 200 * kMs);
    Incoming message;

    const pid_t self = ::getpid();
    const Child sender([self] {
      EXPECT_TRUE(test::eventually_asleep(self));
      ::kill(self, SIGUSR1);
    });
    const std::int64_t took =
        time_of([&] { EXPECT_CODE(Code::kInterrupted, channel->get(message, Deadline::never(), &hooks)); });
    EXPECT_LT(took, 150 * kMs);
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(WaitingTest, WaitingCostsNoProcessor) {
  ChannelPtr channel = make_channel();
  const auto cpu_ns = [] {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1'000'000'000 + now.tv_nsec;
  };
  const std::int64_t before = cpu_ns();
  EXPECT_CODE(Code::kTimeout, get_text(*channel, 1));
  EXPECT_LT(cpu_ns() - before, 20 * kMs);
}

TEST_F(WaitingTest, WhoOnlyLooksPassesTheWakeUpOn) {
  ChannelPtr channel = make_channel();
  for (int round = 0; round < 5; ++round) {
    std::atomic<std::int64_t> looked{0};
    std::atomic<std::int64_t> took{0};
    test::Sleeper looks, takes;
    std::thread looker([&] {
      looks.is_me();
      EXPECT_OK(channel->wait_readable(Deadline::after_seconds(10)));
      looked = os::now_ns();
    });
    ASSERT_TRUE(looks.asleep());
    std::thread taker([&] {
      takes.is_me();
      EXPECT_OK(get_text(*channel));
      took = os::now_ns();
    });
    ASSERT_TRUE(takes.asleep());
    const std::int64_t put = os::now_ns();
    ASSERT_OK(put_text(*channel, "one"));
    taker.join();
    EXPECT_LT(took - put, 90 * kMs);
    if (looked == 0) {
      ASSERT_OK(put_text(*channel, "another, if the first was gone too soon"));
    }
    looker.join();
    (void)get_text(*channel, 0);
  }
}

// Somebody killed in its sleep: one put pays for it, the next ones make no system call.
TEST_F(WaitingTest, AKilledWaiterIsForgotten) {
  ChannelPtr channel = make_channel();
  Gate ready;
  Child child([&] {
    ready.open();
    (void)get_text(*channel, 1000);
  });
  ASSERT_TRUE(ready.wait());
  ASSERT_TRUE(test::eventually_asleep(child.pid()));
  child.kill_now();
  const sync::EventCount& items = row_of(channel).items;
  ASSERT_OK(put_text(*channel, "pays"));
  const std::uint32_t bell = bell_of(items);
  for (int i = 0; i < 3; ++i) ASSERT_OK(put_text(*channel, "does not"));
  EXPECT_EQ(bell_of(items), bell);
  for (int i = 0; i < 4; ++i) EXPECT_OK(get_text(*channel, 0));
}

// The one that was woken is killed before it takes the message: the other one finds it.
TEST_F(WaitingTest, AWakeUpThatDiedWithItsReceiverIsMadeUpFor) {
  ChannelPtr channel = make_channel();
  for (int round = 0; round < 12; ++round) {
    Gate ready;
    std::array<Child, 2> waiters;
    for (Child& waiter : waiters) {
      waiter = Child([&] {
        ready.open();
        ::_exit(get_text(*channel, 1000).ok() ? 0 : 1);
      });
    }
    ASSERT_TRUE(ready.wait());
    ASSERT_TRUE(ready.wait());
    for (const Child& waiter : waiters) ASSERT_TRUE(test::eventually_asleep(waiter.pid()));
    ASSERT_OK(put_text(*channel, "one"));
    waiters[0].signal(SIGKILL);
    const std::int64_t put = os::now_ns();
    ASSERT_TRUE(eventually([&] { return channel->empty(); })) << round;
    EXPECT_LT(os::now_ns() - put, 1000 * kMs);
    waiters[0].kill_now();
    waiters[1].kill_now();
    domain().reap();
  }
}

// A process that had put several messages is killed before it says so. Without their wake-ups the others would sleep until
// their slices are over, which is long in the build for tests/slices.py.
TEST_F(WaitingTest, ADeathWakesAsManyAsThereAreMessages) {
  ChannelPtr channel = make_channel();
  Gate ready;
  std::array<Child, 4> waiters;
  for (Child& waiter : waiters) {
    waiter = Child([&] {
      ready.open();
      ::_exit(get_text(*channel, 100).ok() ? 0 : 1);
    });
  }
  for (std::size_t i = 0; i < waiters.size(); ++i) ASSERT_TRUE(ready.wait());
  for (const Child& waiter : waiters) ASSERT_TRUE(test::eventually_asleep(waiter.pid()));
  Child putter([&] {
    const std::string text = "put";
    for (std::size_t i = 0; i < waiters.size(); ++i)
      ASSERT_OK(channel->put({.bytes = test::bytes_of(text), .quiet = true}, Deadline::never()));
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(putter.wait(), -SIGKILL);
  const std::int64_t died = os::now_ns();
  ASSERT_TRUE(eventually([&] { return domain().reap(), channel->empty(); }));
  EXPECT_LT(os::now_ns() - died, 5000 * kMs);
  for (Child& waiter : waiters) EXPECT_EQ(waiter.wait(), 0);
}

TEST_F(WaitingTest, ABlockedPutterGoesOnWhenTheGetterWasKilledInside) {
  ChannelPtr channel = make_channel({.capacity = 1});
  ASSERT_OK(put_text(*channel, "full"));
  Child child([&] {
    Status why;
    EXPECT_EQ(row_of(channel).head_mutex.lock(&why), sync::RobustMutex::Acquired::kClean);
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(child.wait(), -SIGKILL);
  std::thread putter([&] { EXPECT_OK(put_text(*channel, "next")); });
  EXPECT_EQ(*get_text(*channel), "full");
  putter.join();
  EXPECT_EQ(*get_text(*channel), "next");
}

// Somebody is stopped while it reaps: those who wait for messages are not held up by that.
TEST_F(WaitingTest, AStoppedReaperHoldsNobodyUp) {
  ChannelPtr channel = make_channel();
  Gate ready;
  Child child([&] {
    Status why;
    EXPECT_EQ(domain().header().reap_mutex.lock(&why), sync::RobustMutex::Acquired::kClean);
    ready.open();
    for (;;) ::pause();
  });
  ASSERT_TRUE(ready.wait());
  child.signal(SIGSTOP);
  const std::int64_t took = time_of([&] { EXPECT_CODE(Code::kTimeout, get_text(*channel, 1.5)); });
  EXPECT_LT(took, 2'500 * kMs);
  child.kill_now();
}

// A stopped process inside a lock: an error that says who, for those who need that lock, and only for them.
TEST_F(WaitingTest, AStoppedLockHolderIsReported) {
  ChannelPtr channel = make_channel();
  ASSERT_OK(put_text(*channel, "before"));
  Gate ready;
  Child child([&] {
    Status why;
    EXPECT_EQ(row_of(channel).tail_mutex.lock(&why), sync::RobustMutex::Acquired::kClean);
    ready.open();
    for (;;) ::pause();
  });
  ASSERT_TRUE(ready.wait());
  child.signal(SIGSTOP);
  EXPECT_EQ(*get_text(*channel), "before");
  Status status;
  const std::int64_t took = time_of([&] { status = put_text(*channel, "stuck"); });
  EXPECT_CODE(Code::kStalled, status);
  EXPECT_THAT(std::string(status.what()), HasSubstr(std::to_string(child.pid())));
  EXPECT_THAT(std::string(status.what()), HasSubstr("SIGSTOP"));
  EXPECT_GE(took, 4'500 * kMs);
  EXPECT_LT(took, 10'000 * kMs);
  ChannelPtr other = make_channel();
  EXPECT_OK(put_text(*other, "elsewhere all is well"));
  child.kill_now();
  EXPECT_OK(put_text(*channel, "goes on"));
  EXPECT_EQ(*get_text(*channel), "goes on");
  EXPECT_EQ(test::audit_of(node()), "");
}

}  // namespace
}  // namespace forklift::channel
