// The public Lock, RLock, Semaphore, Condition, Event, Barrier: the standard library's helpers work on them,
// and they reach children.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <stop_token>
#include <thread>

#include "forklift/multiprocessing.h"
#include "node/node.h"
#include "support/asleep.h"
#include "support/child.h"

namespace forklift {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using test::eventually;
using testing::IsEmpty;

static_assert(detail::LockHandle<Lock> && detail::LockHandle<RLock> && detail::LockHandle<Semaphore>);
static_assert(detail::LockHandle<BoundedSemaphore> && detail::LockHandle<Condition>);
static_assert(detail::LockHandle<Event> && detail::LockHandle<Barrier>);

void work(Lock lock, RLock& rlock, BoundedSemaphore units, Condition& changed, Event& begin, Barrier& barrier,
          Tensor numbers) {
  begin.wait();
  int* number = numbers.data<int>();
  for (int i = 0; i < 200; ++i) {
    const std::scoped_lock both(lock, rlock);
    ++*number;
  }
  units.acquire();
  (void)barrier.arrive_and_wait();
  std::unique_lock guard(lock);
  *number += 1000;
  changed.notify_all();
}
const Registered<&work> kWork{"work with locks"};

class LockApi : public testing::Test {
 protected:
  void SetUp() override {
    (void)Lock();
    node::Node::existing()->domain().reap();
  }
  void TearDown() override {
    node::Node& node = *node::Node::existing();
    EXPECT_TRUE(eventually([&] { return node.domain().reap(), node.locks().live_locks() == 0; }));
    EXPECT_EQ(node.locks().live_cells(), 0U);
    EXPECT_THAT(node.audit(), IsEmpty());
  }
};

TEST_F(LockApi, StandardGuards) {
  Lock lock;
  Lock other;
  {
    const std::scoped_lock both(lock, other);
    EXPECT_TRUE(lock.mine());
    EXPECT_FALSE(lock.abandoned());
    EXPECT_FALSE(other.try_lock());
    std::unique_lock<Lock> later(other, std::defer_lock);
    const auto begin = steady_clock::now();
    EXPECT_FALSE(later.try_lock_for(milliseconds(10)));
    EXPECT_FALSE(later.try_lock_until(steady_clock::now() + milliseconds(10)));
    EXPECT_FALSE(later.try_lock_until(std::chrono::system_clock::now() - milliseconds(10)));
    EXPECT_GE(steady_clock::now() - begin, milliseconds(20));
    EXPECT_FALSE(other.try_lock_for(std::chrono::duration<double>(std::nan(""))));
    EXPECT_FALSE(other.try_lock_for(std::chrono::duration<double>(-std::numeric_limits<double>::infinity())));
  }
  EXPECT_FALSE(lock.locked());
  EXPECT_TRUE(lock.try_lock_for(std::chrono::duration<double>(std::numeric_limits<double>::infinity())));
  lock.unlock();
  EXPECT_THROW(lock.unlock(), Error);
  EXPECT_EQ(std::try_lock(lock, other), -1);
  lock.unlock();
  other.unlock();
}

TEST_F(LockApi, RecursiveLock) {
  RLock lock;
  const std::scoped_lock outer(lock);
  const std::scoped_lock inner(lock);
  std::thread([&] {
    EXPECT_FALSE(lock.try_lock());
    EXPECT_THROW(lock.unlock(), Error);
  }).join();
}

TEST_F(LockApi, AKilledHoldersLockTellsSo) {
  Lock lock;
  Process holder = Process::fork([=]() mutable {
                     lock.lock();
                     ::kill(::getpid(), SIGKILL);
                   }).start();
  holder.join();
  const std::scoped_lock guard(lock);
  EXPECT_TRUE(lock.abandoned());
}

TEST_F(LockApi, StopEndsEveryWait) {
  Lock lock;
  Semaphore units({.value = 0});
  Event event;
  Condition condition;
  lock.lock();
  const auto stops = [](auto&& wait) {
    std::stop_source source;
    std::jthread stopper = test::when_asleep([&] { source.request_stop(); });
    const auto begin = steady_clock::now();
    EXPECT_FALSE(wait(source.get_token()));
    EXPECT_LT(steady_clock::now() - begin, milliseconds(150));  // not by a slice's end
    stopper.join();
    EXPECT_FALSE(wait(source.get_token()));  // requested before
  };
  stops([&](const std::stop_token& stop) { return lock.try_lock(stop); });
  stops([&](const std::stop_token& stop) { return lock.try_lock({std::chrono::hours(1), stop}); });
  stops([&](const std::stop_token& stop) { return units.try_acquire(stop); });
  stops([&](const std::stop_token& stop) { return units.try_acquire({std::chrono::hours(1), stop}); });
  stops([&](const std::stop_token& stop) { return event.try_wait(stop); });
  stops([&](const std::stop_token& stop) { return event.try_wait({std::chrono::hours(1), stop}); });
  Lock guarded;
  stops([&](const std::stop_token& stop) {
    std::unique_lock guard(guarded);
    return condition.wait(guard, stop, [] { return false; });
  });
  stops([&](const std::stop_token& stop) {
    std::unique_lock guard(guarded);
    return condition.wait_for(guard, stop, std::chrono::hours(1), [] { return false; });
  });
  std::stop_source never;
  EXPECT_FALSE(units.try_acquire({milliseconds(5), never.get_token()}));
  EXPECT_FALSE(event.try_wait({milliseconds(5), never.get_token()}));
  std::unique_lock guard(guarded);
  EXPECT_FALSE(condition.wait_for(guard, never.get_token(), milliseconds(5), [] { return false; }));
  lock.unlock();
}

TEST_F(LockApi, APointInTimeMayBeAnyThatTheClockHas) {
  Lock lock;
  Semaphore units({.value = 0});
  Event event;
  Condition condition;
  Lock guarded;
  std::unique_lock guard(guarded);
  lock.lock();
  const auto never = [] { return false; };
  const auto is_over = [&](auto when) {
    EXPECT_FALSE(lock.try_lock_until(when));
    EXPECT_FALSE(units.try_acquire_until(when));
    EXPECT_FALSE(event.try_wait(when));
    EXPECT_EQ(condition.wait_until(guard, when), std::cv_status::timeout);
    EXPECT_FALSE(condition.wait_until(guard, when, never));
    EXPECT_FALSE(condition.wait_until(guard, std::stop_token(), when, never));
  };
  is_over(steady_clock::time_point::min());
  is_over(steady_clock::now() + milliseconds(5));
  is_over(std::chrono::system_clock::time_point::min());
  is_over(std::chrono::system_clock::time_point());
  is_over(std::chrono::system_clock::now() + milliseconds(5));
  is_over(std::chrono::sys_days::min());
  is_over(std::chrono::sys_time<std::chrono::hours>::min());
  is_over(std::chrono::sys_time<std::chrono::duration<double>>(std::chrono::duration<double>(-INFINITY)));
  is_over(std::chrono::file_clock::now());  // counts from a year to come
  is_over(std::chrono::file_clock::time_point::min());

  const auto waits = [&](auto when) {
    std::stop_source source;
    const std::jthread stopper = test::when_asleep([&] { source.request_stop(); });
    EXPECT_FALSE(event.try_wait({when, source.get_token()}));
    EXPECT_TRUE(source.stop_requested());
  };
  waits(steady_clock::time_point::max());
  waits(std::chrono::system_clock::time_point::max());
  waits(std::chrono::file_clock::time_point::max());
  waits(std::chrono::sys_time<std::chrono::hours>::max());
  waits(std::chrono::sys_time<std::chrono::duration<double>>(std::chrono::duration<double>(INFINITY)));
  lock.unlock();
}

TEST_F(LockApi, AMovedHandleIsClosed) {
  const auto expect_closed = [](auto&& use) {
    try {
      use();
      ADD_FAILURE() << "no exception";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kClosed);
    }
  };
  // NOLINTBEGIN(bugprone-use-after-move)
  const auto lock_is_closed = [&](auto lock) {
    const auto moved = std::move(lock);
    expect_closed([&] { lock.lock(); });
    expect_closed([&] { (void)lock.try_lock(); });
    expect_closed([&] { (void)lock.try_lock_for(milliseconds(1)); });
    expect_closed([&] { lock.unlock(); });
    expect_closed([&] { (void)lock.locked(); });
    expect_closed([&] { (void)lock.mine(); });
    expect_closed([&] { (void)lock.abandoned(); });
    expect_closed([&] { (void)lock.ref(); });
    EXPECT_FALSE(moved.locked());
  };
  lock_is_closed(Lock());
  lock_is_closed(RLock());
  Event event;
  Event event_moved = std::move(event);
  expect_closed([&] { event.set(); });
  expect_closed([&] { event.clear(); });
  expect_closed([&] { (void)event.is_set(); });
  expect_closed([&] { event.wait(); });
  expect_closed([&] { (void)event.ref(); });
  Semaphore units;
  Semaphore units_moved = std::move(units);
  expect_closed([&] { units.acquire(); });
  expect_closed([&] { units.release(); });
  expect_closed([&] { (void)units.value(); });
  expect_closed([&] { (void)units.ref(); });
  Barrier barrier(1);
  Barrier barrier_moved = std::move(barrier);
  expect_closed([&] { (void)barrier.arrive_and_wait(); });
  expect_closed([&] { barrier.abort(); });
  expect_closed([&] { barrier.reset(); });
  expect_closed([&] { (void)barrier.broken(); });
  expect_closed([&] { (void)barrier.parties(); });
  expect_closed([&] { (void)barrier.waiting(); });
  expect_closed([&] { (void)barrier.ref(); });
  EXPECT_EQ(barrier_moved.arrive_and_wait(), 0U);
  Condition condition;
  Condition condition_moved = std::move(condition);
  Lock lock;
  std::unique_lock guard(lock);
  expect_closed([&] { condition.notify_all(); });
  expect_closed([&] { condition.wait(guard); });
  expect_closed([&] { (void)condition.waiting(); });
  expect_closed([&] { (void)condition.ref(); });
  EXPECT_TRUE(guard.owns_lock());
  EXPECT_TRUE(lock.mine());
  // NOLINTEND(bugprone-use-after-move)
}

