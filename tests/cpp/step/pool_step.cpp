// A pool's worker is killed after every instruction of taking a task, answering it, and taking the next: each
// task ends exactly once, and is run by nobody after it was counted as dead.
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <set>

#include "step/world.h"
#include "support/node_fixture.h"
#include "support/worker_factory.h"
#include "workers/engine.h"

namespace forklift::test {
namespace {

using workers::Worker;

constexpr std::uint64_t kTasks = 3;

// A worker for the engine whose life the test decides: it is dead when the descriptor is readable.
class ScriptedWorker : public workers::WorkerHandle {
 public:
  explicit ScriptedWorker(int died) : died_(died) {}
  pid_t pid() const override { return 1; }
  int sentinel() const override { return died_; }
  int wait() override {
    std::uint64_t count = 0;
    (void)!::read(died_, &count, sizeof count);
    return -SIGKILL;
  }
  void signal(int) override { die(died_); }
  static void die(int descriptor) {
    const std::uint64_t one = 1;
    (void)!::write(descriptor, &one, sizeof one);
  }

 private:
  int died_;
};

struct Variant {
  bool retried = false;    // the tasks may run again
  bool timed = false;      // they have a deadline, far away
  bool cancelled = false;  // the first one is taken back before
  Shape shape{.bytes = 24};
  bool insights = false;
};

class WorkStep : public Operation {
 public:
  explicit WorkStep(Variant variant)
      : variant_(std::move(variant)), died_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  void prepare() override {
    started_ = 0;
    engine_ = must(workers::Engine::create(
        world_.node(), {.workers = 1, .insights = variant_.insights},
        [this](const workers::WorkerSlot& worker_slot) {
          worker_slot_ = worker_slot;
          ++started_;
          return Result<std::unique_ptr<workers::WorkerHandle>>(
              std::unique_ptr<workers::WorkerHandle>(new ScriptedWorker(died_.get())));
        }));
    job_ = workers::Engine::make_job({.cancellable = true});
    for (std::uint64_t i = 0; i < kTasks; ++i) submit(i);
    if (variant_.cancelled && !engine_->cancel(*job_, 0)) std::abort();
  }

  void enter() override {
    worker_ = std::make_unique<Worker>(must(Worker::open(worker_slot_)));
    must(worker_->ready());
  }

  void act() override {
    must(worker_->next(*message_));
    message_->clear();
    if (worker_->worked()) worker_->describe(described_);
    must(worker_->answer(Ending::kValue, {.bytes = bytes_of(by_the_dead_)}));
    must(worker_->next(*message_));
  }

  void check(const Death& death, Findings& found) override {
    if (death.point % 2 == 1) world_.node().domain().reap();
    // A cancelled task is answered, too, by who takes its message.
    const bool answered = worker_slot_.answers->size() > (variant_.cancelled ? 1U : 0U);
    ScriptedWorker::die(died_.get());
    if (!eventually([&] { return started_ == 2; }))
      return found.add("nobody took the dead one's worker_slot");
    const std::set<std::uint64_t> survivors = let_survivor_work(found);
    account(answered, survivors, found);
    if (death.returned && !answered) found.add("the answer had been given, and is not there");
    if (variant_.insights) check_insights(answered, survivors.size(), found);
    engine_.reset();
    job_.reset();
    worker_slot_ = {};
    world_.expect_marked(found);
    world_.expect_goes_on(found);
  }

  std::set<std::string> seen;  // how the first task ended

 private:
  void submit(std::uint64_t index) {
    std::vector<LeasePtr> leases;
    for (const std::size_t size : variant_.shape.blocks)
      leases.push_back(must(world_.node().arena().allocate(variant_.shape.kind, size)));
    std::string text(variant_.shape.bytes, static_cast<char>('0' + index));
    must(engine_->submit(
        job_, index, {.bytes = bytes_of(text), .leases = leases},
        {.time_ns = variant_.timed ? 3'600'000'000'000 : 0, .retries = variant_.retried ? 1U : 0U}));
  }

  std::set<std::uint64_t> let_survivor_work(Findings& found) {
    std::set<std::uint64_t> did;
    Worker worker = must(Worker::open(worker_slot_));
    must(worker.ready());
    Status status;
    Incoming task;
    while ((status = worker.try_next(task))) {
      const auto index = static_cast<std::uint64_t>(static_cast<char>(task.bytes().front()) - '0');
      if (!did.insert(index).second) found.add("the survivor got a task twice");
      task.clear();
      must(worker.answer(Ending::kValue, {.bytes = bytes_of(by_survivor_)}));
    }
    if (status.code() != Code::kTimeout) found.add("the survivor cannot work: " + status.to_string());
    return did;
  }

