// wait_any() over every kind of object.
#include "forklift/wait_any.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <mutex>
#include <thread>
#include <vector>

#include "forklift/multiprocessing.h"
#include "os/fd.h"
#include "support/asleep.h"
#include "support/child.h"
#include "support/process_fixture.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using test::when_asleep;
using testing::ElementsAre;
using testing::IsEmpty;

static_assert(std::is_convertible_v<Lock, Waitable> && std::is_convertible_v<RLock, Waitable>);
static_assert(std::is_convertible_v<BoundedSemaphore, Waitable> && std::is_convertible_v<Event, Waitable>);
static_assert(std::is_convertible_v<Future<void>, Waitable>);

// The event that a task waits for is known to the workers by its name.
constexpr const char* kGo = "wait_any_go";

class PublishedEvent : public Event {
 public:
  PublishedEvent() { Domain::own().publish(kGo, *static_cast<Event*>(this)); }
  PublishedEvent(const PublishedEvent&) = delete;
  PublishedEvent& operator=(const PublishedEvent&) = delete;
  ~PublishedEvent() { Domain::own().unpublish(kGo); }
};

int wait_for_event(int x) {
  Domain::own().open<Event>(kGo).wait();
  return x;
}
const Registered<&wait_for_event> kWaitForEvent{"wait_any wait for event"};

class WaitAny : public test::ProcessFixture {
 protected:
  // Each test waits for objects in shared memory alone, and together with this descriptor, on which nothing comes.
  void SetUp() override {
    test::ProcessFixture::SetUp();
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    quiet_ = os::Fd(ends[0]);
    quiet_writer_ = os::Fd(ends[1]);
  }
  std::vector<Waitable> with(std::vector<Waitable> objects, bool mixed) const {
    if (mixed) objects.push_back(Waitable::descriptor(quiet_.get()));
    return objects;
  }
  static constexpr bool kBoth[] = {false, true};

 private:
  os::Fd quiet_, quiet_writer_;
};

TEST_F(WaitAny, AnEventThatIsSet) {
  for (const bool mixed : kBoth) {
    Event first, second;
    EXPECT_THAT(try_wait_any(with({first, second}, mixed), 5ms), IsEmpty());
    {
      const std::jthread setter = when_asleep([&] { second.set(); });
      EXPECT_THAT(wait_any(with({first, second}, mixed)), ElementsAre(1));
    }
    EXPECT_THAT(try_wait_any(with({first, second}, mixed)), ElementsAre(1)) << "it stays so";
    first.set();
    EXPECT_THAT(wait_any(with({first, second}, mixed)), ElementsAre(0, 1));
    second.clear();
    EXPECT_THAT(wait_any(with({first, second}, mixed)), ElementsAre(0));
  }
}

