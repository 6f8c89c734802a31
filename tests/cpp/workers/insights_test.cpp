// What a pool's workers did, to the task and to the nanosecond, whoever was killed.
#include "workers/insights.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <numeric>
#include <thread>

#include "os/clock.h"
#include "support/node_fixture.h"
#include "support/numbered_message.h"
#include "support/worker_factory.h"
#include "workers/engine.h"

namespace forklift::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using workers::EngineOptions;
using workers::Figures;
using workers::Insights;
using workers::InsightsRow;
using workers::Phase;
using workers::PoolInsights;
using workers::SlowTask;

constexpr std::uint64_t kMs = 1'000'000;

std::uint64_t spent(const Figures& figures, Phase phase) {
  return figures.ns[static_cast<std::size_t>(phase)];
}

std::uint64_t all_spent(const Figures& figures) {
  return std::accumulate(figures.ns.begin(), figures.ns.end(), std::uint64_t{0});
}

std::vector<SlowTask> slow_tasks_of(const InsightsRow& row) {
  std::vector<SlowTask> found;
  workers::append_slow_tasks(row, found);
  return found;
}

TEST(InsightsRowTest, EveryNanosecondBelongsToOnePhase) {
  auto row = std::make_unique<InsightsRow>();
  const auto begin = static_cast<std::uint64_t>(os::now_ns());
  Insights insights(*row);
  insights.begin_worker(begin);
  insights.enter(Phase::kInitializing);
  insights.enter(Phase::kWaiting);
  for (int i = 0; i < 100; ++i) {
    insights.enter(Phase::kWorking);
    (void)insights.worked(3, i % 2 == 0);
    insights.enter(Phase::kWaiting);
  }
  insights.end_worker("", 0);
  const auto end = static_cast<std::uint64_t>(os::now_ns());
  const Figures figures = workers::figures_of(*row);
  EXPECT_EQ(figures.phase, Phase::kNone);
  EXPECT_EQ(all_spent(figures), figures.since - begin);
  EXPECT_LE(figures.since, end);
  EXPECT_EQ(figures.workers, 1U);
  EXPECT_EQ(figures.tasks, 100U);
  EXPECT_EQ(figures.items, 300U);
  EXPECT_EQ(figures.listed_tasks, 50U);
  EXPECT_EQ(figures.listed_items, 150U);
  EXPECT_LE(figures.listed_ns, spent(figures, Phase::kWorking));
}

TEST(InsightsRowTest, ASuccessorGoesOnWithTheFigures) {
  auto row = std::make_unique<InsightsRow>();
  for (int worker = 0; worker < 3; ++worker) {
    Insights(*row).begin_worker(static_cast<std::uint64_t>(os::now_ns()));
    Insights insights(*row);
    insights.enter(Phase::kWorking);
    (void)insights.worked(1, false);
    insights.end_worker("", 0);
  }
  const Figures figures = workers::figures_of(*row);
  EXPECT_EQ(figures.workers, 3U);
  EXPECT_EQ(figures.tasks, 3U);
}

// A reader while the writer commits as fast as it can: whole figures only.
TEST(InsightsRowTest, ReadersSeeWholeFigures) {
  auto row = std::make_unique<InsightsRow>();
  Insights insights(*row);
  const auto begin = static_cast<std::uint64_t>(os::now_ns());
  insights.begin_worker(begin);
  std::atomic<bool> over{false};
  std::thread writer([&] {
    while (!over) {
      insights.enter(Phase::kWorking);
      (void)insights.worked(7, true);
    }
  });
  while (workers::figures_of(*row).tasks == 0) std::this_thread::yield();
  std::uint64_t before = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Figures figures = workers::figures_of(*row);
    EXPECT_EQ(figures.items, figures.tasks * 7);
    EXPECT_EQ(figures.listed_tasks, figures.tasks);
    EXPECT_GE(figures.tasks, before);
    before = figures.tasks;
  }
  over = true;
  writer.join();
}

TEST(InsightsRowTest, TheSlowestTasksStay) {
  auto row = std::make_unique<InsightsRow>();
  Insights insights(*row);
  const auto work = [&](std::uint64_t ns, const std::string& text) {
    insights.enter(Phase::kWorking);
    const std::int64_t until = os::now_ns() + static_cast<std::int64_t>(ns);
    while (os::now_ns() < until) {
    }
    if (insights.worked(1, false)) insights.describe(text, 7);
  };
  for (int i = 0; i < 20; ++i) work(1000, "quick");
  for (int i = 0; i < 5; ++i) work((static_cast<std::uint64_t>(i) + 2) * kMs, "slow " + std::to_string(i));
  for (int i = 0; i < 20; ++i) work(1000, "quick");
  std::vector<SlowTask> found = slow_tasks_of(*row);
  ASSERT_EQ(found.size(), workers::kSlowTasks);
  for (const SlowTask& each : found) {
    EXPECT_THAT(each.text, HasSubstr("slow "));
    EXPECT_EQ(each.pid, 7U);
    EXPECT_GE(each.ns, (std::stoull(each.text.substr(5)) + 2) * kMs);
  }
}

TEST(InsightsRowTest, ALongTextEndsWithAWholeCharacter) {
  auto row = std::make_unique<InsightsRow>();
  Insights insights(*row);
  insights.enter(Phase::kWorking);
  (void)insights.worked(1, false);
  std::string text(workers::kSlowTextBytes - 1, 'x');
  const std::string whole = text;
  text += "\u00e9";
  insights.describe(text, 1);
  EXPECT_EQ(slow_tasks_of(*row).at(0).text, whole);
}

