// SimpleQueue, JoinableQueue, and waits that a std::stop_token ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "forklift/multiprocessing.h"
#include "support/asleep.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using testing::IsEmpty;

void work_off(JoinableQueue<int>& jobs, SimpleQueue<std::string>& results) {
  while (const int job = jobs.get()) {
    results.put(std::to_string(job * job));
    jobs.task_done();
  }
  jobs.task_done();
}
const Registered<&work_off> kWorkOff{"work off"};

class QueueKinds : public testing::Test {
 protected:
  static void SetUpTestSuite() { (void)stats(); }
  void SetUp() override { before_ = stats(); }
  void TearDown() override {
    const Stats after = stats();
    EXPECT_EQ(after.channels, before_.channels);
    EXPECT_EQ(after.leases, before_.leases);
    EXPECT_THAT(audit(), IsEmpty());
  }

 private:
  Stats before_{};
};

// Runs `wait(token)` in a thread, requests a stop when it has begun, and answers how long it took from there.
template <class Wait>
std::chrono::nanoseconds stopped_after(Wait&& wait) {
  std::chrono::steady_clock::time_point asked;
  std::chrono::steady_clock::time_point ended;
  {
    test::Sleeper waits;
    std::jthread waiting([&](const std::stop_token& stop) {
      waits.is_me();
      wait(stop);
      ended = std::chrono::steady_clock::now();
    });
    EXPECT_TRUE(waits.asleep());
    asked = std::chrono::steady_clock::now();
  }
  return ended - asked;
}

TEST_F(QueueKinds, AJoinableQueueKnowsWhatIsDone) {
  JoinableQueue<int> jobs({.capacity = 8});
  SimpleQueue<std::string> results;
  EXPECT_TRUE(jobs.try_join(0s)) << "nothing was put";
  Process forked = Process::fork([&] { work_off(jobs, results); }).start();
  Process spawned = Process::spawn(work_off, jobs, results).start();
  int sum = 0;
  std::jthread collector([&] {
    for (int i = 1; i <= 100; ++i) sum += std::stoi(results.get());
  });
  for (int i = 1; i <= 100; ++i) jobs.put(i);
  jobs.join();
  EXPECT_EQ(jobs.unfinished(), 0u);
  for (int i = 0; i < 2; ++i) jobs.put(0);
  jobs.join();
  collector.join();
  EXPECT_EQ(sum, 100 * 101 * 201 / 6);
  forked.join();
  spawned.join();
}

TEST_F(QueueKinds, JoiningUntilAPointInTime) {
  JoinableQueue<int> jobs;
  EXPECT_TRUE(jobs.try_join(std::chrono::steady_clock::time_point::min()));
  jobs.put(1);
  EXPECT_FALSE(jobs.try_join(std::chrono::steady_clock::time_point::min()));
  EXPECT_FALSE(jobs.try_join(std::chrono::system_clock::now() + 5ms));
  (void)jobs.get();
  jobs.task_done();
  EXPECT_TRUE(jobs.try_join(std::chrono::steady_clock::time_point::max()));
}

TEST_F(QueueKinds, JoiningHasAnEnd) {
  JoinableQueue<int> jobs;
  jobs.put(1);
  EXPECT_EQ(jobs.unfinished(), 1u);
  EXPECT_FALSE(jobs.try_join(5ms));
  EXPECT_LT(stopped_after([&](const std::stop_token& stop) { EXPECT_FALSE(jobs.try_join(stop)); }), 5s);
  EXPECT_LT(stopped_after([&](const std::stop_token& stop) { EXPECT_FALSE(jobs.try_join({1h, stop})); }), 5s);
  EXPECT_FALSE(jobs.try_join({5ms, std::stop_source().get_token()}));
  EXPECT_EQ(jobs.get(), 1);
  EXPECT_FALSE(jobs.try_join(5ms)) << "taken is not done";
  jobs.task_done();
  EXPECT_TRUE(jobs.try_join(std::stop_token()));
  EXPECT_THROW(jobs.task_done(), Error);
  jobs.reset();
  EXPECT_THROW(jobs.join(), Error);
}

