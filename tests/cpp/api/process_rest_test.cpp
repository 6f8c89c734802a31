// Process::fork brings runtimes to rest before it forks.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "forklift/process.h"
#include "support/gomp.h"
#include "support/process_fixture.h"

namespace forklift {
namespace {

class ProcessRest : public test::ProcessFixture {};

TEST_F(ProcessRest, PoolOfLibgompWorksInAForkedChild) {
  const test::Parallel parallel = test::load_gomp();
  if (!parallel) GTEST_SKIP() << "no libgomp";
  static std::atomic<int> sum;
  const auto run = [parallel] {
    sum = 0;
    parallel([](void*) { ++sum; }, nullptr, 2, 0);
    return sum.load();
  };
  ASSERT_EQ(run(), 2);
  Process child = Process::fork(run);
  child.start();
  if (!child.try_join(std::chrono::seconds(20))) {
    child.kill();
    child.join();
    FAIL() << "the child waits for threads that it has not";
  }
  EXPECT_EQ(child.exitcode(), 2);
  EXPECT_EQ(run(), 2);
}

}  // namespace
}  // namespace forklift