// The process that wrote an entry died at it.
TEST(InsightsRowTest, AnEntryThatWasNotFinishedIsNone) {
  auto row = std::make_unique<InsightsRow>();
  row->slow[0].version = 5;
  row->slow[0].ns = 1'000'000'000;
  EXPECT_TRUE(slow_tasks_of(*row).empty());
  const Insights successor(*row);
  EXPECT_TRUE(slow_tasks_of(*row).empty());
  EXPECT_EQ(row->slow[0].version % 2, 0U);
}

class PoolInsightsTest : public NodeFixture {
 protected:
  void TearDown() override {
    engine_.reset();
    domain().reap();
    NodeFixture::TearDown();
  }
  Engine& start(EngineOptions options) {
    options.insights = true;
    engine_ = must(Engine::create(node(), options, factory_.factory()));
    return *engine_;
  }
  static Figures sum_of(const PoolInsights& insights) {
    Figures sum;
    for (const Figures& each : insights.workers) {
      for (std::size_t phase = 0; phase < workers::kPhases; ++phase) sum.ns[phase] += each.ns[phase];
      sum.workers += each.workers;
      sum.tasks += each.tasks;
    }
    return sum;
  }

  WorkerFactory factory_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(PoolInsightsTest, APoolWithoutThemSaysSo) {
  engine_ = must(Engine::create(node(), {.workers = 1}, factory_.factory()));
  EXPECT_EQ(engine_->insights().code(), Code::kInvalid);
}

TEST_F(PoolInsightsTest, TasksAreCountedBeforeTheirAnswersCome) {
  Engine& engine = start({.workers = 3});
  for (std::uint64_t tasks = 1; tasks <= 200; ++tasks) {
    (void)run(engine, {"echo a"});
    ASSERT_EQ(sum_of(must(engine.insights())).tasks, tasks);
  }
}

TEST_F(PoolInsightsTest, WorkAndWaitsAreMeasured) {
  Engine& engine = start({.workers = 2});
  (void)run(engine, {"sleep 30", "sleep 50"});
  const PoolInsights insights = must(engine.insights());
  ASSERT_EQ(insights.workers.size(), 2U);
  const Figures sum = sum_of(insights);
  EXPECT_EQ(sum.tasks, 2U);
  EXPECT_EQ(sum.workers, 2U);
  EXPECT_GE(spent(sum, Phase::kWorking), 80 * kMs);
  for (const Figures& each : insights.workers) {
    EXPECT_GT(spent(each, Phase::kStarting), 0U);
    EXPECT_LE(all_spent(each), insights.elapsed_ns + 1000 * kMs);
  }
}

TEST_F(PoolInsightsTest, TheFiguresOfAKilledWorkerStay) {
  Engine& engine = start({.workers = 1});
  EXPECT_THAT(run(engine, {"echo a", "sleep 20", "kill", "echo b"}),
              ElementsAre("a", "slept", "died: -9", "b"));
  const Figures sum = sum_of(must(engine.insights()));
  EXPECT_EQ(sum.tasks, 3U);  // the killed one did not end
  EXPECT_EQ(sum.workers, 2U);
  EXPECT_GE(spent(sum, Phase::kWorking), 20 * kMs);
}

TEST_F(PoolInsightsTest, ATaskThatIsKilledForItsTimeIsAmongTheSlowest) {
  Engine& engine = start({.workers = 1});
  EXPECT_THAT(run(engine, {"sleep 20000"}, {.time_ns = 50'000'000}), ElementsAre("timed out"));
  const PoolInsights insights = must(engine.insights());
  ASSERT_EQ(insights.slowest.size(), 1U);
  EXPECT_THAT(insights.slowest[0].text, HasSubstr("ended"));
  EXPECT_GE(insights.slowest[0].ns, 50 * kMs);
  EXPECT_GE(spent(sum_of(insights), Phase::kWorking), 50 * kMs);
}

TEST_F(PoolInsightsTest, WorkersThatAreReplacedAddUp) {
  Engine& engine = start({.workers = 2, .most_tasks = 3});
  (void)run(engine, std::vector<std::string>(30, "echo a"));
  engine.close();
  ASSERT_OK(engine.join(os::Deadline::after_seconds(20)));
  const PoolInsights insights = must(engine.insights());
  EXPECT_EQ(insights.workers.size(), 2U);
  const Figures sum = sum_of(insights);
  EXPECT_EQ(sum.tasks, 30U);
  EXPECT_EQ(sum.workers, factory_.started());
  for (const Figures& each : insights.workers) EXPECT_EQ(each.phase, Phase::kNone);
}

// A spare waits for its turn, not for tasks.
TEST_F(PoolInsightsTest, ASpareDoesNotCountAsWaiting) {
  Engine& engine = start({.workers = 1, .spares = 1});
  const auto ready = [&] {
    const PoolInsights now = must(engine.insights());
    return now.workers[0].phase == Phase::kWaiting && now.workers[1].phase == Phase::kNone &&
           now.workers[1].workers == 1;
  };
  ASSERT_TRUE(eventually(ready));
  EXPECT_EQ(spent(must(engine.insights()).workers[1], Phase::kWaiting), 0U);
}

}  // namespace
}  // namespace forklift::test
