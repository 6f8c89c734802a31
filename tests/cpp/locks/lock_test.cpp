// Lock, RLock, Semaphore: what they promise, and what a holder's death does, with the legal cases that look
// like one.
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "locks/mutex.h"
#include "locks/semaphore.h"
#include "support/asleep.h"
#include "support/node_fixture.h"

namespace forklift::locks {
namespace {

using os::Deadline;
using test::Child;
using test::Gate;

class LockTest : public test::NodeFixture {
 protected:
  explicit LockTest(const domain::Options& options = {}) : NodeFixture(options) {}
  void TearDown() override {
    domain().reap();
    EXPECT_EQ(node().locks().live_locks(), 0U);
    EXPECT_EQ(node().locks().live_cells(), 0U);
    NodeFixture::TearDown();
  }
  Table& table() { return node().locks(); }
  MutexPtr make_lock(bool recursive = false) {
    Result<MutexPtr> made = Mutex::create(table(), recursive);
    EXPECT_OK(made);
    return *made;
  }
  SemaphorePtr make_semaphore(const SemaphoreOptions& options) {
    Result<SemaphorePtr> made = Semaphore::create(table(), options);
    EXPECT_OK(made);
    return *made;
  }
  Took acquire(Mutex& lock, double seconds = 5) {
    Took how = Took::kNo;
    const Status status = lock.acquire(Deadline::after_seconds(seconds), nullptr, how);
    if (status.code() != Code::kTimeout) {
      EXPECT_OK(status);
    }
    return how;
  }
  bool take(Semaphore& semaphore, double seconds = 0) {
    const Status status = semaphore.acquire(Deadline::after_seconds(seconds), nullptr);
    if (status.code() != Code::kTimeout) {
      EXPECT_OK(status);
    }
    return status.ok();
  }
  // A process that acquires, and then is killed, or leaves in good order.
  template <class Acquire>
  void hold_and_end(bool clean, Acquire&& acquire) {
    Gate held;
    Child child([&] {
      acquire();
      held.open();
      if (clean) {
        domain().mark_clean();
      } else {
        ::pause();
      }
    });
    ASSERT_TRUE(held.wait());
    if (clean) {
      EXPECT_EQ(child.wait(), 0);
    } else {
      child.kill_now();
    }
  }
};

TEST_F(LockTest, IsHeldByOneThread) {
  const MutexPtr lock = make_lock();
  EXPECT_FALSE(lock->locked());
  EXPECT_EQ(lock->try_acquire(), Took::kYes);
  EXPECT_TRUE(lock->locked());
  EXPECT_TRUE(lock->mine());
  EXPECT_FALSE(lock->abandoned());
  EXPECT_EQ(lock->depth(), 1U);
  EXPECT_EQ(lock->try_acquire(), Took::kNo);
  std::thread([&] {
    EXPECT_FALSE(lock->mine());
    EXPECT_EQ(lock->depth(), 1U);  // this process holds it
    EXPECT_EQ(lock->try_acquire(), Took::kNo);
    EXPECT_EQ(lock->release(), Released::kYes);  // as in the standard library
  }).join();
  EXPECT_EQ(lock->release(), Released::kNotHeld);
}

TEST_F(LockTest, RecursiveCountsItsHolder) {
  const MutexPtr lock = make_lock(true);
  EXPECT_EQ(lock->release(), Released::kNotOwner);
  for (std::uint64_t depth = 1; depth <= 3; ++depth) {
    EXPECT_EQ(lock->try_acquire(), Took::kYes);
    EXPECT_EQ(lock->depth(), depth);
  }
  std::thread([&] {
    EXPECT_EQ(lock->try_acquire(), Took::kNo);
    EXPECT_EQ(lock->release(), Released::kNotOwner);
  }).join();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(lock->release(), Released::kYes);
  EXPECT_FALSE(lock->locked());
}

TEST_F(LockTest, WaitsEndWithTheDeadline) {
  const MutexPtr lock = make_lock();
  ASSERT_EQ(lock->try_acquire(), Took::kYes);
  std::thread([&] {
    const std::int64_t begin = os::now_ns();
    EXPECT_EQ(acquire(*lock, 0.03), Took::kNo);
    EXPECT_GE(os::now_ns() - begin, 29'000'000);
    EXPECT_EQ(acquire(*lock, -1), Took::kNo);
  }).join();
  EXPECT_EQ(lock->release(), Released::kYes);
}

TEST_F(LockTest, ExcludesThreadsOfProcesses) {
  const MutexPtr lock = make_lock();
  const arena::LeasePtr memory = allocate(arena::Kind::kShare, 64, true);
  auto& plain = *reinterpret_cast<volatile std::uint64_t*>(memory->data());
  constexpr int kRounds = 20'000;
  const auto work = [&] {
    for (int i = 0; i < kRounds; ++i) {
      if (lock->try_acquire() == Took::kNo) {
        ASSERT_EQ(acquire(*lock, 30), Took::kYes);
      }
      plain = plain + 1;
      ASSERT_EQ(lock->release(), Released::kYes);
    }
  };
  Child child([&] {
    std::thread other(work);
    work();
    other.join();
  });
  work();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(plain, 3U * kRounds);
}

TEST_F(LockTest, KilledHolderIsTakenOverAtOnce) {
  for (const bool recursive : {false, true}) {
    const MutexPtr lock = make_lock(recursive);
    hold_and_end(false, [&] { EXPECT_EQ(acquire(*lock), Took::kYes); });
    const std::int64_t begin = os::now_ns();
    EXPECT_EQ(acquire(*lock), Took::kAbandoned);
    EXPECT_LT(os::now_ns() - begin, 500'000'000);
    EXPECT_TRUE(lock->abandoned());
    EXPECT_TRUE(lock->mine());
    EXPECT_EQ(lock->depth(), 1U);
    EXPECT_EQ(lock->release(), Released::kYes);
    EXPECT_FALSE(lock->abandoned());
    EXPECT_EQ(acquire(*lock), Took::kYes);  // told once
    EXPECT_EQ(lock->release(), Released::kYes);
  }
}

TEST_F(LockTest, WaiterTakesOverFromOneWhoIsKilled) {
  const MutexPtr lock = make_lock();
  Gate held;
  Child child([&] {
    EXPECT_EQ(acquire(*lock), Took::kYes);
    held.open();
    ::pause();
  });
  ASSERT_TRUE(held.wait());
  test::Sleeper waits;
  std::thread waiter([&] {
    waits.is_me();
    EXPECT_EQ(acquire(*lock), Took::kAbandoned);
    EXPECT_EQ(lock->release(), Released::kYes);
  });
  ASSERT_TRUE(waits.asleep());
  const std::int64_t begin = os::now_ns();
  child.kill_now();
  waiter.join();
  EXPECT_LT(os::now_ns() - begin, 900'000'000);
}

// Who works inside of a lock and lets go for an instant only must not shut others out.
TEST_F(LockTest, AWaiterIsNotOvertakenForEver) {
  const MutexPtr lock = make_lock();
  const SemaphorePtr unit = make_semaphore({.value = 1});
  const auto by_lock = [&](auto&& work) {
    EXPECT_EQ(acquire(*lock), Took::kYes);
    work();
    EXPECT_EQ(lock->release(), Released::kYes);
  };
  const auto by_unit = [&](auto&& work) {
    EXPECT_OK(unit->acquire(Deadline::never(), nullptr));
    work();
    EXPECT_OK(unit->release());
  };
  const auto share = [](auto&& inside) {
    Gate begun, enough;
    Child hog([&] {
      begun.open();
      while (!enough.wait(0)) inside([] { ::usleep(2000); });
    });
    ASSERT_TRUE(begun.wait());
    const std::int64_t begin = os::now_ns();
    for (int i = 0; i < 20; ++i) {
      inside([] {});
      ::usleep(1000);  // the hog has it by then
    }
    // Every second turn would take 80 ms.
    EXPECT_LT(os::now_ns() - begin, 1'000'000'000);
    enough.open();
    EXPECT_EQ(hog.wait(), 0);
  };
  share(by_lock);
  share(by_unit);
}

TEST_F(LockTest, CleanExitWhileHoldingIsNoDeath) {
  const MutexPtr lock = make_lock();
  hold_and_end(true, [&] { EXPECT_EQ(acquire(*lock), Took::kYes); });
  EXPECT_EQ(acquire(*lock, 0.3), Took::kNo);
  domain().reap();
  EXPECT_TRUE(lock->locked());
  EXPECT_EQ(lock->release(), Released::kYes);  // another process's release
  EXPECT_EQ(acquire(*lock), Took::kYes);
  EXPECT_EQ(lock->release(), Released::kYes);
}

TEST_F(LockTest, LockUsedAsASignalHasNoHolder) {
  const MutexPtr lock = make_lock();
  ASSERT_EQ(acquire(*lock), Took::kYes);
  Child child([&] { EXPECT_EQ(lock->release(), Released::kYes); });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_FALSE(lock->locked());
  hold_and_end(false, [&] { EXPECT_EQ(acquire(*lock), Took::kYes); });
  EXPECT_EQ(acquire(*lock, 0.3), Took::kNo);
  EXPECT_EQ(lock->release(), Released::kYes);
}

// The very first release by another process comes after the acquirer was killed: still legal.
TEST_F(LockTest, ReleaseForOneWhoWasKilled) {
  const MutexPtr lock = make_lock();
  hold_and_end(false, [&] { EXPECT_EQ(acquire(*lock), Took::kYes); });
  domain().reap();
  EXPECT_EQ(lock->release(), Released::kYes);
  EXPECT_EQ(lock->release(), Released::kNotHeld);
  EXPECT_EQ(acquire(*lock), Took::kYes);
  EXPECT_FALSE(lock->abandoned());
  EXPECT_EQ(lock->release(), Released::kYes);
}

TEST_F(LockTest, ForkedChildHoldsNothingOfItsParents) {
  const MutexPtr lock = make_lock(true);
  ASSERT_EQ(lock->try_acquire(), Took::kYes);
  Child child([&] {
    EXPECT_FALSE(lock->mine());
    EXPECT_EQ(lock->depth(), 0U);
    EXPECT_EQ(lock->release(), Released::kNotOwner);
    EXPECT_EQ(acquire(*lock, 0.02), Took::kNo);
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(lock->release(), Released::kYes);
}

TEST_F(LockTest, IsFoundByItsNumber) {
  MutexPtr lock = make_lock(true);
  {
    const Result<MutexPtr> again = Mutex::open(table(), lock->id());
    ASSERT_OK(again);
    EXPECT_TRUE((*again)->recursive());
    EXPECT_EQ((*again)->try_acquire(), Took::kYes);
    EXPECT_TRUE(lock->mine());
    EXPECT_EQ(lock->release(), Released::kYes);
  }
  const LockId id = lock->id();
  EXPECT_CODE(Code::kInvalid, Semaphore::open(table(), id));
  lock.reset();
  EXPECT_CODE(Code::kInvalid, Mutex::open(table(), id));
  EXPECT_CODE(Code::kInvalid, Mutex::open(table(), {0xffffffU, 1}));
}

TEST_F(LockTest, SemaphoreCounts) {
  const SemaphorePtr semaphore = make_semaphore({.value = 2, .most = 3});
  EXPECT_TRUE(take(*semaphore));
  EXPECT_TRUE(take(*semaphore));
  EXPECT_FALSE(take(*semaphore));
  EXPECT_FALSE(take(*semaphore, 0.02));
  EXPECT_OK(semaphore->release(3));
  EXPECT_EQ(semaphore->value(), 3U);
  EXPECT_CODE(Code::kInvalid, semaphore->release());
  EXPECT_CODE(Code::kInvalid, Semaphore::create(table(), {.value = 4, .most = 3}));
  EXPECT_CODE(Code::kInvalid, Semaphore::create(table(), {.value = 1, .most = kMostUnits + 1}));
}

// Acquired in one process, released in another, the first one killed: a unit has no owner.
TEST_F(LockTest, SemaphoreAsASignalForgetsNothing) {
  const SemaphorePtr semaphore = make_semaphore({.value = 1});
  hold_and_end(false, [&] { EXPECT_TRUE(take(*semaphore, 1)); });
  domain().reap();
  EXPECT_EQ(semaphore->value(), 0U);
  EXPECT_FALSE(take(*semaphore, 0.05));
  EXPECT_OK(semaphore->release());
  EXPECT_TRUE(take(*semaphore));
}

TEST_F(LockTest, RecoveringSemaphoreGetsUnitsBack) {
  const SemaphorePtr semaphore = make_semaphore({.value = 3, .most = 3, .recover = true});
  EXPECT_TRUE(take(*semaphore));
  hold_and_end(false, [&] {
    EXPECT_TRUE(take(*semaphore, 1));
    EXPECT_TRUE(take(*semaphore, 1));
    EXPECT_FALSE(take(*semaphore));
  });
  const std::int64_t begin = os::now_ns();
  EXPECT_TRUE(take(*semaphore, 5));
  EXPECT_LT(os::now_ns() - begin, 900'000'000);
  EXPECT_EQ(semaphore->value(), 1U);
  EXPECT_OK(semaphore->release(2));
  EXPECT_EQ(semaphore->value(), 3U);
  EXPECT_CODE(Code::kInvalid, semaphore->release());
  hold_and_end(true, [&] { EXPECT_TRUE(take(*semaphore, 1)); });
  domain().reap();
  EXPECT_EQ(semaphore->value(), 2U);  // no death: still taken
  EXPECT_OK(semaphore->release());
}

TEST_F(LockTest, RecoveringSemaphoreDroppedWithUnits) {
  SemaphorePtr semaphore = make_semaphore({.value = 3, .most = 3, .recover = true});
  EXPECT_TRUE(take(*semaphore));
  EXPECT_EQ(table().live_cells(), 1U);
  semaphore.reset();
  EXPECT_EQ(table().live_cells(), 0U);
}

TEST_F(LockTest, ThereAreManyAndThenAnError) {
  // Without limits there is room for 491,511; as many as are asked for at least.
  EXPECT_GE(rows_in(std::uint64_t{64} << 20), 100'000U);
}

class TinyLockTest : public LockTest {
 protected:
  TinyLockTest() : LockTest(test::kTinyDomain) {}
};

TEST_F(TinyLockTest, WhenAllAreTaken) {
  std::vector<MutexPtr> all;
  for (;;) {
    Result<MutexPtr> made = Mutex::create(table(), false);
    if (!made) {
      EXPECT_CODE(Code::kNoSpace, made);
      break;
    }
    all.push_back(*made);
  }
  EXPECT_EQ(all.size(), table().capacity());
  all.pop_back();
  EXPECT_OK(Mutex::create(table(), false));
}

}  // namespace
}  // namespace forklift::locks