TEST_F(QueueKinds, ASimpleQueueHoldsBytesNotMessages) {
  SimpleQueue<std::string> lines;
  const std::string kilobyte(1024, 'x');
  int most = 0;
  while (lines.try_put(kilobyte)) ++most;
  EXPECT_GE(most, 50);
  EXPECT_LE(most, 64);
  EXPECT_FALSE(lines.try_put(kilobyte, 5ms));
  EXPECT_EQ(lines.get(), kilobyte);
  EXPECT_TRUE(lines.try_put(kilobyte));
  while (lines.try_get()) {
  }
  EXPECT_TRUE(lines.try_put(std::string(1'000'000, 'y'))) << "alone, a message may have any length";
  EXPECT_FALSE(lines.try_put("z"));
  EXPECT_EQ(lines.get().size(), 1'000'000u);
}

TEST_F(QueueKinds, AStopEndsTheWaitsOfAQueue) {
  Queue<int> queue({.capacity = 1});
  EXPECT_LT(stopped_after([&](const std::stop_token& stop) { EXPECT_EQ(queue.try_get(stop), std::nullopt); }),
            5s);
  EXPECT_LT(
      stopped_after([&](const std::stop_token& stop) { EXPECT_EQ(queue.try_get({1h, stop}), std::nullopt); }),
      5s);
  queue.put(1);
  EXPECT_LT(stopped_after([&](const std::stop_token& stop) { EXPECT_FALSE(queue.try_put(2, stop)); }), 5s);
  EXPECT_LT(stopped_after([&](const std::stop_token& stop) { EXPECT_FALSE(queue.try_put(2, {1h, stop})); }),
            5s);
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(queue.try_get({1s, std::stop_token()}), 1);
}

TEST_F(QueueKinds, AStopThatWasRequestedMakesACallNotWait) {
  std::stop_source source;
  source.request_stop();
  Queue<int> queue({.capacity = 1});
  EXPECT_EQ(queue.try_get(source.get_token()), std::nullopt);
  EXPECT_TRUE(queue.try_put(1, source.get_token()));
  EXPECT_FALSE(queue.try_put(2, source.get_token()));
  EXPECT_EQ(queue.try_get(source.get_token()), 1);
}

TEST_F(QueueKinds, AStopEndsTheWaitsOfAConnection) {
  auto [left, right] = make_pipe<std::string>();
  EXPECT_LT(stopped_after([&, &end = left](const std::stop_token& stop) {
              EXPECT_EQ(end.try_get(stop), std::nullopt);
            }),
            5s);
  EXPECT_LT(
      stopped_after([&, &end = left](const std::stop_token& stop) { EXPECT_FALSE(end.poll({1h, stop})); }),
      5s);
  const std::string large(60'000, 'x');
  left.put(large);
  EXPECT_LT(stopped_after(
                [&, &end = left](const std::stop_token& stop) { EXPECT_FALSE(end.try_put(large, stop)); }),
            5s);
  EXPECT_EQ(right.try_get({1s, std::stop_token()}), large);
  std::stop_source never;
  left.put("last");
  EXPECT_EQ(right.try_get(never.get_token()), "last");
  left.close();
  EXPECT_THROW((void)right.try_get(never.get_token()), Closed) << "the end of the pipe";
}

TEST_F(QueueKinds, AStopEndsTheWaitAtABarrierAndBreaksIt) {
  Barrier barrier(2);
  EXPECT_LT(stopped_after([&](const std::stop_token& stop) {
              EXPECT_EQ(barrier.try_arrive_and_wait(stop), std::nullopt);
            }),
            5s);
  EXPECT_TRUE(barrier.broken());
  EXPECT_THROW((void)barrier.arrive_and_wait(), BrokenBarrier);
  barrier.reset();
  EXPECT_LT(stopped_after([&](const std::stop_token& stop) {
              EXPECT_EQ(barrier.try_arrive_and_wait({1h, stop}), std::nullopt);
            }),
            5s);
  barrier.reset();
  std::stop_source never;
  EXPECT_EQ(barrier.try_arrive_and_wait({5ms, never.get_token()}), std::nullopt);
  EXPECT_TRUE(barrier.broken()) << "a time that is over breaks it, too";
  EXPECT_THROW((void)barrier.try_arrive_and_wait({5ms, never.get_token()}), BrokenBarrier);
  barrier.reset();
  std::jthread other([&] { (void)barrier.arrive_and_wait(); });
  EXPECT_TRUE(barrier.try_arrive_and_wait(never.get_token()).has_value());
}

}  // namespace
}  // namespace forklift
