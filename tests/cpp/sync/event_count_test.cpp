// The event count: no wake-up is lost, and what killed sleepers leave behind heals.
#include <gtest/gtest.h>
#include <signal.h>

#include <new>
#include <thread>
#include <vector>

#include "os/clock.h"
#include "os/mapping.h"
#include "os/memfd.h"
#include "support/asleep.h"
#include "support/child.h"
#include "support/status_check.h"
#include "sync/event_count.h"

namespace forklift::sync {
namespace {

using os::FutexWait;
using test::bell_of;
using test::Child;
using test::Gate;

constexpr std::int64_t kLong = 20'000'000'000;

class EventCountTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<os::Fd> file = os::create_memfd("forklift-test", 4096);
    ASSERT_OK(file);
    Result<os::Mapping> mapping = os::Mapping::shared(*file, 0, 4096);
    ASSERT_OK(mapping);
    mapping_ = *std::move(mapping);
    shared_ = new (mapping_.data()) Shared{};
  }
  struct Shared {
    EventCount event;
    EventCount other;
    std::atomic<std::uint64_t> turn;
    std::atomic<std::uint64_t> asleep;
  };
  EventCount& event() { return shared_->event; }

  os::Mapping mapping_;
  Shared* shared_ = nullptr;
};

TEST_F(EventCountTest, NobodySleepsNobodyIsCalled) {
  const std::uint32_t bell = bell_of(event());
  for (int i = 0; i < 3; ++i) event().notify(1);
  event().notify_after_unlock(1);
  EXPECT_EQ(bell_of(event()), bell);
  event().cancel(event().prepare());
  event().notify(1);
  EXPECT_EQ(bell_of(event()), bell);
}

TEST_F(EventCountTest, ASleepEndsWithItsTime) {
  const std::int64_t start = os::now_ns();
  EXPECT_EQ(event().wait(event().prepare(), 20'000'000), FutexWait::kTimedOut);
  EXPECT_GE(os::now_ns() - start, 19'000'000);
  const std::uint32_t bell = bell_of(event());
  event().notify(1);  // the sleeper has signed off
  EXPECT_EQ(bell_of(event()), bell);
}

TEST_F(EventCountTest, ANotifyBetweenPrepareAndWaitIsNotLost) {
  const EventCount::Ticket ticket = event().prepare();
  event().notify(1);
  EXPECT_EQ(event().wait(ticket, kLong), FutexWait::kChanged);
}

TEST_F(EventCountTest, NotifyWakesAsManyAsAsked) {
  std::atomic<int> woken{0};
  std::vector<std::thread> sleepers;
  std::array<test::Sleeper, 3> who;
  for (test::Sleeper& one : who) {
    sleepers.emplace_back([&] {
      const EventCount::Ticket ticket = event().prepare();
      one.is_me();
      (void)event().wait(ticket, kLong);
      ++woken;
    });
  }
  for (const test::Sleeper& one : who) ASSERT_TRUE(one.asleep());
  event().notify(1);
  ASSERT_TRUE(test::eventually([&] { return woken == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(woken, 1);
  event().notify(2);
  for (std::thread& sleeper : sleepers) sleeper.join();
  EXPECT_EQ(woken, 3);
}

TEST_F(EventCountTest, AStaleCountCostsOneNotifyOnly) {
  (void)event().prepare();  // as a sleeper that was killed leaves it
  (void)event().prepare();
  const std::uint32_t bell = bell_of(event());
  event().notify(1);
  const std::uint32_t healed = bell_of(event());
  EXPECT_NE(healed, bell);
  for (int i = 0; i < 3; ++i) event().notify(1);
  EXPECT_EQ(bell_of(event()), healed);
}

TEST_F(EventCountTest, AKilledSleeperIsForgotten) {
  Child child([&] {
    const EventCount::Ticket ticket = event().prepare();
    shared_->asleep = 1;
    (void)event().wait(ticket, -1);
  });
  ASSERT_TRUE(test::eventually([&] { return shared_->asleep == 1; }));
  child.kill_now();
  event().notify(1);
  const std::uint32_t healed = bell_of(event());
  event().notify(1);
  EXPECT_EQ(bell_of(event()), healed);
}

TEST_F(EventCountTest, ATicketOfAnOldEraTakesNothingFromTheNew) {
  const EventCount::Ticket old = event().prepare();
  event().notify(1);  // opens a new era
  const EventCount::Ticket fresh = event().prepare();
  event().cancel(old);
  const std::uint32_t bell = bell_of(event());
  event().notify(1);
  EXPECT_NE(bell_of(event()), bell) << "the cancelled ticket erased somebody else's registration";
  event().cancel(fresh);
}

// Two threads hand a turn to and fro while stale registrations keep opening new eras. A lost wake-up would
// show as a sleep of full length.
TEST_F(EventCountTest, NoWakeUpIsLostWhileErasChange) {
  constexpr std::uint64_t kTurns = 20'000;
  std::atomic<bool> done{false};
  std::atomic<int> overslept{0};
  const auto player = [&](std::uint64_t mine) {
    EventCount& wait_on = mine ? shared_->other : shared_->event;
    EventCount& call = mine ? shared_->event : shared_->other;
    for (std::uint64_t turn = mine; turn < kTurns; turn += 2) {
      while (shared_->turn != turn) {
        const EventCount::Ticket ticket = wait_on.prepare();
        if (shared_->turn == turn) {
          wait_on.cancel(ticket);
          break;
        }
        if (wait_on.wait(ticket, 3'000'000'000) == FutexWait::kTimedOut) ++overslept;
      }
      ++shared_->turn;
      call.notify(1);
    }
  };
  std::thread killer([&] {
    while (!done) {
      (void)shared_->event.prepare();
      (void)shared_->other.prepare();
      std::this_thread::yield();
    }
  });
  std::thread one(player, 0);
  std::thread two(player, 1);
  one.join();
  two.join();
  done = true;
  killer.join();
  EXPECT_EQ(overslept, 0);
}

TEST_F(EventCountTest, SpinningEndsByConditionOrByTime) {
  EXPECT_TRUE(spin_for([] { return true; }, os::now_ns));
  const std::int64_t start = os::now_ns();
  EXPECT_FALSE(spin_for([] { return false; }, os::now_ns));
  EXPECT_GE(os::now_ns() - start, kSpinNs);
}

TEST(EventCount, ASpinTakesAsLongAsItMay) {
  static std::int64_t now;
  static constexpr std::int64_t kLook = 1'000;  // between two looks at the clock
  const auto clock = []() noexcept { return now += kLook; };
  const auto spun_ns = [&](auto... longest) {
    const std::int64_t start = now;
    EXPECT_FALSE(spin_for([] { return false; }, clock, longest...));
    return now - start - kLook;
  };
  EXPECT_EQ(spun_ns(), kSpinNs);
  EXPECT_EQ(spun_ns(std::int64_t{85'000}), 85'000);
}

TEST(EventCount, AThreadThatNothingHappensToSleepsLongerSlices) {
  std::thread([] {
    for (int i = 0; i < kQuietAfter; ++i) {
      EXPECT_EQ(slice_ns(), kSliceNs) << "after " << i << " slices";
      note_sleep(kSliceNs / 2, true);  // the caller's own time was over first
      note_sleep(kSliceNs, true);
    }
    EXPECT_EQ(slice_ns(), kQuietSliceNs);
    note_sleep(kQuietSliceNs, false);
    EXPECT_EQ(slice_ns(), kSliceNs);
  }).join();
}

}  // namespace
}  // namespace forklift::sync