  void account(bool answered, const std::set<std::uint64_t>& survivors, Findings& found) {
    const std::vector<std::string> ends = rest_of(*engine_, *job_, kTasks);
    const std::string died = "died: -9";
    std::uint64_t lost = 0;
    for (std::uint64_t i = 0; i < kTasks; ++i) {
      const std::string& end = ends[i];
      const bool survivor = survivors.count(i) != 0;
      lost += end == died ? 1 : 0;
      const bool cancelled = variant_.cancelled && i == 0;
      if (cancelled != (end == "cancelled") || (end == by_survivor_) != survivor ||
          (!survivor && end != by_the_dead_ && end != died && !cancelled))
        found.add("task " + std::to_string(i) + " ended so: " + end +
                  (survivor ? ", and the survivor ran it" : ""));
    }
    if (lost > (variant_.retried ? 0U : 1U)) found.add(std::to_string(lost) + " tasks were lost");
    const std::uint64_t first = variant_.cancelled ? 1 : 0;
    if (answered != (ends[first] == by_the_dead_))
      found.add(std::string(answered ? "the" : "no") +
                " answer had been given, and the task ended so: " + ends[first]);
    if (engine_->outstanding() != 0) found.add("tasks are left");
    seen.insert(ends[first]);
  }

  // Whole figures and whole texts; a task is counted before its answer is there.
  void check_insights(bool answered, std::size_t survivors, Findings& found) {
    const workers::PoolInsights insights = must(engine_->insights());
    const workers::Figures& figures = insights.workers.front();
    const std::uint64_t by_the_dead = figures.tasks - survivors;
    if (by_the_dead > 1 || (answered && by_the_dead == 0) || figures.items != figures.tasks)
      found.add("insights count " + std::to_string(figures.tasks) + " tasks, " +
                std::to_string(figures.items) + " items; the survivor had " + std::to_string(survivors));
    if (figures.workers != 2) found.add("insights count " + std::to_string(figures.workers) + " workers");
    for (const workers::SlowTask& each : insights.slowest) {
      if (each.text != described_ && each.text != "a task during which worker 1 ended")
        found.add("a slow task is described so: " + each.text);
    }
  }

  Variant variant_;
  World world_;
  os::Fd died_;
  std::unique_ptr<Incoming> message_ = used_before(world_.node());
  const std::string by_the_dead_ = "dead";
  const std::string by_survivor_ = "survivor";
  const std::string described_ = "render(scene='a text of some length')";
  std::atomic<int> started_{0};
  workers::WorkerSlot worker_slot_;
  std::unique_ptr<workers::Engine> engine_;
  workers::JobPtr job_;
  std::unique_ptr<Worker> worker_;
};

TEST(PoolStep, Work) {
  WorkStep operation({});
  EXPECT_TRUE(survives_every_kill("a pool's worker", operation));
  EXPECT_EQ(operation.seen, (std::set<std::string>{"dead", "died: -9", "survivor"}));
}

TEST(PoolStep, WithInsights) {
  WorkStep operation({.insights = true});
  EXPECT_TRUE(survives_every_kill("a pool's worker, with insights", operation, {.most_points = 3000}));
  EXPECT_EQ(operation.seen, (std::set<std::string>{"dead", "died: -9", "survivor"}));
}

TEST(PoolStep, RetriedWithPrivateLease) {
  WorkStep operation({.retried = true, .shape = {.bytes = 24, .blocks = {20'000}, .kind = Kind::kPrivate}});
  EXPECT_TRUE(survives_every_kill("a pool's worker, tasks retried", operation, {.most_points = 1000}));
  EXPECT_EQ(operation.seen, (std::set<std::string>{"dead", "survivor"}));
}

TEST(PoolStep, TimedAndCancelled) {
  WorkStep operation({.timed = true, .cancelled = true});
  EXPECT_TRUE(survives_every_kill("a pool's worker, a task cancelled", operation, {.most_points = 2000}));
  EXPECT_EQ(operation.seen, (std::set<std::string>{"dead", "died: -9", "survivor"}));
}

}  // namespace
}  // namespace forklift::test
