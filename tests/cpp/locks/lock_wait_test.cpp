// Condition, Event, Barrier: order, time-outs, and what the death of one who waits does to the others.
#include <gtest/gtest.h>
#include <unistd.h>

#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "locks/barrier.h"
#include "locks/condition.h"
#include "locks/event.h"
#include "locks/mutex.h"
#include "support/node_fixture.h"

namespace forklift::locks {
namespace {

using os::Deadline;
using test::Child;
using test::eventually;
using test::Gate;

class LockWaitTest : public test::NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    condition_ = *Condition::create(table());
    lock_ = *Mutex::create(table(), false);
  }
  void TearDown() override {
    domain().reap();
    condition_.reset();
    lock_.reset();
    EXPECT_EQ(table().live_locks(), 0U);
    EXPECT_EQ(table().live_cells(), 0U);
    NodeFixture::TearDown();
  }
  Table& table() { return node().locks(); }

  void lock() {
    Took how = Took::kNo;
    EXPECT_OK(lock_->acquire(Deadline::after_seconds(10), nullptr, how));
  }
  Status wait(double seconds = 10, WaitHooks* hooks = nullptr) {
    lock();
    Result<std::uint32_t> place = condition_->enrol();
    EXPECT_OK(place);
    lock_->release();
    Status status = condition_->wait(*place, Deadline::after_seconds(seconds), hooks);
    lock();
    condition_->leave(*place);
    lock_->release();
    return status;
  }
  std::size_t notify(std::size_t most) {
    lock();
    const std::size_t done = condition_->notify(most);
    lock_->release();
    return done;
  }

  ConditionPtr condition_;
  MutexPtr lock_;
};

TEST_F(LockWaitTest, NotifiesTheLongestWaitingFirst) {
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      EXPECT_OK(wait());
      const std::lock_guard<std::mutex> guard(mutex);
      order.push_back(i);
    });
    ASSERT_TRUE(eventually([&] { return condition_->waiting() == static_cast<std::size_t>(i) + 1; }));
  }
  for (std::size_t left = 3; left > 0; --left) {
    EXPECT_EQ(notify(1), 1U);
    ASSERT_TRUE(eventually([&] {
      const std::lock_guard<std::mutex> guard(mutex);
      return order.size() == 4 - left;
    }));
  }
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(notify(5), 0U);
  for (std::thread& thread : threads) thread.join();
}

// A notification is for those who waited when it was given, not for who comes next.
TEST_F(LockWaitTest, LaterWaitersCannotStealIt) {
  std::thread early([&] { EXPECT_OK(wait()); });
  ASSERT_TRUE(eventually([&] { return condition_->waiting() == 1; }));
  lock();
  EXPECT_EQ(condition_->notify(1), 1U);
  const Result<std::uint32_t> mine = condition_->enrol();
  lock_->release();
  EXPECT_CODE(Code::kTimeout, condition_->wait(*mine, Deadline::after_seconds(0.05), nullptr));
  condition_->leave(*mine);
  early.join();
}

TEST_F(LockWaitTest, ConditionAcrossProcesses) {
  std::vector<Child> children;
  for (int i = 0; i < 3; ++i) children.emplace_back([&] { EXPECT_OK(wait()); });
  ASSERT_TRUE(eventually([&] { return condition_->waiting() == 3; }));
  EXPECT_EQ(notify(SIZE_MAX), 3U);
  for (Child& child : children) EXPECT_EQ(child.wait(), 0);
  EXPECT_CODE(Code::kTimeout, wait(0.02));
  EXPECT_CODE(Code::kTimeout, wait(-5));
}

class Refuse final : public WaitHooks {
 public:
  Refuse() { slice_ns = 1'000'000; }
  Status poll() override { return {Code::kInterrupted, "no"}; }
};

TEST_F(LockWaitTest, InterruptedWaiterPassesItsNotificationOn) {
  lock();
  const std::uint32_t first = *condition_->enrol();
  const std::uint32_t second = *condition_->enrol();
  lock_->release();
  Refuse refuse;
  EXPECT_CODE(Code::kInterrupted, condition_->wait(first, Deadline::never(), &refuse));
  EXPECT_EQ(notify(1), 1U);
  EXPECT_OK(condition_->wait(second, Deadline::after_seconds(1), nullptr));
  condition_->leave(first);
  condition_->leave(second);
}

TEST_F(LockWaitTest, DeadWaitersNotificationGoesToTheNext) {
  Gate ready;
  Child child([&] {
    lock();
    EXPECT_OK(condition_->enrol());
    lock_->release();
    ready.open();
    ::pause();
  });
  ASSERT_TRUE(ready.wait());
  std::thread next([&] { EXPECT_OK(wait()); });
  ASSERT_TRUE(eventually([&] { return condition_->waiting() == 2; }));
  EXPECT_EQ(notify(1), 1U);
  EXPECT_EQ(condition_->waiting(), 1U);
  const std::int64_t begin = os::now_ns();
  child.kill_now();
  next.join();
  EXPECT_LT(os::now_ns() - begin, 900'000'000);
}

TEST_F(LockWaitTest, DeadWaiterWithoutNotificationIsForgotten) {
  Gate ready;
  Child child([&] {
    EXPECT_OK(condition_->enrol());
    ready.open();
    ::pause();
  });
  ASSERT_TRUE(ready.wait());
  child.kill_now();
  domain().reap();
  EXPECT_EQ(condition_->waiting(), 0U);
  EXPECT_EQ(notify(1), 0U);
}

