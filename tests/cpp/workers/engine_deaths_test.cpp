// Workers that start on demand, and deaths that break a pool instead of being made good.
#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>

#include "support/node_fixture.h"
#include "support/numbered_message.h"
#include "support/worker_factory.h"
#include "workers/engine.h"

namespace forklift::test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using workers::EngineOptions;
using workers::JobPtr;

class EngineDeathsTest : public NodeFixture {
 protected:
  void TearDown() override {
    engine_.reset();
    domain().reap();
    NodeFixture::TearDown();
  }

  Engine& start(const EngineOptions& options) {
    engine_ = must(Engine::create(node(), options, factory_.factory()));
    return *engine_;
  }
  void close_and_join() {
    engine_->close();
    EXPECT_OK(engine_->join(os::Deadline::after_seconds(20)));
  }

  WorkerFactory factory_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineDeathsTest, WorkersStartWhenTasksFindTheOthersBusy) {
  Engine& engine = start({.workers = 3, .first = 1});
  EXPECT_EQ(engine.pids().size(), 1U);
  EXPECT_THAT(run(engine, {"echo a"}), ElementsAre("a"));
  EXPECT_THAT(run(engine, {"echo b"}), ElementsAre("b"));
  ASSERT_OK(engine.wait_started(os::Deadline::after_seconds(20)));
  EXPECT_EQ(engine.pids().size(), 1U);
  const JobPtr job = Engine::make_job();
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_OK(submit(engine, job, i, "sleep 1"));
  ASSERT_OK(engine.wait_started(os::Deadline::after_seconds(20)));
  EXPECT_EQ(engine.pids().size(), 3U);
  EXPECT_EQ(rest_of(engine, *job, 5).size(), 5U);
  close_and_join();
  EXPECT_EQ(factory_.started(), 3U);
}

TEST_F(EngineDeathsTest, AWorkerCanBeAskedFor) {
  Engine& engine = start({.workers = 2, .first = 1});
  for (int i = 0; i < 3; ++i) engine.want_worker();
  ASSERT_OK(engine.wait_started(os::Deadline::after_seconds(20)));
  EXPECT_EQ(engine.pids().size(), 2U);
}

TEST_F(EngineDeathsTest, ADeathBreaksAPoolThatReplacesNobody) {
  Engine& engine = start({.workers = 2, .replace = workers::Replace::kNone});
  EXPECT_THAT(run(engine, {"sleep 20000", "kill", "echo a"}), Each("stopped"));
  const Status health = engine.health();
  EXPECT_EQ(health.code(), Code::kPeerDied);
  EXPECT_THAT(health.to_string(), HasSubstr("signal 9"));
  EXPECT_EQ(submit(engine, Engine::make_job(), 0, "echo b").code(), Code::kPeerDied);
  EXPECT_OK(engine.join(os::Deadline::after_seconds(20)));
  EXPECT_EQ(factory_.started(), 2U);
}

TEST_F(EngineDeathsTest, TheDeathOfAnIdleWorkerBreaksSuchAPoolToo) {
  Engine& engine = start({.workers = 2, .replace = workers::Replace::kNone});
  EXPECT_THAT(run(engine, {"echo a"}), ElementsAre("a"));
  ::kill(engine.pids().front(), SIGKILL);
  EXPECT_TRUE(eventually([&] { return !engine.health().ok(); }));
}

TEST_F(EngineDeathsTest, WhoLeavesInGoodOrderBreaksNothing) {
  Engine& engine = start({.workers = 1, .most_tasks = 2, .replace = workers::Replace::kNone});
  EXPECT_THAT(run(engine, {"echo a", "echo b", "echo c", "echo d", "echo e"}),
              ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_OK(engine.health());
  close_and_join();
  EXPECT_OK(engine.health());
}

TEST_F(EngineDeathsTest, ATaskKnowsWhetherItHasBegun) {
  Engine& engine = start({.workers = 1});
  const JobPtr job = Engine::make_job({.cancellable = true});
  ASSERT_OK(submit(engine, job, 0, "sleep 200"));
  ASSERT_OK(submit(engine, job, 1, "echo a"));
  EXPECT_TRUE(eventually([&] { return engine.has_begun(*job, 0); }));
  EXPECT_FALSE(engine.has_begun(*job, 1));
  EXPECT_THAT(rest_of(engine, *job, 2), ElementsAre("slept", "a"));
  EXPECT_FALSE(engine.has_begun(*job, 0));
}

TEST_F(EngineDeathsTest, OneWorkerThatCannotBeMadeReadyIsEnough) {
  WorkerFactory factory([](workers::Worker& worker) {
    const std::string why = "no such model";
    (void)worker.fail(std::as_bytes(std::span(why)), 0);
    return false;
  });
  engine_ = must(
      Engine::create(node(), {.workers = 1, .replace = workers::Replace::kUnlessBad}, factory.factory()));
  const JobPtr job = Engine::make_job();
  if (submit(*engine_, job, 0, "echo a")) {
    EXPECT_THAT(rest_of(*engine_, *job, 1), ElementsAre("stopped"));
  }
  channel::Incoming words;
  EXPECT_EQ(engine_->health(&words).code(), Code::kPeerDied);
  EXPECT_EQ(text_of(words), "no such model");
  EXPECT_EQ(factory.started(), 1U);
  engine_.reset();
}

}  // namespace
}  // namespace forklift::test
