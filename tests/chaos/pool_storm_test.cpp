// The storm over a pool: its workers are killed at random while tasks of every kind go through it. Each task
// has to end exactly once; what ran is written down outside of shared memory by the workers themselves.
//
// FORKLIFT_STORM_SECONDS (20, for all storms here together) and FORKLIFT_STORM_SEED choose length and dice.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "onlooker.h"
#include "storm.h"
#include "support/node_fixture.h"
#include "support/numbered_message.h"
#include "support/watchdog.h"
#include "support/worker_factory.h"
#include "workers/engine.h"

namespace forklift::test {
namespace {

using workers::Answer;
using workers::JobPtr;
using workers::TaskOptions;
using workers::Worker;

// Which tasks began to run, each time: a file to which every worker appends.
class RunLog {
 public:
  RunLog() : file_(::memfd_create("pool_storm_runs", MFD_CLOEXEC)) {
    ::fcntl(file_.get(), F_SETFL, O_APPEND);
  }
  void write(std::uint64_t task) const { (void)!::write(file_.get(), &task, sizeof task); }
  std::map<std::uint64_t, unsigned> runs() const {
    std::map<std::uint64_t, unsigned> all;
    std::array<std::uint64_t, 1024> some{};
    off_t at = 0;
    for (;;) {
      const ssize_t got = ::pread(file_.get(), some.data(), sizeof some, at);
      if (got <= 0) return all;
      for (std::size_t i = 0; i < static_cast<std::size_t>(got) / sizeof(std::uint64_t); ++i) ++all[some[i]];
      at += got;
    }
  }

