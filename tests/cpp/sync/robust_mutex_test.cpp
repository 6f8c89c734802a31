// The internal lock: what happens when its owner ends, stops, or dumps core inside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <thread>
#include <vector>

#include "os/clock.h"
#include "os/mapping.h"
#include "os/memfd.h"
#include "support/child.h"
#include "support/node_fixture.h"
#include "support/runtime_dir.h"
#include "support/status_check.h"
#include "sync/robust_mutex.h"

namespace forklift::sync {
namespace {

using Acquired = RobustMutex::Acquired;
using test::Child;
using test::Gate;
using testing::AllOf;
using testing::HasSubstr;

struct Shared {
  RobustMutex mutex;
  volatile std::uint64_t counter;
};

class RobustMutexTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<os::Fd> file = os::create_memfd("forklift-test", 4096);
    ASSERT_OK(file);
    Result<os::Mapping> mapping = os::Mapping::shared(*file, 0, 4096);
    ASSERT_OK(mapping);
    mapping_ = *std::move(mapping);
    shared_ = new (mapping_.data()) Shared;
    ASSERT_OK(shared_->mutex.init());
  }
  RobustMutex& mutex() { return shared_->mutex; }

  // A child that takes the lock, says so, and waits to be killed.
  Child holder(Gate& ready) {
    return Child([&] {
      Status why;
      EXPECT_NE(mutex().lock(&why), Acquired::kFailed);
      ready.open();
      for (;;) ::pause();
    });
  }

  os::Mapping mapping_;
  Shared* shared_ = nullptr;
};

TEST_F(RobustMutexTest, ExcludesOthers) {
  Status why;
  ASSERT_EQ(mutex().lock(&why), Acquired::kClean);
  std::thread([&] { EXPECT_EQ(mutex().try_lock(), Acquired::kFailed); }).join();
  mutex().unlock();
  std::thread([&] {
    EXPECT_EQ(mutex().try_lock(), Acquired::kClean);
    mutex().unlock();
  }).join();
}

TEST_F(RobustMutexTest, CountsUnderContentionOfThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 20'000; ++n) {
        const LockGuard guard(mutex(), [] {});
        shared_->counter = shared_->counter + 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shared_->counter, 80'000U);
}