TEST_F(LockApi, ConditionWithPredicate) {
  Lock lock;
  Condition changed;
  const Tensor memory = Tensor::zeros({1}, DType::kInt32);
  int* value = memory.data<int>();
  Process child = Process::fork([=]() mutable {
                    for (int i = 0; i < 3; ++i) {
                      const std::scoped_lock guard(lock);
                      ++*value;
                      changed.notify_one();
                    }
                  }).start();
  std::unique_lock guard(lock);
  changed.wait(guard, [&] { return *value == 3; });
  child.join();
  EXPECT_EQ(changed.wait_for(guard, milliseconds(5)), std::cv_status::timeout);
  EXPECT_FALSE(changed.wait_for(guard, milliseconds(5), [&] { return *value == 4; }));
  EXPECT_TRUE(changed.wait_until(guard, steady_clock::now(), [&] { return *value == 3; }));
  EXPECT_TRUE(guard.owns_lock());
  EXPECT_TRUE(lock.mine());
  guard.unlock();
  EXPECT_THROW(changed.wait(guard), Error);
  EXPECT_EQ(changed.waiting(), 0U);
}

TEST_F(LockApi, SemaphoresAndTheirBounds) {
  BoundedSemaphore bounded(2);
  EXPECT_TRUE(bounded.try_acquire());
  EXPECT_TRUE(bounded.try_acquire_for(milliseconds(1)));
  EXPECT_FALSE(bounded.try_acquire());
  bounded.release(2);
  EXPECT_THROW(bounded.release(), Error);
  EXPECT_EQ(bounded.value(), 2U);
  EXPECT_THROW(Semaphore({.value = 3, .most = 2}), Error);
  Semaphore recovering({.value = 1, .recover = true});
  Process child = Process::fork([=]() mutable {
                    recovering.acquire();
                    ::kill(::getpid(), SIGKILL);
                  }).start();
  child.join();
  EXPECT_TRUE(recovering.try_acquire_for(std::chrono::seconds(5)));
}

