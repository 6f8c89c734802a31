// The executor: order, waiting, pieces, and what a fork does to it.
#include "runtime/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "forklift/context.h"
#include "forklift/ops.h"
#include "forklift/process.h"
#include "guard/rest.h"
#include "node/node.h"
#include "support/status_check.h"
#include "tensor/pending.h"

namespace forklift::runtime {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// Counts its pieces, and can be held up until release_all().
class CountingJob final : public Job {
 public:
  explicit CountingJob(std::int64_t pieces) : Job(pieces, 0) {}
  std::atomic<int> ran{0};
  std::atomic<int> finished{0};

 private:
  void run(std::int64_t) noexcept override { ran.fetch_add(1); }
  void finish() noexcept override { finished.fetch_add(1); }
  std::string describe() const override { return "counting()"; }
};

struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  bool reached = false;

  void pass() {
    std::unique_lock held(mutex);
    reached = true;
    changed.notify_all();
    changed.wait(held, [&] { return open; });
  }
  void wait_until_reached() {
    std::unique_lock held(mutex);
    changed.wait(held, [&] { return reached; });
  }
  void release() {
    const std::lock_guard held(mutex);
    open = true;
    changed.notify_all();
  }
};

class GatedJob final : public Job {
 public:
  explicit GatedJob(std::shared_ptr<Gate> gate) : Job(1, 0), gate_(std::move(gate)) {}

 private:
  void run(std::int64_t) noexcept override { gate_->pass(); }
  std::string describe() const override { return "gated(float32(3))"; }
  std::shared_ptr<Gate> gate_;
};

// Two pieces: a worker's, and the waiting thread's, which passes a gate.
class SharedJob final : public Job {
 public:
  explicit SharedJob(std::shared_ptr<Gate> gate) : Job(2, 0), gate_(std::move(gate)) {}
  void wait_here() {
    waiting_ = std::this_thread::get_id();
    EXPECT_OK(wait());
  }

 private:
  void run(std::int64_t) noexcept override {
    if (std::this_thread::get_id() == waiting_.load())
      gate_->pass();
    else
      gate_->wait_until_reached();
  }
  std::string describe() const override { return "shared()"; }
  std::shared_ptr<Gate> gate_;
  std::atomic<std::thread::id> waiting_;
};

class ExecutorTest : public testing::Test {
 protected:
  void SetUp() override { Executor::instance().set_threads(3); }
  void TearDown() override {
    EXPECT_OK(Executor::instance().drain(30s));
    guard::set_fork_timeout(60s);
    Executor::instance().set_threads(1);  // ends the threads, which the leak check would find
  }
};

TEST_F(ExecutorTest, RunsEachPieceOnce) {
  for (const std::int64_t pieces : {1, 2, 7, 1000}) {
    const auto job = std::make_shared<CountingJob>(pieces);
    EXPECT_FALSE(job->done());
    Executor::instance().submit(job);
    EXPECT_OK(job->wait());
    EXPECT_TRUE(job->done());
    EXPECT_EQ(job->ran.load(), pieces);
    EXPECT_EQ(job->finished.load(), 1);
  }
}

TEST_F(ExecutorTest, OneThreadRunsInTheCaller) {
  Executor::instance().set_threads(1);
  const auto job = std::make_shared<CountingJob>(5);
  Executor::instance().submit(job);
  EXPECT_TRUE(job->done());
}

TEST_F(ExecutorTest, JobsEndInTheirOrder) {
  const auto gate = std::make_shared<Gate>();
  Executor::instance().submit(std::make_shared<GatedJob>(gate));
  std::vector<std::shared_ptr<CountingJob>> jobs;
  for (int i = 0; i < 100; ++i) {
    jobs.push_back(std::make_shared<CountingJob>(3));
    Executor::instance().submit(jobs.back());
  }
  gate->wait_until_reached();
  for (const auto& job : jobs) EXPECT_FALSE(job->done());
  EXPECT_EQ(Executor::instance().in_flight(), 101U);
  gate->release();
  EXPECT_OK(jobs.back()->wait());
  for (const auto& job : jobs) EXPECT_TRUE(job->done());
}

// The worker has nothing to do with the first job any more, and must not end before the second.
TEST_F(ExecutorTest, ANewNumberOfThreadsWaitsForTheJobs) {
  Executor::instance().set_threads(2);
  const auto gate = std::make_shared<Gate>();
  const auto first = std::make_shared<SharedJob>(gate);
  const auto second = std::make_shared<CountingJob>(5);
  Executor::instance().submit(first);
  Executor::instance().submit(second);
  std::thread waiting([&] { first->wait_here(); });
  gate->wait_until_reached();
  std::future<void> changed = std::async(std::launch::async, [] { Executor::instance().set_threads(1); });
  EXPECT_EQ(changed.wait_for(100ms), std::future_status::timeout);
  gate->release();
  changed.get();
  EXPECT_TRUE(second->done());
  EXPECT_EQ(Executor::instance().in_flight(), 0U);
  waiting.join();
}