TEST_F(WaitAny, AnEventThatIsClearedAtOnce) {
  for (const bool mixed : kBoth) {
    Event pulse;
    std::atomic<bool> returned{false};
    std::jthread waiter([&] {
      EXPECT_THAT(try_wait_any(with({pulse}, mixed), 60s), ElementsAre(0));
      returned = true;
    });
    // One pulse may come before the call begins.
    EXPECT_TRUE(eventually([&] { return pulse.set(), pulse.clear(), returned.load(); }, 60'000));
    waiter.join();
    EXPECT_THAT(try_wait_any(with({pulse}, mixed), 5ms), IsEmpty()) << "it was set before this call";
  }
}

TEST_F(WaitAny, ALockThatIsFree) {
  for (const bool mixed : kBoth) {
    Event held, let_go;
    Lock lock;
    std::jthread holder([&] {
      const std::scoped_lock guard(lock);
      held.set();
      let_go.wait();
    });
    held.wait();
    EXPECT_THAT(try_wait_any(with({lock}, mixed), 5ms), IsEmpty());
    const std::jthread releaser = when_asleep([&] { let_go.set(); });
    EXPECT_THAT(wait_any(with({lock}, mixed)), ElementsAre(0));
    EXPECT_FALSE(lock.locked()) << "nothing is taken";
    EXPECT_TRUE(lock.try_lock());
    EXPECT_THAT(try_wait_any(with({lock}, mixed), 5ms), IsEmpty()) << "this thread could not lock it again";
    lock.unlock();
  }
}

TEST_F(WaitAny, AnRLockIsReadyForTheThreadThatHoldsIt) {
  RLock lock;
  const std::scoped_lock guard(lock);
  EXPECT_THAT(try_wait_any({lock}), ElementsAre(0));
  std::jthread([&] { EXPECT_THAT(try_wait_any({lock}, 5ms), IsEmpty()); }).join();
}

TEST_F(WaitAny, ASemaphoreWithAUnit) {
  for (const bool mixed : kBoth) {
    for (const bool recover : kBoth) {
      Semaphore units({.value = 0, .recover = recover});
      EXPECT_THAT(try_wait_any(with({units}, mixed), 5ms), IsEmpty());
      const std::jthread releaser = when_asleep([&] { units.release(); });
      EXPECT_THAT(wait_any(with({units}, mixed)), ElementsAre(0));
      EXPECT_EQ(units.value(), 1U) << "nothing is taken";
    }
  }
}

TEST_F(WaitAny, ALockWhoseHolderIsKilled) {
  for (const bool mixed : kBoth) {
    Lock lock;
    Event held;
    test::Child holder([&] {
      lock.lock();
      held.set();
      for (;;) ::pause();
    });
    held.wait();
    {
      const std::jthread killer = when_asleep([&] { holder.signal(SIGKILL); });
      EXPECT_THAT(try_wait_any(with({lock}, mixed), 60s), ElementsAre(0));
    }
    EXPECT_EQ(holder.wait(), -SIGKILL);
    EXPECT_TRUE(lock.try_lock());
    EXPECT_TRUE(lock.abandoned());
    lock.unlock();
  }
}

TEST_F(WaitAny, UnitsOfAKilledProcessComeBack) {
  Semaphore units({.value = 1, .recover = true});
  Event held;
  test::Child holder([&] {
    units.acquire();
    held.set();
    for (;;) ::pause();
  });
  held.wait();
  EXPECT_THAT(try_wait_any({units}, 5ms), IsEmpty());
  holder.kill_now();
  EXPECT_THAT(try_wait_any({units}, 60s), ElementsAre(0));
}

// The wake-up that a thread gets which only looks is passed on to one that takes.
TEST_F(WaitAny, WhatOnlyLooksKeepsNoThreadFromTaking) {
  Lock lock;
  lock.lock();
  test::Sleeper takes, looks;
  std::jthread looker([&] {
    looks.is_me();
    EXPECT_THAT(try_wait_any({lock}, 60s), ElementsAre(0));
  });
  EXPECT_TRUE(looks.asleep());
  std::jthread taker([&] {
    takes.is_me();
    EXPECT_TRUE(lock.try_lock(60s));
    lock.unlock();
  });
  EXPECT_TRUE(takes.asleep());
  lock.unlock();
}

TEST_F(WaitAny, AKilledWaiterLeavesNothing) {
  Event event;
  Lock lock;
  lock.lock();
  Semaphore units({.value = 0});
  for (const bool mixed : kBoth) {
    test::Child waiter([&] { (void)wait_any(with({event, lock, units}, mixed)); });
    EXPECT_TRUE(test::eventually_asleep(waiter.pid()));
    waiter.kill_now();
  }
  test::Gate woken;
  test::Child second([&] {
    EXPECT_THAT(try_wait_any({event, lock}, 60s), ElementsAre(1));
    woken.open();
  });
  EXPECT_TRUE(test::eventually_asleep(second.pid()));
  lock.unlock();
  EXPECT_TRUE(woken.wait(60'000)) << "the wake-up went to the waiter that was killed";
  EXPECT_EQ(second.wait(), 0);
}

TEST_F(WaitAny, AForkedChildWaitsForWhatItInherited) {
  Event event;
  Lock lock;
  Queue<int> queue;
  lock.lock();
  test::Child child([&] { EXPECT_THAT(try_wait_any({queue, lock, event}, 60s), ElementsAre(2)); });
  EXPECT_TRUE(test::eventually_asleep(child.pid()));
  event.set();
  EXPECT_EQ(child.wait(), 0);
  lock.unlock();
}

TEST_F(WaitAny, AHandleThatIsEmpty) {
  Event event;
  const Event moved = std::move(event);
  Lock lock;
  const Lock other = std::move(lock);
  try {
    (void)try_wait_any({event});  // NOLINT(bugprone-use-after-move)
    ADD_FAILURE() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kClosed);
  }
  EXPECT_THROW((void)try_wait_any({lock}), Error);  // NOLINT(bugprone-use-after-move)
  EXPECT_THROW((void)try_wait_any({Future<int>()}), Error);
  EXPECT_THAT(try_wait_any({moved, other}), ElementsAre(1));
}

TEST_F(WaitAny, EveryKindTogether) {
  Pool pool({.workers = 1});
  Queue<int> queue;
  Broadcast<int> stream;
  Subscription<int> subscription = stream.subscribe();
  Latest<int> latest;
  Event event;
  PublishedEvent go;
  Lock lock;
  lock.lock();
  Semaphore units({.value = 0});
  Future<int> future = pool.submit(wait_for_event, 5);
  Process process = Process::fork([&] { go.wait(); }).start();
  const auto all = [&] {
    return with({queue, subscription, latest, event, lock, units, future, process}, true);
  };
  EXPECT_THAT(try_wait_any(all(), 5ms), IsEmpty());
  const auto becomes_ready = [&](std::size_t index, auto action, auto undo) {
    {
      const std::jthread thread = when_asleep(action);
      EXPECT_THAT(try_wait_any(all(), 60s), ElementsAre(index));
    }
    undo();
  };
  becomes_ready(0, [&] { queue.put(1); }, [&] { EXPECT_EQ(queue.get(), 1); });
  becomes_ready(1, [&] { stream.put(2); }, [&] { EXPECT_EQ(subscription.get(), 2); });
  becomes_ready(2, [&] { latest.put(3); }, [&] { EXPECT_EQ(latest.try_get(), 3); });
  becomes_ready(3, [&] { event.set(); }, [&] { event.clear(); });
  lock.unlock();
  EXPECT_THAT(try_wait_any(all(), 60s), ElementsAre(4));
  lock.lock();
  becomes_ready(5, [&] { units.release(); }, [&] { units.acquire(); });
  go.set();
  EXPECT_TRUE(eventually([&] { return try_wait_any(all(), 60s) == std::vector<std::size_t>{6, 7}; }, 60'000));
  EXPECT_EQ(future.get(), 5);
  process.join();
  lock.unlock();
}

}  // namespace
}  // namespace forklift