TEST_F(LockWaitTest, EventIsSeenEvenWhenClearedAtOnce) {
  const EventPtr event = *Event::create(table());
  EXPECT_FALSE(event->is_set());
  EXPECT_CODE(Code::kTimeout, event->wait(Deadline::after_seconds(0.01), nullptr));
  Gate waits;
  Child child([&] {
    waits.open();
    EXPECT_OK(event->wait(Deadline::after_seconds(10), nullptr));
  });
  ASSERT_TRUE(waits.wait());
  ASSERT_TRUE(eventually([&] {
    EXPECT_OK(event->set());
    EXPECT_TRUE(event->is_set());
    EXPECT_OK(event->clear());
    EXPECT_FALSE(event->is_set());
    return domain().reap(), domain().live_slots() == 1;
  }));
  EXPECT_EQ(child.wait(), 0);
  EXPECT_OK(event->set());
  EXPECT_OK(event->set());
  EXPECT_OK(event->wait(Deadline::after_ns(0), nullptr));
}

class BarrierTest : public LockWaitTest {
 protected:
  BarrierPtr make(std::uint32_t parties) { return *Barrier::create(table(), parties); }
  // As the edges do it. nullopt: broken.
  std::optional<std::uint32_t> pass(Barrier& barrier, double seconds = 20) {
    const Result<Arrival> here = barrier.arrive(nullptr);
    EXPECT_OK(here);
    if (here->broken) return std::nullopt;
    const Result<bool> passed =
        here->last ? barrier.open_up(*here) : barrier.wait(*here, Deadline::after_seconds(seconds), nullptr);
    EXPECT_OK(passed);
    EXPECT_OK(barrier.leave(*here));
    return *passed ? std::optional(here->index) : std::nullopt;
  }
};

TEST_F(BarrierTest, OpensWhenAllAreThereAgainAndAgain) {
  const BarrierPtr barrier = make(3);
  EXPECT_EQ(barrier->parties(), 3U);
  const auto rounds = [&] {
    for (int i = 0; i < 300; ++i) EXPECT_TRUE(pass(*barrier).has_value());
  };
  Child child(rounds);
  std::thread other(rounds);
  rounds();
  other.join();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(barrier->waiting(), 0U);
  EXPECT_FALSE(barrier->broken());
  EXPECT_CODE(Code::kInvalid, Barrier::create(table(), 0));
}

TEST_F(BarrierTest, BreaksByTimeAbortAndIsReset) {
  const BarrierPtr barrier = make(2);
  EXPECT_FALSE(pass(*barrier, 0.02).has_value());
  EXPECT_TRUE(barrier->broken());
  EXPECT_FALSE(pass(*barrier).has_value());
  EXPECT_OK(barrier->reset());
  EXPECT_FALSE(barrier->broken());
  for (const bool aborts : {true, false}) {
    std::thread inside([&] { EXPECT_FALSE(pass(*barrier).has_value()); });
    ASSERT_TRUE(eventually([&] { return barrier->waiting() == 1; }));
    EXPECT_OK(aborts ? barrier->abort() : barrier->reset());
    inside.join();
    EXPECT_EQ(barrier->broken(), aborts);
    EXPECT_OK(barrier->reset());
  }
  std::thread other([&] { EXPECT_TRUE(pass(*barrier).has_value()); });
  EXPECT_TRUE(pass(*barrier).has_value());
  other.join();
}

// Who explains a time-out needs the parties that are there, and these go as soon as the barrier is broken.
TEST_F(BarrierTest, AnExpiredWaitIsToldBeforeItBreaks) {
  const BarrierPtr barrier = make(3);
  std::thread other([&] { EXPECT_EQ(pass(*barrier), std::nullopt); });
  ASSERT_TRUE(eventually([&] { return barrier->waiting() == 1; }));
  const Result<Arrival> here = barrier->arrive(nullptr);
  ASSERT_OK(here);
  int told = 0;
  const Result<bool> passed = barrier->wait(*here, Deadline::after_seconds(0.01), nullptr, [&] {
    ++told;
    EXPECT_FALSE(barrier->broken());
    EXPECT_EQ(barrier->waiting(), 2U);
  });
  EXPECT_OK(passed);
  EXPECT_FALSE(*passed);
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(barrier->broken());
  EXPECT_OK(barrier->leave(*here));
  other.join();
}

TEST_F(BarrierTest, BreaksWhenAPartyDies) {
  const BarrierPtr barrier = make(3);
  Child child([&] { (void)pass(*barrier); });
  ASSERT_TRUE(eventually([&] { return barrier->waiting() == 1; }));
  std::thread other([&] { EXPECT_FALSE(pass(*barrier).has_value()); });
  ASSERT_TRUE(eventually([&] { return barrier->waiting() == 2; }));
  const std::int64_t begin = os::now_ns();
  child.kill_now();
  other.join();
  EXPECT_LT(os::now_ns() - begin, 900'000'000);
  EXPECT_TRUE(barrier->broken());
  EXPECT_OK(barrier->reset());
  EXPECT_FALSE(barrier->broken());
}

}  // namespace
}  // namespace forklift::locks
