// The storm over users' locks: contenders are killed at random and replaced. What a lock guards is whole, or
// its next holder is told; no unit of a recovering semaphore is lost; notifications reach the living; nobody
// is stuck.
//
// FORKLIFT_STORM_SECONDS (20, of which this takes a third) and FORKLIFT_STORM_SEED choose length and dice.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <new>
#include <random>

#include "locks/condition.h"
#include "locks/mutex.h"
#include "locks/semaphore.h"
#include "onlooker.h"
#include "storm.h"
#include "support/numbered_message.h"
#include "support/watchdog.h"

namespace forklift::test {
namespace {

// Survivors make progress so soon after a kill.
constexpr std::int64_t kProgressNs = 2 * kSecond * kSlower;
constexpr std::uint32_t kUnits = 3;

// Outside of the domain: what the locks guard, and the account.
struct Guarded {
  volatile std::uint64_t first = 0;  // both change under the lock, one after the other
  volatile std::uint64_t second = 0;
  volatile std::uint64_t items = 0;  // made and taken under the condition's lock
  std::atomic<std::uint64_t> turns{0};
  std::atomic<std::uint64_t> takeovers{0};
  std::atomic<std::uint64_t> taken{0};
  std::atomic<std::uint64_t> wrong{0};
  std::atomic<bool> stop{false};
};

class LockStorm : public testing::Test {
 protected:
  void SetUp() override {
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    node_ = must(Node::create());
    lock_ = must(locks::Mutex::create(node_->locks(), false));
    rlock_ = must(locks::Mutex::create(node_->locks(), true));
    units_ = must(locks::Semaphore::create(node_->locks(), {kUnits, kUnits, true}));
    condition_ = must(locks::Condition::create(node_->locks()));
    guarded_ = new (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Guarded;
  }
  void TearDown() override { ::munmap(guarded_, 4096); }

  locks::Took take(locks::Mutex& lock) {
    locks::Took how = lock.try_acquire();
    if (how == locks::Took::kNo) must(lock.acquire(os::Deadline::after_ns(10 * kProgressNs), nullptr, how));
    if (how == locks::Took::kAbandoned) ++guarded_->takeovers;
    return how;
  }

  // Both words change, or the next holder is told.
  void turn() {
    const bool left = take(*lock_) == locks::Took::kAbandoned;
    if (guarded_->first != guarded_->second) {
      if (!left) ++guarded_->wrong;
      guarded_->second = guarded_->first;
    }
    guarded_->first = guarded_->first + 1;
    guarded_->second = guarded_->second + 1;
    if (lock_->release() != locks::Released::kYes) ++guarded_->wrong;
    ++guarded_->turns;
  }

  void use_unit() {
    must(units_->acquire(os::Deadline::after_ns(10 * kProgressNs), nullptr));
    if (units_->value() >= kUnits) ++guarded_->wrong;
    must(units_->release());
  }

  void make_item() {
    take(*rlock_);
    take(*rlock_);
    guarded_->items = guarded_->items + 1;
    (void)condition_->notify(1);
    (void)rlock_->release();
    (void)rlock_->release();
  }

  // Waits at most a second, so that a wrong protocol shows as a count of waits in vain, not as a hang.
  void take_item() {
    take(*rlock_);
    while (guarded_->items == 0 && !guarded_->stop) {
      const std::uint32_t place = must(condition_->enrol());
      (void)rlock_->release();
      const Status status = condition_->wait(place, os::Deadline::after_ns(kSecond), nullptr);
      if (status.code() != Code::kTimeout) must(status);
      take(*rlock_);
      condition_->leave(place);
    }
    if (guarded_->items != 0) {
      guarded_->items = guarded_->items - 1;
      ++guarded_->taken;
    }
    (void)rlock_->release();
  }

  pid_t start(unsigned role) {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    while (!guarded_->stop) {
      for (int i = 0; i < 20; ++i) turn();
      use_unit();
      role % 2 == 0 ? make_item() : take_item();
    }
    node_->domain().mark_clean();
    ::_exit(0);
  }

  Onlooker onlooker_;
  std::unique_ptr<Node> node_;
  locks::MutexPtr lock_;
  locks::MutexPtr rlock_;
  locks::SemaphorePtr units_;
  locks::ConditionPtr condition_;
  Guarded* guarded_ = nullptr;
};

TEST_F(LockStorm, NobodyIsStuckAndNothingHalfChangedGoesUntold) {
  const std::int64_t length = storm_seconds() * kSecond / 3;
  std::mt19937 dice(static_cast<unsigned>(storm_seed(::getpid())));
  std::array<pid_t, 6> workers{};
  for (unsigned i = 0; i < workers.size(); ++i) workers[i] = start(i);
  onlooker_.begin();
  Progress turns(guarded_->turns, kProgressNs, "nobody gets the lock");
  Progress taken(guarded_->taken, 3 * kProgressNs, "no item is taken");
  const std::uint64_t kills = kill_at_random(
      workers, dice, length, 4000, [&](unsigned i) { return start(i); },
      [&] {
        turns.look();
        taken.look();
      });
  onlooker_.end();
  ASSERT_FALSE(HasFailure());
  guarded_->stop = true;
  for (const pid_t pid : workers) expect_clean_end(pid);
  node_->domain().reap();
  EXPECT_EQ(guarded_->wrong, 0U);
  EXPECT_EQ(units_->value(), kUnits);
  EXPECT_EQ(node_->locks().live_cells(), 0U);
  EXPECT_EQ(condition_->waiting(), 0U);
  EXPECT_GT(guarded_->takeovers, 0U);
  for (const std::string& line : node_->audit()) ADD_FAILURE() << line;
  std::printf("%llu kills, %llu turns, %llu items taken, %llu takeovers\n",
              static_cast<unsigned long long>(kills), static_cast<unsigned long long>(guarded_->turns.load()),
              static_cast<unsigned long long>(guarded_->taken.load()),
              static_cast<unsigned long long>(guarded_->takeovers.load()));
  lock_.reset();
  rlock_.reset();
  units_.reset();
  condition_.reset();
}

}  // namespace
}  // namespace forklift::test
