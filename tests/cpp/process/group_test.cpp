// Groups of processes: who has ended is told once, and stop() ends the rest in its order of signals.
#include "process/group.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <map>

#include "os/proc.h"
#include "support/asleep.h"
#include "support/child.h"
#include "support/numbered_message.h"
#include "support/status_check.h"

namespace forklift::test {
namespace {

using process::Group;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

constexpr std::int64_t kLongNs = 20'000'000'000;

enum class Manner {
  kWaits,    // until a signal ends it
  kIgnores,  // SIGTERM
  kLeaves,   // with 0 when it is told to
};

class ProcessGroupTest : public testing::Test {
 protected:
  void start(Manner manner) {
    children_.emplace_back([this, manner] {
      if (manner == Manner::kIgnores) ::signal(SIGTERM, SIG_IGN);
      ready_.open();
      if (manner == Manner::kLeaves) {
        EXPECT_TRUE(leave_.wait());
        return;
      }
      for (;;) ::pause();
    });
    ASSERT_TRUE(ready_.wait());
    pidfds_.push_back(must(os::open_pidfd(children_.back().pid())));
    group_.add(pidfds_.back().get());
  }

  std::vector<std::size_t> wait(os::Deadline deadline = os::Deadline::after_ns(kLongNs)) {
    std::vector<std::size_t> ended;
    EXPECT_OK(group_.wait(deadline, {}, nullptr, ended));
    return ended;
  }

  // Stops the group. Each member with the last signal that it got.
  std::map<std::size_t, int> stop(const Group::Ending& how, domain::WaitHooks* hooks = nullptr) {
    std::map<std::size_t, int> sent;
    status_ = group_.stop(how, hooks, [&](std::size_t member) { sent[member] = group_.signal_sent(member); });
    return sent;
  }

  Gate ready_;
  Gate leave_;
  std::vector<Child> children_;
  std::vector<os::Fd> pidfds_;
  Group group_;
  Status status_;
};

TEST_F(ProcessGroupTest, TellsEachEndOnce) {
  for (int i = 0; i < 3; ++i) start(Manner::kWaits);
  EXPECT_THAT(group_.running(), ElementsAre(0, 1, 2));
  children_[2].kill_now();
  EXPECT_THAT(wait(), ElementsAre(2));
  EXPECT_THAT(group_.running(), ElementsAre(0, 1));
  children_[0].kill_now();
  children_[1].kill_now();
  EXPECT_THAT(wait(), ElementsAre(0, 1));
  EXPECT_THAT(group_.running(), IsEmpty());
}

TEST_F(ProcessGroupTest, WhichEverIsKilledIsSeenAtOnce) {
  for (int i = 0; i < 4; ++i) start(Manner::kWaits);
  for (const std::size_t victim : {1, 3, 0, 2}) {
    children_[victim].signal(SIGKILL);
    EXPECT_THAT(wait(), ElementsAre(victim));
    EXPECT_EQ(children_[victim].wait(), -SIGKILL);
  }
}

TEST_F(ProcessGroupTest, AWaitEndsAtItsDeadlineAndWhenStopped) {
  start(Manner::kWaits);
  std::vector<std::size_t> ended{7};
  EXPECT_CODE(Code::kTimeout, group_.wait(os::Deadline::after_ns(0), {}, nullptr, ended));
  EXPECT_THAT(ended, IsEmpty());
  EXPECT_CODE(Code::kTimeout, group_.wait(os::Deadline::after_ns(1'000'000), {}, nullptr, ended));
  std::stop_source source;
  source.request_stop();
  EXPECT_CODE(Code::kInterrupted, group_.wait(os::Deadline::never(), source.get_token(), nullptr, ended));
  EXPECT_THAT(group_.running(), ElementsAre(0));
}

TEST_F(ProcessGroupTest, StopSendsNoMoreThanIsNeeded) {
  start(Manner::kLeaves);
  start(Manner::kWaits);
  start(Manner::kIgnores);
  leave_.open();
  EXPECT_THAT(wait(), ElementsAre(0));
  EXPECT_THAT(stop({.patience_ns = 1'000'000, .grace_ns = 1'000'000}),
              UnorderedElementsAre(Pair(1, testing::AnyOf(SIGTERM, SIGKILL)), Pair(2, SIGKILL)));
  EXPECT_OK(status_);
  EXPECT_EQ(children_[0].wait(), 0);
  EXPECT_EQ(children_[2].wait(), -SIGKILL);
}

TEST_F(ProcessGroupTest, WhoLeavesInThePatienceGetsNoSignal) {
  start(Manner::kLeaves);
  start(Manner::kLeaves);
  leave_.open(2);
  EXPECT_THAT(stop({.patience_ns = kLongNs, .grace_ns = kLongNs}),
              UnorderedElementsAre(Pair(0, 0), Pair(1, 0)));
  EXPECT_EQ(children_[0].wait(), 0);
  EXPECT_EQ(children_[1].wait(), 0);
}

TEST_F(ProcessGroupTest, SigtermIsEnoughForMost) {
  start(Manner::kWaits);
  EXPECT_THAT(stop({.grace_ns = kLongNs}), ElementsAre(Pair(0, SIGTERM)));
  EXPECT_EQ(children_[0].wait(), -SIGTERM);
  EXPECT_THAT(stop({.grace_ns = kLongNs}), IsEmpty()) << "nobody is left";
}

// As a signal handler does that raises an exception: nobody has time for graces, but no member may stay.
TEST_F(ProcessGroupTest, AnInterruptedStopKills) {
  class Interrupting final : public domain::WaitHooks {
   public:
    Status poll() override { return {Code::kInterrupted, "enough"}; }
  };
  Interrupting hooks;
  start(Manner::kIgnores);
  start(Manner::kWaits);
  EXPECT_THAT(stop({.patience_ns = kLongNs, .grace_ns = kLongNs}, &hooks),
              UnorderedElementsAre(Pair(0, SIGKILL), Pair(1, SIGKILL)));
  EXPECT_CODE(Code::kInterrupted, status_);
}

TEST_F(ProcessGroupTest, AMemberThatWasWaitedForCountsAsEnded) {
  start(Manner::kWaits);
  start(Manner::kWaits);
  children_[0].kill_now();
  children_[1].kill_now();
  EXPECT_THAT(stop({.grace_ns = kLongNs}), UnorderedElementsAre(Pair(0, SIGTERM), Pair(1, SIGTERM)));
  EXPECT_OK(status_);
}

}  // namespace
}  // namespace forklift::test