TEST_F(ExecutorTest, DrainNamesWhatItWaitsFor) {
  const auto gate = std::make_shared<Gate>();
  Executor::instance().submit(std::make_shared<GatedJob>(gate));
  const Status status = Executor::instance().drain(0s);
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_THAT(std::string(status.what()),
              HasSubstr("1 operations are still being computed, the first of them gated("));
  gate->release();
  EXPECT_OK(Executor::instance().drain(30s));
}

TEST_F(ExecutorTest, ManyThreadsSubmitAndWait) {
  std::vector<std::thread> threads;
  std::atomic<int> total{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const auto job = std::make_shared<CountingJob>(5);
        Executor::instance().submit(job);
        if (i % 3 != 0) continue;
        EXPECT_OK(job->wait());
        total.fetch_add(job->ran.load());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(total.load(), 4 * 67 * 5);
}

// Runs `body` in a forked child, and returns its exit status.
template <class Body>
int in_child(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    body();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  if (node::Node* const node = node::Node::existing()) node->domain().reap();
  return status;
}

TEST_F(ExecutorTest, ForkFindsEverythingComputedAndNoThreads) {
  std::vector<std::shared_ptr<CountingJob>> jobs;
  for (int i = 0; i < 50; ++i) {
    jobs.push_back(std::make_shared<CountingJob>(20));
    Executor::instance().submit(jobs.back());
  }
  const ForkCounts before = Executor::fork_counts();
  EXPECT_EQ(in_child([&] {
              for (const auto& job : jobs) EXPECT_TRUE(job->done());
              const auto more = std::make_shared<CountingJob>(20);
              Executor::instance().submit(more);
              EXPECT_OK(more->wait());
              EXPECT_EQ(more->ran.load(), 20);
              EXPECT_EQ(Executor::fork_counts().children, before.children + 1);
              // A child of the child.
              EXPECT_EQ(in_child([] {
                          const auto job = std::make_shared<CountingJob>(20);
                          Executor::instance().submit(job);
                          EXPECT_OK(job->wait());
                        }),
                        0);
            }),
            0);
  EXPECT_EQ(Executor::fork_counts().prepared, before.prepared + 1);
  EXPECT_EQ(Executor::fork_counts().parents, before.parents + 1);
  const auto more = std::make_shared<CountingJob>(20);
  Executor::instance().submit(more);
  EXPECT_OK(more->wait());
}

TEST_F(ExecutorTest, WhatIsUnderWayAtAForkIsBrokenInTheChild) {
  guard::set_fork_timeout(0s);
  const auto gate = std::make_shared<Gate>();
  const auto job = std::make_shared<GatedJob>(gate);
  Executor::instance().submit(job);
  gate->wait_until_reached();
  EXPECT_EQ(Executor::prepare_fork().code(), Code::kTimeout);
  EXPECT_EQ(in_child([&] {
              const Status status = job->wait();
              EXPECT_EQ(status.code(), Code::kBrokenByFork);
              EXPECT_THAT(std::string(status.what()),
                          HasSubstr("gated(float32(3)) was being computed in the parent"));
              const auto more = std::make_shared<CountingJob>(4);
              Executor::instance().submit(more);
              EXPECT_OK(more->wait());
            }),
            0);
  gate->release();
  EXPECT_OK(job->wait());
}

void nothing() {}

TEST_F(ExecutorTest, ProcessRefusesToForkAfterTheDeadline) {
  guard::set_fork_timeout(0s);
  const auto gate = std::make_shared<Gate>();
  Executor::instance().submit(std::make_shared<GatedJob>(gate));
  gate->wait_until_reached();
  Process lambda = fork_context().process([] {});
  Process function = fork_context().process(nothing);
  for (Process* const process : {&lambda, &function}) {
    try {
      process->start();
      ADD_FAILURE() << "a fork with an operation under way";
    } catch (const Error& error) {
      EXPECT_EQ(error.status().code(), Code::kTimeout);
    }
  }
  gate->release();
}

TEST_F(ExecutorTest, ForkWhileOthersSubmit) {
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) {
      const auto job = std::make_shared<CountingJob>(8);
      Executor::instance().submit(job);
      EXPECT_OK(job->wait());
    }
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(in_child([] {
                const auto job = std::make_shared<CountingJob>(8);
                Executor::instance().submit(job);
                EXPECT_OK(job->wait());
              }),
              0);
  }
  stop = true;
  other.join();
}

TEST_F(ExecutorTest, AResultOnItsWayFailsInTheChildWithItsName) {
  guard::set_fork_timeout(0s);
  const auto gate = std::make_shared<Gate>();
  Executor::instance().submit(std::make_shared<GatedJob>(gate));
  const Tensor ones =
      ops::astype(Tensor::zeros({1 << 20}, DType::kInt32), DType::kFloat32);  // behind the gate
  EXPECT_EQ(in_child([&] {
              try {
                static_cast<void>(ones.data<float>());
                ADD_FAILURE() << "a value that was never computed";
              } catch (const Error& error) {
                EXPECT_EQ(error.status().code(), Code::kBrokenByFork);
                EXPECT_THAT(error.what(), HasSubstr("copy(int32(1048576"));
              }
            }),
            0);
  gate->release();
  EXPECT_EQ(ones.at<float>({1000}), 0.0F);
}

}  // namespace
}  // namespace forklift::runtime
