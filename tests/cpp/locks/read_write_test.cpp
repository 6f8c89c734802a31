// RWLock, Latch, Once: what they promise between processes, and after a death.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "forklift/latch.h"
#include "forklift/multiprocessing.h"
#include "forklift/once.h"
#include "forklift/rw_lock.h"
#include "node/node.h"
#include "support/asleep.h"
#include "support/child.h"

namespace forklift {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::Child;
using test::eventually;
using testing::IsEmpty;

static_assert(detail::LockHandle<RWLock> && detail::LockHandle<Latch> && detail::LockHandle<Once>);

class ReadWrite : public testing::Test {
 protected:
  void SetUp() override { (void)Lock(); }
  void TearDown() override {
    node::Node& node = *node::Node::existing();
    EXPECT_TRUE(eventually([&] { return node.domain().reap(), node.locks().live_locks() == 0; }));
    EXPECT_EQ(node.locks().live_cells(), 0U);
    EXPECT_THAT(node.audit(), IsEmpty());
  }
};

TEST_F(ReadWrite, StandardGuards) {
  RWLock lock;
  {
    const std::shared_lock first(lock);
    std::thread([&] {
      const std::shared_lock second(lock);
      EXPECT_EQ(lock.readers(), 2U);
      EXPECT_FALSE(lock.try_lock());
      EXPECT_FALSE(lock.try_lock_for(milliseconds(5)));
    }).join();
    EXPECT_FALSE(lock.locked());  // a writer that did not come through left nothing
  }
  const std::unique_lock writing(lock);
  EXPECT_TRUE(lock.mine());
  EXPECT_FALSE(lock.try_lock_shared());
  EXPECT_FALSE(lock.try_lock_shared_until(std::chrono::steady_clock::now() + milliseconds(5)));
  EXPECT_EQ(lock.readers(), 0U);
  EXPECT_FALSE(lock.abandoned());
}

TEST_F(ReadWrite, WhatIsNotHeldCannotBeUnlocked) {
  RWLock lock;
  EXPECT_THROW(lock.unlock(), Error);
  EXPECT_THROW(lock.unlock_shared(), Error);
  lock.lock();
  std::thread([&] { EXPECT_THROW(lock.unlock(), Error); }).join();
  EXPECT_THROW(lock.unlock_shared(), Error);
  lock.unlock();
  lock.lock_shared();
  EXPECT_THROW(lock.unlock(), Error);
  Child child([&] {
    // It holds nothing that its parent holds.
    EXPECT_THROW(lock.unlock_shared(), Error);
    EXPECT_EQ(lock.readers(), 1U);
    lock.lock_shared();
    EXPECT_EQ(lock.readers(), 2U);
    lock.unlock_shared();
  });
  EXPECT_EQ(child.wait(), 0);
  lock.unlock_shared();
}

// Writers change two numbers, one after the other; readers never see them differ.
TEST_F(ReadWrite, ReadersSeeNoHalfOfAWrite) {
  RWLock lock;
  SharedArray<std::uint64_t> numbers(2);
  SharedArray<std::uint64_t> seen(4);
  test::Gate begin;
  std::vector<Child> children;
  for (int i = 0; i < 4; ++i) {
    children.emplace_back([&, i] {
      ASSERT_TRUE(begin.wait());
      for (int round = 0; round < 30'000; ++round) {
        if (i < 2) {
          const std::unique_lock writing(lock);
          ++numbers[0];
          ++numbers[1];
        } else {
          const std::shared_lock reading(lock);
          ASSERT_EQ(numbers[0], numbers[1]);
          ++seen[static_cast<std::size_t>(i)];
        }
      }
    });
  }
  begin.open(4);
  for (Child& child : children) EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(numbers[0], 60'000U);
  EXPECT_EQ(seen[2] + seen[3], 60'000U);
}

TEST_F(ReadWrite, ADeadReaderIsGone) {
  RWLock lock;
  Child reader([&] {
    lock.lock_shared();
    lock.lock_shared();
    ::pause();
  });
  ASSERT_TRUE(eventually([&] { return lock.readers() == 2; }));
  EXPECT_FALSE(lock.try_lock());
  reader.kill_now();
  EXPECT_TRUE(lock.try_lock(seconds(30)));
  EXPECT_FALSE(lock.abandoned());
  lock.unlock();
  // In good order, too: nobody else could give its reads back.
  Child other([&] { lock.lock_shared(); });
  EXPECT_EQ(other.wait(), 0);
  EXPECT_TRUE(lock.try_lock(seconds(30)));
  lock.unlock();
}

TEST_F(ReadWrite, ADeadWriterIsTakenOverFrom) {
  RWLock lock;
  Child writer([&] {
    lock.lock();
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(writer.wait(), -SIGKILL);
  ASSERT_TRUE(lock.try_lock_shared(seconds(30)));
  EXPECT_TRUE(lock.abandoned());
  // A writer that gives up repaired nothing.
  std::thread([&] { EXPECT_FALSE(lock.try_lock(milliseconds(5))); }).join();
  EXPECT_TRUE(lock.abandoned());
  lock.unlock_shared();
  {
    const std::unique_lock writing(lock);
    EXPECT_TRUE(lock.abandoned());
  }
  const std::shared_lock reading(lock);
  EXPECT_FALSE(lock.abandoned());
}

TEST_F(ReadWrite, AWriterThatExitsIsTakenOverFrom) {
  RWLock lock;
  Child writer([&] { lock.lock(); });
  EXPECT_EQ(writer.wait(), 0);
  ASSERT_TRUE(lock.try_lock(seconds(30)));
  EXPECT_TRUE(lock.abandoned());
  lock.unlock();
}

TEST_F(ReadWrite, NewReadersWaitForAWriterThatWaits) {
  RWLock lock;
  lock.lock_shared();
  Child writer([&] { const std::unique_lock writing(lock); });
  ASSERT_TRUE(eventually([&] { return lock.locked(); }));
  std::thread([&] { EXPECT_FALSE(lock.try_lock_shared(milliseconds(5))); }).join();
  lock.unlock_shared();
  EXPECT_EQ(writer.wait(), 0);
  EXPECT_TRUE(lock.try_lock_shared(seconds(30)));
  lock.unlock_shared();
}

TEST_F(ReadWrite, AStopEndsEveryWait) {
  RWLock lock;
  Latch latch(1);
  Once once;
  const auto stops = [](auto&& wait) {
    std::stop_source source;
    std::jthread stopper = test::when_asleep([&] { source.request_stop(); });
    EXPECT_FALSE(wait(source.get_token()));
  };
  lock.lock_shared();
  std::thread([&] { stops([&](std::stop_token stop) { return lock.try_lock(stop); }); }).join();
  lock.unlock_shared();
  lock.lock();
  std::thread([&] { stops([&](std::stop_token stop) { return lock.try_lock_shared(stop); }); }).join();
  lock.unlock();
  stops([&](std::stop_token stop) { return latch.try_wait(stop); });
  once.call([&] {
    std::thread([&] {
      stops([&](std::stop_token stop) { return once.try_call([] {}, stop).has_value(); });
    }).join();
  });
}

TEST_F(ReadWrite, ALatch) {
  Latch latch(3);
  EXPECT_FALSE(latch.try_wait());
  EXPECT_THROW(latch.count_down(4), Error);
  EXPECT_EQ(latch.left(), 3U);
  std::vector<Child> children;
  for (int i = 0; i < 3; ++i) children.emplace_back([&] { latch.arrive_and_wait(); });
  latch.wait();
  EXPECT_EQ(latch.left(), 0U);
  for (Child& child : children) EXPECT_EQ(child.wait(), 0);
  EXPECT_THROW(latch.count_down(), Error);
  latch.count_down(0);
  Latch last(1);
  const Event never;
  Child counter([&] { last.count_down(); });
  EXPECT_EQ(wait_any({never, last}), std::vector<std::size_t>{1});
  EXPECT_EQ(counter.wait(), 0);
  Latch none(0);
  EXPECT_TRUE(none.try_wait());
}

TEST_F(ReadWrite, OnceIsDoneOnce) {
  Once once;
  SharedValue<std::uint64_t> times;
  std::vector<Child> children;
  for (int i = 0; i < 4; ++i) {
    children.emplace_back([&] {
      once.call([&] { times.atomic().fetch_add(1); });
      EXPECT_EQ(times.get(), 1U);
    });
  }
  for (Child& child : children) EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(once.done());
  EXPECT_FALSE(once.call([&] { times.set(7); }));
  EXPECT_EQ(times.get(), 1U);
}

TEST_F(ReadWrite, OnceBeginsAnewAfterAThrowAndADeath) {
  Once once;
  EXPECT_THROW(once.call([] { throw std::runtime_error("not now"); }), std::runtime_error);
  EXPECT_FALSE(once.done());
  for (const int signal : {SIGKILL, 0}) {
    Child child([&] {
      once.call([&] {
        if (signal != 0) ::kill(::getpid(), signal);
        std::quick_exit(0);
      });
    });
    EXPECT_EQ(child.wait(), -signal);
  }
  EXPECT_EQ(once.try_call([&] { EXPECT_THROW(once.call([] {}), Error); }, seconds(30)), true);
  EXPECT_TRUE(once.done());
}

TEST_F(ReadWrite, ReachSpawnedChildrenAndNames) {
  RWLock lock;
  Domain domain = Domain::own();
  domain.publish("table", lock);
  domain.publish("loaded", Latch(2));
  Child child([&] {
    Domain here = Domain::own();
    const std::unique_lock writing(lock);
    auto same = here.open<RWLock>("table");
    EXPECT_TRUE(same.mine());
    here.open<Latch>("loaded").count_down(2);
    EXPECT_THROW((void)here.open<Once>("loaded"), Error);
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(domain.open<Latch>("loaded").try_wait());
  EXPECT_TRUE(domain.unpublish("table"));
  EXPECT_TRUE(domain.unpublish("loaded"));
}

}  // namespace
}  // namespace forklift