TEST_F(LockApi, AnUnlockByAStrangerEndsRecoveryAndIsSeen) {
  Lock lock;
  RLock rlock;
  EXPECT_TRUE(lock.recovers());
  EXPECT_TRUE(rlock.recovers());
  lock.lock();
  Process stranger = Process::fork([&] { lock.unlock(); }).start();
  stranger.join();
  EXPECT_FALSE(lock.locked());
  EXPECT_FALSE(lock.recovers());
}

// A party that is dead is not waited for, also where it died between two rounds.
TEST_F(LockApi, ABarrierBreaksAfterThePartyWasKilledBetweenRounds) {
  Barrier barrier(2);
  const auto pass_and_die = [&] {
    (void)barrier.arrive_and_wait();
    ::raise(SIGKILL);
  };
  Process party = Process::fork(pass_and_die).start();
  (void)barrier.arrive_and_wait();
  party.join();
  const auto begin = steady_clock::now();
  EXPECT_THROW((void)barrier.try_arrive_and_wait(std::chrono::seconds(50)), BrokenBarrier);
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(25)) << "a time-out breaks it, too";
  EXPECT_TRUE(barrier.broken());

  barrier.reset();
  Process next = Process::fork([&] { (void)barrier.arrive_and_wait(); }).start();
  (void)barrier.arrive_and_wait();
  next.join();
  EXPECT_FALSE(barrier.broken()) << "a clean exit is no death";
}

