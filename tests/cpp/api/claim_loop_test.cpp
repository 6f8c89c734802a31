// Claim after claim: loops over a queue that delivers at least once, and a get in place of a claim that is there.
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>

#include "forklift/multiprocessing.h"
#include "support/asleep.h"
#include "support/process_fixture.h"

namespace forklift {
namespace {

struct Job {
  int number;
};
using Jobs = Queue<Job, Delivery::kAtLeastOnce>;

class ClaimLoopTest : public test::ProcessFixture {};

TEST_F(ClaimLoopTest, IterationEndsOneClaimBeforeTheNext) {
  Jobs jobs({.claims = 1});
  for (int i = 0; i < 5; ++i) jobs.put({i});
  int turns = 0;
  for (Claim<Job>& job : jobs.each(Wait::now())) {
    EXPECT_EQ(jobs.unacknowledged(), 1U);
    EXPECT_EQ(job->number, turns++);
  }
  EXPECT_EQ(turns, 5);
  EXPECT_EQ(jobs.unacknowledged(), 0U);
  jobs.put({7});
  EXPECT_THROW(for (Claim<Job>& job : jobs) throw std::runtime_error(std::to_string(job->number)),
               std::runtime_error);
  EXPECT_EQ(jobs.size(), 1U) << "an exception in the loop gives the message back";
}

TEST_F(ClaimLoopTest, OneClaimInPlaceOfAnother) {
  Jobs jobs;
  Jobs others;
  for (int i = 1; i <= 3; ++i) jobs.put({i});
  others.put({10});
  Claim<Job> job = jobs.get();
  ASSERT_TRUE(jobs.try_get_into(job));
  EXPECT_EQ(job->number, 2);
  EXPECT_EQ(jobs.unacknowledged(), 1U);
  ASSERT_TRUE(others.try_get_into(job)) << "of another queue";
  EXPECT_EQ(job->number, 10);
  EXPECT_EQ(jobs.unacknowledged(), 0U);
  EXPECT_FALSE(others.try_get_into(job));
  EXPECT_FALSE(job) << "it ended although nothing came";
  EXPECT_EQ(job->number, 10);
  EXPECT_EQ(others.unacknowledged(), 0U);
  others.close();
  EXPECT_THROW((void)others.try_get_into(job), Closed);
  EXPECT_EQ(job->number, 10);
  ASSERT_TRUE(jobs.try_get_into(job)) << "it is as good as new";
  EXPECT_EQ(job->number, 3);
}

TEST_F(ClaimLoopTest, InPlaceOfAnotherWhileAnExceptionUnwinds) {
  Jobs jobs;
  for (int i = 1; i <= 2; ++i) jobs.put({i});
  struct TakesTheNext {
    Jobs& jobs;
    Claim<Job>& job;
    ~TakesTheNext() { taken = jobs.try_get_into(job); }
    bool& taken;
  };
  bool taken = false;
  Claim<Job> job = jobs.get();
  try {
    const TakesTheNext next{jobs, job, taken};
    throw std::runtime_error("failed");
  } catch (const std::runtime_error&) {
  }
  EXPECT_TRUE(taken);
  EXPECT_EQ(job->number, 1) << "the exception gave it back, and it is the next one";
  EXPECT_EQ(job.tries(), 2U);
}

TEST_F(ClaimLoopTest, TheLastTurnOfALoopEndsAJoin) {
  Jobs jobs;
  jobs.put({1});
  Claim<Job> job = jobs.get();
  test::Sleeper joiner;
  std::jthread joining([&] {
    joiner.is_me();
    jobs.join();
  });
  ASSERT_TRUE(joiner.asleep());
  EXPECT_FALSE(jobs.try_get_into(job));
}

// The stop may come at any moment of the get, also before its first look.
TEST_F(ClaimLoopTest, AStopNeverLeavesTheLastOneClaimed) {
  Jobs jobs;
  for (int i = 0; i < 20'000; ++i) {
    jobs.put({i});
    Claim<Job> job = jobs.get();
    std::stop_source stop;
    std::atomic<bool> begun{false};
    std::jthread stopper([&] {
      while (!begun.load()) {
      }
      for (int look = 0; look < i % 400; ++look) (void)begun.load();
      stop.request_stop();
    });
    begun.store(true);
    EXPECT_FALSE(jobs.try_get_into(job, stop.get_token()));
    ASSERT_EQ(jobs.unacknowledged(), 0U) << "after " << i;
  }
}

}  // namespace
}  // namespace forklift