TEST_F(RobustMutexTest, CountsUnderContentionOfProcesses) {
  std::vector<Child> children;
  for (int i = 0; i < 3; ++i) {
    children.emplace_back([&] {
      for (int n = 0; n < 20'000; ++n) {
        const LockGuard guard(mutex(), [] {});
        ASSERT_TRUE(guard.ok());
        shared_->counter = shared_->counter + 1;
      }
    });
  }
  for (Child& child : children) EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(shared_->counter, 60'000U);
}

TEST_F(RobustMutexTest, AKilledOwnerHandsItOnAtOnce) {
  Gate ready;
  Child child = holder(ready);
  ASSERT_TRUE(ready.wait());
  std::atomic<int> recoveries{0};
  const std::int64_t start = os::now_ns();
  std::thread waiter([&] {
    const LockGuard guard(mutex(), [&] { ++recoveries; });
    EXPECT_TRUE(guard.ok());
  });
  child.kill_now();
  waiter.join();
  EXPECT_LT(os::now_ns() - start, 2'000'000'000);
  EXPECT_EQ(recoveries, 1);
  const LockGuard guard(mutex(), [&] { ++recoveries; });  // repaired once, clean since
  EXPECT_TRUE(guard.ok());
  EXPECT_EQ(recoveries, 1);
}

TEST_F(RobustMutexTest, TryLockSeesTheDeathToo) {
  Gate ready;
  Child child = holder(ready);
  ASSERT_TRUE(ready.wait());
  EXPECT_EQ(mutex().try_lock(), Acquired::kFailed);
  child.kill_now();
  ASSERT_EQ(mutex().try_lock(), Acquired::kOwnerDied);
  mutex().consistent();
  mutex().unlock();
  EXPECT_EQ(mutex().try_lock(), Acquired::kClean);
  mutex().unlock();
}

TEST_F(RobustMutexTest, AThreadThatEndsInsideIsADeadOwner) {
  std::thread([&] {
    Status why;
    EXPECT_EQ(mutex().lock(&why), Acquired::kClean);
  }).join();
  int recoveries = 0;
  const LockGuard guard(mutex(), [&] { ++recoveries; });
  EXPECT_TRUE(guard.ok());
  EXPECT_EQ(recoveries, 1);
}

// The one who repairs is killed while repairing: the next one repairs again.
TEST_F(RobustMutexTest, ARepairerThatDiesIsFollowedByAnother) {
  Gate ready;
  Child first = holder(ready);
  ASSERT_TRUE(ready.wait());
  first.kill_now();
  Child second = holder(ready);  // gets kOwnerDied and never calls consistent()
  ASSERT_TRUE(ready.wait());
  second.kill_now();
  int recoveries = 0;
  const LockGuard guard(mutex(), [&] { ++recoveries; });
  EXPECT_TRUE(guard.ok());
  EXPECT_EQ(recoveries, 1);
}

TEST_F(RobustMutexTest, AMutexThatWasNotRepairedFailsByName) {
  Gate ready;
  Child child = holder(ready);
  ASSERT_TRUE(ready.wait());
  child.kill_now();
  ASSERT_EQ(mutex().try_lock(), Acquired::kOwnerDied);
  mutex().unlock();  // without consistent(): not recoverable, for ever
  Status why;
  EXPECT_EQ(mutex().lock(&why), Acquired::kFailed);
  EXPECT_CODE(Code::kSystem, why);
  EXPECT_EQ(why.errno_value(), ENOTRECOVERABLE);
}

TEST_F(RobustMutexTest, AStoppedOwnerIsNamedAfterAWhile) {
  Gate ready;
  Child child = holder(ready);
  ASSERT_TRUE(ready.wait());
  child.signal(SIGSTOP);
  ASSERT_TRUE(test::eventually([&] { return ::kill(child.pid(), 0) == 0; }));
  const std::int64_t start = os::now_ns();
  const LockGuard guard(mutex(), [] { ADD_FAILURE() << "nobody died"; });
  const std::int64_t took = os::now_ns() - start;
  EXPECT_FALSE(guard.ok());
  EXPECT_CODE(Code::kStalled, guard.status());
  EXPECT_THAT(std::string(guard.status().what()),
              AllOf(HasSubstr(std::to_string(child.pid())), HasSubstr("SIGSTOP")));
  EXPECT_GE(took, kStallSeconds * 900'000'000);
  EXPECT_LT(took, kStallSeconds * 2'000'000'000);
  // It was only late: killed or continued, the lock is good.
  child.kill_now();
  const LockGuard again(mutex(), [] {});
  EXPECT_TRUE(again.ok());
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)  // whose own memory is dumped for long
class CoreDumpTest : public test::NodeFixture {};

// Without MADV_DONTDUMP the dump would populate terabytes, and the lock would stay held meanwhile.
TEST_F(CoreDumpTest, AnAbortInsideALockReleasesItPromptlyAndDumpsLittle) {
  std::string folder = test::temporary("core");
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  arena::LeasePtr block = allocate(arena::Kind::kShare, 64 << 20);
  Gate ready;
  Child child([&] {
    ASSERT_EQ(::chdir(folder.c_str()), 0);
    const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
    (void)::setrlimit(RLIMIT_CORE, &unlimited);
    ::signal(SIGABRT, SIG_DFL);
    Status why;
    EXPECT_EQ(arena().ledger().state().mutex.lock(&why), Acquired::kClean);
    ready.open();
    ::abort();
  });
  ASSERT_TRUE(ready.wait());
  const std::int64_t start = os::now_ns();
  arena::LeasePtr other = allocate(arena::Kind::kShare, 4096);
  EXPECT_LT(os::now_ns() - start, 4'000'000'000);
  EXPECT_EQ(child.wait(), -SIGABRT);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    struct stat info{};
    ASSERT_EQ(::stat(entry.path().c_str(), &info), 0);
    EXPECT_LT(info.st_blocks * 512, 32 << 20) << entry.path();  // less than the block alone
  }
  std::filesystem::remove_all(folder);
  block.reset();
  other.reset();
  domain().reap();  // unless who waited for the lock has done it already
  EXPECT_EQ(domain().live_slots(), 1U);
}
#endif

}  // namespace
}  // namespace forklift::sync
