// The pool's engine over forked workers: every task ends exactly once, whoever dies.
#include "workers/engine.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <set>
#include <thread>

#include "os/proc.h"
#include "support/asleep.h"
#include "support/node_fixture.h"
#include "support/numbered_message.h"
#include "support/worker_factory.h"

namespace forklift::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using workers::Answer;
using workers::EngineOptions;
using workers::JobPtr;

using Texts = std::vector<std::string>;

class EngineTest : public NodeFixture {
 protected:
  void TearDown() override {
    engine_.reset();
    domain().reap();
    NodeFixture::TearDown();
  }

  Engine& start(const EngineOptions& options = {.workers = 2}) {
    Result<std::unique_ptr<Engine>> made = Engine::create(node(), options, factory_.factory());
    EXPECT_OK(made);
    engine_ = *std::move(made);
    return *engine_;
  }
  void close_and_join() {
    engine_->close();
    EXPECT_OK(engine_->join(os::Deadline::after_seconds(20)));
  }

  WorkerFactory factory_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, TasksComeBackAsAnswers) {
  Engine& engine = start();
  EXPECT_THAT(run(engine, {"echo a", "fail b", "echo c"}), ElementsAre("a", "error: b", "c"));
  EXPECT_EQ(engine.outstanding(), 0U);
  close_and_join();
  EXPECT_TRUE(engine.pids().empty());
}

TEST_F(EngineTest, ManyTasksOverFewWorkers) {
  Engine& engine = start({.workers = 3});
  const JobPtr job = Engine::make_job({.bulk = true});
  constexpr std::size_t kTasks = 20'000;
  for (std::size_t i = 0; i < kTasks; ++i) {
    const std::string text = "echo " + std::to_string(i);
    ASSERT_OK(engine.submit(job, i, {.bytes = bytes_of(text)}, {}, true));
  }
  engine.flush();
  const Texts texts = rest_of(engine, *job, kTasks);
  for (std::size_t i = 0; i < kTasks; ++i) ASSERT_EQ(texts[i], std::to_string(i));
}

TEST_F(EngineTest, APoolOfNobodyIsRefused) {
  EXPECT_EQ(Engine::create(node(), {.workers = 0}, factory_.factory()).code(), Code::kInvalid);
}

TEST_F(EngineTest, WhoCannotStartWorkersSaysSo) {
  factory_.fail_to_start(true);
  const auto made = Engine::create(node(), {.workers = 2}, factory_.factory());
  EXPECT_EQ(made.code(), Code::kRefused);
}

TEST_F(EngineTest, ADeadWorkersTaskFailsAndTheOthersGoOn) {
  Engine& engine = start();
  EXPECT_THAT(run(engine, {"echo a", "kill", "echo b", "exit 3", "echo c", "exit 0"}),
              ElementsAre("a", "died: -9", "b", "died: 3", "c", "died: 0"));
  EXPECT_TRUE(eventually([&] { return engine.pids().size() == 2; }));
}

TEST_F(EngineTest, ADeadWorkerIsNamed) {
  Engine& engine = start({.workers = 1});
  const pid_t pid = engine.pids().front();
  const JobPtr job = Engine::make_job();
  ASSERT_OK(submit(engine, job, 0, "kill"));
  std::vector<Answer> answers;
  ASSERT_OK(engine.collect(*job, answers, 1, os::Deadline::after_seconds(20)));
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].pid, pid);
  EXPECT_EQ(answers[0].exitcode, -SIGKILL);
}

TEST_F(EngineTest, IdleWorkersThatAreKilledAreReplaced) {
  Engine& engine = start();
  (void)run(engine, {"echo a"});
  const std::vector<pid_t> before = engine.pids();
  for (const pid_t pid : before) ::kill(pid, SIGKILL);
  EXPECT_THAT(run(engine, {"echo a", "echo b"}), ElementsAre("a", "b"));
  EXPECT_TRUE(eventually([&] {
    const std::vector<pid_t> now = engine.pids();
    return now.size() == 2 && std::none_of(now.begin(), now.end(), [&](pid_t pid) {
             return std::find(before.begin(), before.end(), pid) != before.end();
           });
  }));
}

TEST_F(EngineTest, ATaskMayRunAgain) {
  Engine& engine = start();
  EXPECT_THAT(run(engine, {"once", "echo a"}, {.retries = 1}), ElementsAre("again", "a"));
  EXPECT_THAT(run(engine, {"kill"}, {.retries = 2}), ElementsAre("died: -9"));
  EXPECT_TRUE(eventually([&] { return factory_.started() == 2U + 1U + 3U; }));
}