TEST_F(LockApi, ABarrierBreaksWhileItsOtherPartyWaits) {
  Barrier barrier(2);
  Process party = Process::fork([&] {
                    (void)barrier.arrive_and_wait();
                    for (;;) ::pause();
                  }).start();
  (void)barrier.arrive_and_wait();
  std::thread killer([&] {
    while (barrier.waiting() == 0) std::this_thread::yield();
    party.kill();
  });
  EXPECT_THROW((void)barrier.arrive_and_wait(), BrokenBarrier);
  killer.join();
  party.join();
}

// Workers that were ended, and others that come in their place, as in the standard library.
TEST_F(LockApi, NewPartiesTakeTheDeadOnesPlaces) {
  Barrier barrier(2);
  for (int round = 0; round < 3; ++round) {
    Event passed[2];
    std::vector<Process> workers;
    for (Event& event : passed) {
      workers.push_back(Process::fork([&] {
                          (void)barrier.arrive_and_wait();
                          event.set();
                          for (;;) ::pause();
                        }).start());
    }
    for (Event& event : passed) EXPECT_TRUE(event.try_wait(std::chrono::seconds(30)));
    for (Process& worker : workers) worker.terminate();
    for (Process& worker : workers) worker.join();
    node::Node::existing()->domain().reap();
    EXPECT_FALSE(barrier.broken());
  }
}

TEST_F(LockApi, BarrierRunsItsCompletion) {
  int completed = 0;
  Barrier barrier(2, [&] { ++completed; });
  for (int round = 0; round < 3; ++round) {
    std::thread other([&] { (void)barrier.arrive_and_wait(); });
    EXPECT_LT(barrier.arrive_and_wait(), 2U);
    other.join();
  }
  EXPECT_EQ(completed, 3);
  EXPECT_EQ(barrier.try_arrive_and_wait(milliseconds(5)), std::nullopt);
  EXPECT_TRUE(barrier.broken());
  barrier.reset();
  EXPECT_FALSE(barrier.broken());
  Barrier failing(1, [] { throw std::domain_error("no"); });
  EXPECT_THROW((void)failing.arrive_and_wait(), std::domain_error);
  EXPECT_THROW((void)failing.arrive_and_wait(), BrokenBarrier);
  EXPECT_THROW(Barrier(0), Error);
}

TEST_F(LockApi, AllOfThemReachASpawnedChild) {
  Lock lock;
  RLock rlock;
  BoundedSemaphore units(1);
  Condition changed;
  Event begin;
  Barrier barrier(2);
  const Tensor numbers = Tensor::zeros({1}, DType::kInt32);
  Process child = Process::spawn(work, lock, rlock, units, changed, begin, barrier, numbers).start();
  begin.set();
  int* number = numbers.data<int>();
  for (int i = 0; i < 200; ++i) {
    const std::scoped_lock both(lock, rlock);
    ++*number;
  }
  (void)barrier.arrive_and_wait();
  EXPECT_EQ(units.value(), 0U);
  std::unique_lock guard(lock);
  EXPECT_TRUE(changed.wait_for(guard, std::chrono::seconds(20), [&] { return *number == 1400; }));
  guard.unlock();
  child.join();
  EXPECT_EQ(child.exitcode(), 0);
}

}  // namespace
}  // namespace forklift