 private:
  os::Fd file_;
};

struct Weather {
  const char* name;
  workers::EngineOptions engine;
  TaskOptions task;
  bool leases = false;    // tasks carry private memory, and answers
  bool cancels = false;   // some are taken back
  bool sleepers = false;  // some take longer than their deadline
};

class PoolStorm : public NodeFixture {
 protected:
  void work(const workers::WorkerSlot& worker_slot) {
    Worker worker = must(Worker::open(worker_slot));
    Incoming task;
    Status status = worker.ready();
    while (status && (status = worker.next(task))) {
      std::uint64_t number = 0;
      std::memcpy(&number, task.bytes().data(), sizeof number);
      log_.write(number);
      if (weather_->sleepers && number % 97 == 0) ::usleep(200'000);
      if (number % 5 == 0) ::usleep(static_cast<useconds_t>(number % 300));
      std::uint64_t answer = number * 3;
      std::vector<LeasePtr> leases;
      for (const LeasePtr& lease : task.leases()) {
        if (!is_pattern(lease->data(), lease->size(), number)) answer = 0;
        std::memset(lease->data(), 0, lease->size());  // a retry has to see it whole all the same
        leases.push_back(must(node().arena().allocate(arena::Kind::kPrivate, 3000)));
      }
      task.clear();
      const Status sent =
          worker.answer(Ending::kValue, {.bytes = std::as_bytes(std::span(&answer, 1)), .leases = leases});
      if (sent.code() != Code::kClosed) must(sent);
    }
    if (status.code() != Code::kClosed) must(status);
    ::_exit(0);
  }

  workers::WorkerFactory factory() {
    return [this](const workers::WorkerSlot& worker_slot) -> Result<std::unique_ptr<workers::WorkerHandle>> {
      const pid_t pid = ::fork();
      if (pid < 0) return Status::system("fork", errno);
      if (pid == 0) work(worker_slot);
      Result<process::Child> child = process::Child::watch(pid);
      if (!child) return child.status();
      return std::unique_ptr<workers::WorkerHandle>(new ForkedWorker(*std::move(child)));
    };
  }

  // Kills workers of the pool until it is told to stop.
  void kill_some(Engine& engine, const std::atomic<bool>& stop, std::uint64_t seed) {
    std::mt19937_64 dice(seed);
    while (!stop) {
      ::usleep(static_cast<useconds_t>(500 + dice() % 15'000));
      const std::vector<pid_t> pids = engine.pids();
      if (pids.empty()) continue;
      // May be another process's by now only if the pool had waited for it since: a test's children alone.
      if (::kill(pids[dice() % pids.size()], SIGKILL) == 0) ++kills_;
    }
  }

  void submit_some(Engine& engine, const JobPtr& job, std::mt19937_64& dice) {
    for (std::uint64_t left = 1 + dice() % 200; left > 0; --left) {
      const std::uint64_t number = submitted_ + 1;
      std::vector<LeasePtr> leases;
      if (weather_->leases && dice() % 4 == 0) {
        leases.push_back(must(node().arena().allocate(arena::Kind::kPrivate, 20'000)));
        fill_pattern(leases[0]->data(), leases[0]->size(), number);
      }
      ASSERT_OK(engine.submit(job, number, {.bytes = std::as_bytes(std::span(&number, 1)), .leases = leases},
                              weather_->task, left > 1));
      ++submitted_;
    }
    if (weather_->cancels) {
      for (int i = 0; i < 5; ++i) (void)engine.cancel(*job, submitted_ - dice() % 50);
    }
  }

  void enter(std::vector<Answer>& answers) {
    for (Answer& answer : answers) {
      ASSERT_GE(answer.index, 1U);
      ASSERT_LE(answer.index, submitted_);
      ASSERT_TRUE(ends_.emplace(answer.index, answer.ending).second)
          << "task " << answer.index << " has ended twice";
      ++counts_[answer.ending];
      if (answer.ending != Ending::kValue) continue;
      std::uint64_t value = 0;
      ASSERT_EQ(answer.payload.bytes().size(), sizeof value);
      std::memcpy(&value, answer.payload.bytes().data(), sizeof value);
      ASSERT_EQ(value, answer.index * 3);
    }
  }

  void rage(const Weather& weather) {
    weather_ = &weather;
    const long seconds = storm_seconds();
    const std::uint64_t seed = storm_seed(4711);
    set_test_timeout(std::chrono::seconds(seconds * 2 + 60) * kSlower);
    std::unique_ptr<Engine> engine = must(Engine::create(node(), weather.engine, factory()));
    std::atomic<bool> stop{false};
    onlooker_.begin();
    std::thread killer([&] { kill_some(*engine, stop, seed); });
    std::mt19937_64 dice(seed);
    const JobPtr job = Engine::make_job({.cancellable = true});
    std::vector<Answer> answers;
    const std::int64_t end = os::now_ns() + seconds * kSecond / 4;
    while (os::now_ns() < end && !HasFatalFailure()) {
      submit_some(*engine, job, dice);
      while (!HasFatalFailure() && engine->outstanding() > dice() % 300) {
        ASSERT_OK(engine->collect(*job, answers, 64, os::Deadline::after_ns(10 * kSecond * kSlower)))
            << "no task has ended for long";
        enter(answers);
      }
    }
    stop = true;
    killer.join();
    do {
      ASSERT_OK(engine->collect(*job, answers, 64, os::Deadline::after_ns(10 * kSecond * kSlower)));
      enter(answers);
    } while (!answers.empty());
    onlooker_.end();
    engine->close();
    EXPECT_OK(engine->join(os::Deadline::after_ns(20 * kSecond * kSlower)));
    engine.reset();
    domain().reap();
    draw_up();
  }

  void draw_up() {
    EXPECT_EQ(ends_.size(), submitted_);
    const std::map<std::uint64_t, unsigned> runs = log_.runs();
    for (const auto& [task, ending] : ends_) {
      const auto at = runs.find(task);
      const unsigned ran = at != runs.end() ? at->second : 0;
      EXPECT_GE(ran, ending == Ending::kValue ? 1U : 0U) << "task " << task;
      EXPECT_LE(ran, ending == Ending::kCancelled ? 0U : 1 + weather_->task.retries) << "task " << task;
    }
    EXPECT_LE(counts_[Ending::kDied], kills_);
    EXPECT_EQ(counts_[Ending::kStopped] + counts_[Ending::kError] + counts_[Ending::kUnreadable], 0U);
    std::printf("  %s: %llu tasks, %llu kills; %llu values, %llu died, %llu over time, %llu cancelled\n",
                weather_->name, static_cast<unsigned long long>(submitted_),
                static_cast<unsigned long long>(kills_),
                static_cast<unsigned long long>(counts_[Ending::kValue]),
                static_cast<unsigned long long>(counts_[Ending::kDied]),
                static_cast<unsigned long long>(counts_[Ending::kTimedOut]),
                static_cast<unsigned long long>(counts_[Ending::kCancelled]));
  }

  std::uint64_t count(Ending ending) { return counts_[ending]; }
  std::uint64_t kills() const { return kills_; }

 private:
  Onlooker onlooker_;
  const Weather* weather_ = nullptr;
  RunLog log_;
  std::atomic<std::uint64_t> kills_{0};
  std::uint64_t submitted_ = 0;
  std::map<std::uint64_t, Ending> ends_;
  std::map<Ending, std::uint64_t> counts_;
};

TEST_F(PoolStorm, WithoutRetries) {
  rage({.name = "without retries", .engine = {.workers = 3}, .task = {}, .cancels = true});
  EXPECT_GT(count(Ending::kDied), 0U);
  EXPECT_GT(count(Ending::kCancelled), 0U);
}

// Nothing is lost at all.
TEST_F(PoolStorm, WithRetries) {
  rage({.name = "with retries",
        .engine = {.workers = 3, .spares = 1},
        .task = {.retries = 1000},
        .leases = true});
  EXPECT_EQ(count(Ending::kDied), 0U);
  EXPECT_GT(kills(), 0U);
}

TEST_F(PoolStorm, WithDeadlinesAndRecycling) {
  rage({.name = "with deadlines and recycling",
        .engine = {.workers = 3, .spares = 1, .most_tasks = 500},
        .task = {.time_ns = 50'000'000},
        .cancels = true,
        .sleepers = true});
  EXPECT_GT(count(Ending::kTimedOut), 0U);
}

}  // namespace
}  // namespace forklift::test
