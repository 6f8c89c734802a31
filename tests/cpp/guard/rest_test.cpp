// Runtimes come to rest before a fork: libgomp's pool ends, and a fork waits for calls of OpenBLAS.
#include "guard/rest.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <semaphore>
#include <string>
#include <thread>

#include "guard/libraries.h"
#include "guard/threads.h"
#include "os/proc.h"
#include "support/child.h"
#include "support/gomp.h"
#include "support/status_check.h"

namespace forklift::guard {
namespace {

using namespace std::chrono_literals;
using test::Child;
using testing::AllOf;
using testing::HasSubstr;

TEST(GuardRest, PoolOfLibgompWorksOnBothSidesOfAFork) {
  const test::Parallel parallel = test::load_gomp();
  if (!parallel) GTEST_SKIP() << "no libgomp";
  static std::atomic<int> sum;
  const auto run = [parallel] {
    sum = 0;
    parallel([](void*) { ++sum; }, nullptr, 2, 0);
    return sum.load();
  };
  EXPECT_EQ(run(), 2);
  rest_at_forks();
  for (int i = 0; i < 3; ++i) {
    Child child([&] { EXPECT_EQ(run(), 2); });
    ASSERT_TRUE(test::eventually([&] { return os::task_state(child.pid()) == 'Z'; }));
    EXPECT_EQ(child.wait(), 0);
    EXPECT_EQ(run(), 2);
  }
}

// A thread of this program that sleeps: it may have called the library whose threads compute.
class Caller {
 public:
  Caller() : thread_([this] { end_.acquire(); }) {}
  ~Caller() {
    end_.release();
    thread_.join();
  }

 private:
  std::binary_semaphore end_{0};
  std::thread thread_;
};

class GuardRestOfOpenBlas : public testing::Test {
 protected:
  void SetUp() override {
    void* const loaded = ::dlopen(FORKLIFT_TEST_FAKE_OPENBLAS, RTLD_NOW | RTLD_LOCAL);  // stays loaded
    ASSERT_NE(loaded, nullptr) << ::dlerror();
    begin_ = reinterpret_cast<bool (*)()>(::dlsym(loaded, "fake_openblas_begin"));
    end_ = reinterpret_cast<void (*)()>(::dlsym(loaded, "fake_openblas_end"));
    ASSERT_NE(begin_, nullptr);
    ASSERT_NE(end_, nullptr);
    rest_at_forks();
    begin();
    std::string owners;
    const bool known = test::eventually([&] {
      for (const Thread& each : other_threads(*mapped_libraries())) owners += each.owner + ' ';
      return owners.find("openblas") != std::string::npos || owners.find("libasan.") != std::string::npos ||
             owners.find("libtsan.") != std::string::npos;
    });
    end_();
    ASSERT_TRUE(known) << "the threads' owners: " << owners;
    if (owners.find("openblas") == std::string::npos)
      GTEST_SKIP() << "a sanitizer's library begins each thread";
  }
  void TearDown() override {
    if (end_) end_();
    set_fork_timeout(before_);
  }

  // From now on OpenBLAS computes.
  void begin() { ASSERT_TRUE(begin_()); }

  bool (*begin_)() = nullptr;
  void (*end_)() = nullptr;

 private:
  const std::chrono::nanoseconds before_ = fork_timeout();
};

TEST_F(GuardRestOfOpenBlas, AForkWaitsForACallThatTakesLong) {
  const Caller caller;
  begin();
  std::atomic<bool> ended{false};
  std::thread ending([&] {
    std::this_thread::sleep_for(1500ms);  // the length of the call: a second is what a thread alone is given
    ended = true;
    end_();
  });
  Child child([] {});
  EXPECT_TRUE(ended);
  ending.join();
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(GuardRestOfOpenBlas, WhoCanRefuseAForkDoesSoAfterTheTimeout) {
  const Caller caller;
  begin();
  set_fork_timeout(1200ms);
  const Status status = prepare_fork();
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_THAT(std::string(status.what()),
              AllOf(HasSubstr("no fork after waiting for 1.2"), HasSubstr("within a call of OpenBLAS"),
                    HasSubstr("fork_timeout")));
  end_();
  EXPECT_OK(prepare_fork());
}

TEST_F(GuardRestOfOpenBlas, ItsThreadsAreNotWaitedForWhereNobodyElseMayCallIt) {
  begin();
  set_fork_timeout(0ms);
  EXPECT_OK(prepare_fork());
}

TEST_F(GuardRestOfOpenBlas, AThreadThatComputesAloneIsGivenASecondOnce) {
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) {
    }
  });
  const auto began = std::chrono::steady_clock::now();
  EXPECT_OK(prepare_fork());
  const auto first = std::chrono::steady_clock::now();
  EXPECT_GE(first - began, 1s);
  for (int i = 0; i < 3; ++i) EXPECT_OK(prepare_fork());
  EXPECT_LT(std::chrono::steady_clock::now() - first, 3s) << "each was given a second of its own";
  stop = true;
  other.join();
}

}  // namespace
}  // namespace forklift::guard
