// A party of a barrier is killed after every instruction of what it does.
#include <cstdlib>

#include "locks/barrier.h"
#include "step/lock_operation.h"

namespace forklift::test {
namespace {

using locks::Arrival;
using os::Deadline;

// One of two parties; the survivor is the other one, inside already or not.
class Party : public LockOperation {
 public:
  explicit Party(bool last) : last_(last) {}
  void prepare() override {
    barrier_ = must(locks::Barrier::create(table(), 2));
    inside_ = last_;
    if (inside_) arrival_ = must(barrier_->arrive(nullptr));
  }
  void act() override {
    const Arrival here = must(barrier_->arrive(nullptr));
    if (here.last != last_) std::abort();
    const bool passed =
        must(last_ ? barrier_->open_up(here) : barrier_->wait(here, Deadline::after_ns(0), nullptr));
    if (passed != last_) std::abort();
    must(barrier_->leave(here));
  }

 protected:
  void survive(const Death& death, Findings& found) override {
    if (inside_) {
      const bool passed = must(barrier_->wait(arrival_, Deadline::after_seconds(0.005), nullptr));
      if (death.returned && !passed) found.add("the barrier had opened, and one is not through");
      saw(passed);
      must(barrier_->leave(arrival_));
    } else {
      world_.node().domain().reap();
      if (death.returned && !barrier_->broken()) found.add("a time-out did not break the barrier");
      saw(barrier_->broken());
    }
    world_.node().domain().reap();
    must(barrier_->reset());
    if (barrier_->broken() || barrier_->waiting() != 0) found.add("reset did not reset");
    const Arrival again = must(barrier_->arrive(nullptr));
    if (again.broken || again.last || again.index != 0) found.add("somebody is inside the new round");
    must(barrier_->abort());
    must(barrier_->leave(again));
  }
  void drop() override { barrier_.reset(); }

 private:
  const bool last_;
  bool inside_ = false;
  Arrival arrival_;
  locks::BarrierPtr barrier_;
};

TEST(LockStep, BarrierFirst) { kill_lock("barrier, the first party", Party(false)); }
TEST(LockStep, BarrierLast) { kill_lock("barrier, the last party", Party(true)); }

// A party ends a round, and is killed on its way out of it or behind it; the other one comes to the next
// round.
class BetweenRounds : public LockOperation {
 public:
  explicit BetweenRounds(bool gives_up) : gives_up_(gives_up) {}
  void prepare() override {
    barrier_ = must(locks::Barrier::create(table(), 2));
    arrival_ = must(barrier_->arrive(nullptr));
  }
  void act() override {
    const Arrival here = must(barrier_->arrive(nullptr));
    if (!here.last || !must(barrier_->open_up(here))) std::abort();
    must(barrier_->leave(here));
    if (gives_up_) barrier_.reset();
  }

 protected:
  void survive(const Death& death, Findings& found) override {
    const bool passed = must(barrier_->wait(arrival_, Deadline::after_seconds(0.005), nullptr));
    if (death.returned && !passed) found.add("the barrier had opened, and one is not through");
    saw(passed);
    must(barrier_->leave(arrival_));
    // Who gave the barrier up in time is no party, and nothing but the time-out ends this wait.
    const double limit = gives_up_ ? 0.005 : 5;
    const Arrival next = must(barrier_->arrive(nullptr));
    if (!next.broken) {
      if (must(barrier_->wait(next, Deadline::after_seconds(limit), nullptr)))
        found.add("a round went by with one party");
      must(barrier_->leave(next));
    }
    if (!barrier_->broken()) found.add("the barrier is not broken");
    world_.node().domain().reap();
    must(barrier_->reset());
    if (barrier_->broken() || barrier_->waiting() != 0) found.add("reset did not reset");
  }
  void drop() override { barrier_.reset(); }

 private:
  const bool gives_up_;
  Arrival arrival_;
  locks::BarrierPtr barrier_;
};

TEST(LockStep, BarrierBetweenRounds) { kill_lock("barrier, between rounds", BetweenRounds(false)); }
TEST(LockStep, BarrierGivenUp) { kill_lock("barrier, given up", BetweenRounds(true)); }

}  // namespace
}  // namespace forklift::test
