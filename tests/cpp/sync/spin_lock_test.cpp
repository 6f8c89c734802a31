// The lock between the threads of one process.
#include "sync/spin_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace forklift::sync {
namespace {

TEST(SpinLock, OneAtATime) {
  SpinLock lock;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 20'000; ++turn) {
        const std::lock_guard<SpinLock> guard(lock);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 80'000);
}

// As across a fork: the holder takes its time.
TEST(SpinLock, AWaiterOutlastsALongHolder) {
  SpinLock lock;
  lock.lock();
  std::atomic<bool> had{false};
  std::thread waiter([&] {
    const std::lock_guard<SpinLock> guard(lock);
    had = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(had);
  lock.unlock();
  waiter.join();
  EXPECT_TRUE(had);
}

}  // namespace
}  // namespace forklift::sync