// What a dead worker has written into its message does not reach the next one.
TEST_F(EngineTest, ARetrySeesWhatWasSubmitted) {
  Engine& engine = start();
  arena::LeasePtr block = allocate(arena::Kind::kPrivate, 30'000);
  std::memset(block->data(), 1, block->size());
  const JobPtr job = Engine::make_job();
  const std::string text = "lease";
  ASSERT_OK(engine.submit(job, 0, {.bytes = bytes_of(text), .leases = {&block, 1}}, {.retries = 1}));
  EXPECT_THAT(rest_of(engine, *job, 1), ElementsAre("30000"));
}

TEST_F(EngineTest, ADeadlineKillsTheTask) {
  Engine& engine = start();
  EXPECT_THAT(run(engine, {"sleep 20000", "echo a"}, {.time_ns = 100'000'000}),
              ElementsAre("timed out", "a"));
  EXPECT_THAT(run(engine, {"sleep 20000", "echo a"}, {.time_ns = 100'000'000, .retries = 3}),
              ElementsAre("timed out", "a"));
  EXPECT_THAT(run(engine, {"echo b", "echo c"}, {.time_ns = 60'000'000'000}), ElementsAre("b", "c"));
}

// Time counts from a task's begin, not from its submission.
TEST_F(EngineTest, WaitingForAWorkerIsNotCounted) {
  Engine& engine = start({.workers = 1});
  EXPECT_THAT(run(engine, Texts(6, "sleep 150"), {.time_ns = 600'000'000}), Each("slept"));
}

TEST_F(EngineTest, AStoppedWorkerIsOverItsDeadline) {
  Engine& engine = start();
  EXPECT_THAT(run(engine, {"stop", "echo a"}, {.time_ns = 200'000'000}), ElementsAre("timed out", "a"));
}

TEST_F(EngineTest, WorkersAreReplacedAfterSoManyTasks) {
  Engine& engine = start({.workers = 1, .most_tasks = 3});
  const Texts pids = run(engine, Texts(9, "pid"));
  EXPECT_EQ(std::set<std::string>(pids.begin(), pids.end()).size(), 3U);
  EXPECT_EQ(pids[0], pids[2]);
  EXPECT_EQ(pids[3], pids[5]);
}

TEST_F(EngineTest, WorkersAreReplacedWhenTheyHaveGrown) {
  // What a forked worker has of its parent does not count, whether it writes there or not.
  const std::vector<char> ballast(std::size_t{300} << 20, 'b');
  Engine& engine = start({.workers = 1, .most_memory = std::uint64_t{200} << 20});
  const Texts before = run(engine, {"pid", "pid"});
  EXPECT_EQ(before[0], before[1]);
  EXPECT_THAT(run(engine, {"grow 300", "sleep 30"}), ElementsAre("grown", "slept"));
  EXPECT_NE(run(engine, {"pid"}).front(), before[0]);
}

TEST_F(EngineTest, ASpareTakesTheDeadOnesPlace) {
  Engine& engine = start({.workers = 1, .spares = 1});
  const pid_t first = static_cast<pid_t>(std::stol(run(engine, {"pid"}).front()));
  std::vector<pid_t> pids = engine.pids();
  ASSERT_EQ(pids.size(), 2U);
  ASSERT_TRUE(eventually([&] { return factory_.started() == 2; }));
  const pid_t spare = pids[0] == first ? pids[1] : pids[0];
  ASSERT_TRUE(eventually_asleep(spare));  // it has come to its gate
  EXPECT_THAT(run(engine, {"kill", "pid"}), ElementsAre("died: -9", std::to_string(spare)));
  EXPECT_TRUE(eventually([&] { return engine.pids().size() == 2; }));
}

TEST_F(EngineTest, ManyCanBeCancelled) {
  constexpr std::uint64_t kMany = 5000;
  Engine& engine = start({.workers = 1});
  const JobPtr job = Engine::make_job({.cancellable = true});
  ASSERT_OK(submit(engine, job, 0, "stop"));
  for (std::uint64_t i = 1; i <= kMany; ++i) ASSERT_OK(submit(engine, job, i, "tell"));
  const pid_t worker = engine.pids().front();
  ASSERT_TRUE(eventually([&] { return os::task_state(worker) == 'T'; }));
  for (std::uint64_t i = 2; i <= kMany; ++i) ASSERT_TRUE(engine.cancel(*job, i)) << i;
  ASSERT_EQ(::kill(worker, SIGCONT), 0);
  (void)rest_of(engine, *job, kMany + 1);
  EXPECT_EQ(run(engine, {"echo end"}).front(), "end");
  EXPECT_EQ(factory_.told(), 1U) << "what was cancelled has begun";
}

TEST_F(EngineTest, WhatHasNotBegunCanBeCancelled) {
  Engine& engine = start({.workers = 1});
  const JobPtr job = Engine::make_job({.cancellable = true});
  ASSERT_OK(submit(engine, job, 0, "stop"));
  for (std::uint64_t i = 1; i < 5; ++i) ASSERT_OK(submit(engine, job, i, "tell"));
  const pid_t worker = engine.pids().front();
  ASSERT_TRUE(eventually([&] { return os::task_state(worker) == 'T'; }));
  EXPECT_FALSE(engine.cancel(*job, 0));
  EXPECT_TRUE(engine.cancel(*job, 2));
  EXPECT_TRUE(engine.cancel(*job, 4));
  EXPECT_FALSE(engine.cancel(*job, 4));
  ASSERT_EQ(::kill(worker, SIGCONT), 0);
  EXPECT_THAT(rest_of(engine, *job, 5), ElementsAre("again", "", "cancelled", "", "cancelled"));
  EXPECT_FALSE(engine.cancel(*job, 1));
  EXPECT_EQ(run(engine, {"echo end"}).front(), "end");
  EXPECT_EQ(factory_.told(), 2U);
}

TEST_F(EngineTest, CancelRacesWithTheBegin) {
  Engine& engine = start();
  constexpr std::uint64_t kTasks = 3000;
  const JobPtr job = Engine::make_job({.cancellable = true});
  std::uint64_t cancelled = 0;
  for (std::uint64_t i = 0; i < kTasks; ++i) {
    ASSERT_OK(submit(engine, job, i, "tell"));
    cancelled += engine.cancel(*job, i) ? 1 : 0;
  }
  const Texts texts = rest_of(engine, *job, kTasks);
  const auto ended_so = static_cast<std::uint64_t>(std::count(texts.begin(), texts.end(), "cancelled"));
  EXPECT_GE(ended_so, cancelled);
  (void)run(engine, {"echo end", "echo end"});
  EXPECT_EQ(factory_.told() + ended_so, kTasks);
}

TEST_F(EngineTest, JobsCallBackWhenTheyEnd) {
  Engine& engine = start();
  std::atomic<int> ends{0};
  for (int round = 1; round <= 3; ++round) {
    const JobPtr job = Engine::make_job({.on_end = [&] { ++ends; }});
    for (std::uint64_t i = 0; i < 10; ++i) ASSERT_OK(submit(engine, job, i, "echo x"));
    engine.seal(job);
    EXPECT_TRUE(eventually([&] { return ends == round; }));
    EXPECT_THAT(rest_of(engine, *job, 10), Each("x"));
  }
  const JobPtr nothing = Engine::make_job({.on_end = [&] { ++ends; }});
  engine.seal(nothing);
  EXPECT_EQ(ends, 4);
}

TEST_F(EngineTest, AJobCanBeWatchedAsItGrows) {
  Engine& engine = start();
  std::atomic<bool> over{false};
  const JobPtr job = Engine::make_job({.bulk = true, .on_end = [&] { over = true; }});
  EXPECT_EQ(engine.ended(*job), 0U);
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_OK(submit(engine, job, i, i == 3 ? "kill" : "echo x"));
  ASSERT_OK(submit(engine, job, 10, "sleep 60000"));
  EXPECT_TRUE(eventually([&] { return engine.ended(*job) == 10; }));
  EXPECT_FALSE(over);
  std::vector<Answer> answers;
  ASSERT_OK(engine.collect(*job, answers, 4, os::Deadline::never()));
  EXPECT_EQ(engine.ended(*job), 10U);  // collected or not
  engine.seal(job);
  engine.terminate();
  EXPECT_EQ(engine.ended(*job), 11U);
  EXPECT_EQ(submit(engine, job, 11, "echo x").code(), Code::kClosed);
  EXPECT_EQ(engine.ended(*job), 11U);  // what was never accepted does not count
}

TEST_F(EngineTest, ThreadsCollectForEachOther) {
  Engine& engine = start();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const std::string text = std::to_string(t) + "." + std::to_string(i);
        if (run(engine, {"echo " + text}).front() != text) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(EngineTest, AWaitHasAnEnd) {
  Engine& engine = start();
  const JobPtr job = Engine::make_job();
  ASSERT_OK(submit(engine, job, 0, "sleep 300"));
  std::vector<Answer> answers;
  EXPECT_EQ(engine.collect(*job, answers, 1, os::Deadline::after_ns(0)).code(), Code::kTimeout);
  EXPECT_EQ(engine.wait(*job, os::Deadline::after_seconds(0.01)).code(), Code::kTimeout);
  EXPECT_OK(engine.wait(*job, os::Deadline::after_seconds(20)));
  EXPECT_EQ(rest_of(engine, *job, 1).front(), "slept");
  EXPECT_OK(engine.collect(*job, answers, 1, os::Deadline::never()));  // nothing is left: no wait
  EXPECT_TRUE(answers.empty());
}

TEST_F(EngineTest, AClosedPoolEndsWhatItHas) {
  Engine& engine = start();
  EXPECT_EQ(engine.join(os::Deadline::never()).code(), Code::kInvalid);
  const JobPtr job = Engine::make_job();
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_OK(submit(engine, job, i, "sleep 50"));
  engine.close();
  EXPECT_EQ(submit(engine, job, 9, "echo late").code(), Code::kClosed);
  EXPECT_OK(engine.join(os::Deadline::after_seconds(20)));
  EXPECT_THAT(rest_of(engine, *job, 4), Each("slept"));
}

TEST_F(EngineTest, AClosedPoolRetriesToo) {
  Engine& engine = start();
  const JobPtr job = Engine::make_job();
  ASSERT_OK(submit(engine, job, 0, "once", {.retries = 1}));
  engine.close();
  EXPECT_OK(engine.join(os::Deadline::after_seconds(20)));
  EXPECT_THAT(rest_of(engine, *job, 1), ElementsAre("again"));
}

TEST_F(EngineTest, TerminateEndsEverything) {
  Engine& engine = start({.workers = 2, .spares = 1});
  const JobPtr job = Engine::make_job();
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_OK(submit(engine, job, i, "sleep 60000"));
  engine.terminate();
  EXPECT_THAT(rest_of(engine, *job, 5), Each("stopped"));
  EXPECT_OK(engine.join(os::Deadline::after_seconds(20)));
  EXPECT_EQ(submit(engine, job, 9, "echo late").code(), Code::kClosed);
  EXPECT_TRUE(engine.pids().empty());
}

TEST_F(EngineTest, TheDestructorDoesNotWaitForTasks) {
  Engine& engine = start();
  const JobPtr job = Engine::make_job();
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_OK(submit(engine, job, i, "sleep 60000"));
  const std::int64_t begin = os::now_ns();
  engine_.reset();
  EXPECT_LT(os::now_ns() - begin, 10'000'000'000);
}

class StubbornCrewTest : public NodeFixture {
 protected:
  void end(std::unique_ptr<Engine>& engine) {
    engine.reset();
    domain().reap();
  }
};

TEST_F(StubbornCrewTest, WhoIgnoresSigtermIsKilled) {
  WorkerFactory factory([](workers::Worker&) {
    ::signal(SIGTERM, SIG_IGN);
    return true;
  });
  auto engine = must(Engine::create(node(), {.workers = 2}, factory.factory()));
  EXPECT_THAT(run(*engine, {"echo a"}), ElementsAre("a"));
  engine->terminate();
  EXPECT_OK(engine->join(os::Deadline::after_seconds(20)));
  end(engine);
}

// A pool whose workers cannot be made ready ends its tasks, and says what the workers said.
TEST_F(StubbornCrewTest, WorkersThatCannotBeMadeReadyBreakThePool) {
  WorkerFactory factory([](workers::Worker& worker) {
    const std::string why = "no such model";
    (void)worker.fail(std::as_bytes(std::span(why)), 0);
    return false;
  });
  auto engine = must(Engine::create(node(), {.workers = 2}, factory.factory()));
  const JobPtr job = Engine::make_job();
  Status sent = submit(*engine, job, 0, "echo a");
  if (sent) {
    EXPECT_THAT(rest_of(*engine, *job, 1), ElementsAre("stopped"));
  }
  channel::Incoming words;
  const Status health = engine->health(&words);
  EXPECT_EQ(health.code(), Code::kPeerDied);
  EXPECT_THAT(health.to_string(), HasSubstr("exit code 1"));
  EXPECT_EQ(text_of(words), "no such model");
  EXPECT_EQ(submit(*engine, job, 1, "echo b").code(), Code::kPeerDied);
  EXPECT_LT(factory.started(), 30U);
  end(engine);
}

TEST_F(EngineTest, APoolAtRestUsesNoProcessor) {
  Engine& engine = start({.workers = 2, .spares = 1});
  (void)run(engine, {"echo a"});
  rusage before{};
  rusage after{};
  ::getrusage(RUSAGE_SELF, &before);
  ::usleep(500'000);
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LE(after.ru_nvcsw - before.ru_nvcsw, 8);  // this thread's own sleep, and nothing that polls
}

}  // namespace
}  // namespace forklift::test
