// What the step tests of users' locks have in common: a survivor that learns of the death by waiting or by
// reaping, and goes on in time.
#pragma once

#include "locks/table.h"
#include "os/clock.h"
#include "step/world.h"

namespace forklift::test {

// A survivor must not be held up by a death; takeovers wait for one slice at most.
inline constexpr std::int64_t kSurvivorNs = 900'000'000;

class LockOperation : public Operation {
 public:
  void check(const Death& death, Findings& found) override {
    const std::int64_t begin = os::now_ns();
    // Half of the survivors learn of the death by waiting, half by reaping.
    if (death.point % 2 == 1) world_.node().domain().reap();
    survive(death, found);
    if (os::now_ns() - begin > kSurvivorNs) found.add("the survivor was held up");
    drop();
    world_.expect_marked(found);
    world_.expect_goes_on(found);
  }
  bool seen_both() const { return seen_done_ && seen_undone_; }

 protected:
  virtual void survive(const Death& death, Findings& found) = 0;
  virtual void drop() = 0;
  locks::Table& table() { return world_.node().locks(); }
  void saw(bool done) { (done ? seen_done_ : seen_undone_) = true; }

  World world_;

 private:
  bool seen_done_ = false;
  bool seen_undone_ = false;
};

inline void kill_lock(const char* name, LockOperation&& operation, const StepOptions& options = {}) {
  EXPECT_TRUE(survives_every_kill(name, operation, options));
  EXPECT_TRUE(operation.seen_both()) << "it should have happened before some deaths and not before others";
}

}  // namespace forklift::test
