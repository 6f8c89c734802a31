// Users' locks: a holder, a releaser, a waiter, a notifier is killed after every instruction of
// what it does.
#include <cstdlib>
#include <memory>
#include <string>

#include "locks/condition.h"
#include "locks/event.h"
#include "locks/mutex.h"
#include "locks/semaphore.h"
#include "step/lock_operation.h"

namespace forklift::test {
namespace {

using locks::Mutex;
using locks::MutexPtr;
using locks::Semaphore;
using locks::SemaphorePtr;
using locks::Took;
using os::Deadline;

Took acquire(Mutex& lock, double seconds = 2) {
  Took how = Took::kNo;
  const Status status = lock.acquire(Deadline::after_seconds(seconds), nullptr, how);
  if (status.code() != Code::kTimeout) must(status);
  return how;
}
void release(Mutex& lock) {
  if (lock.release() != locks::Released::kYes) must(Status(Code::kInvalid, "not released"));
}

// Acquires (several times, if recursive), changes what the lock guards, releases.
class Hold : public LockOperation {
 public:
  explicit Hold(unsigned times, bool abandoned_before = false)
      : times_(times), abandoned_before_(abandoned_before) {
    guarded_ = must(world_.node().arena().allocate(Kind::kShare, 64, true));
    world_.mark();
  }
  void prepare() override {
    lock_ = must(Mutex::create(table(), times_ > 1));
    if (abandoned_before_) table().row(lock_->id().index).state.store(locks::Owner::kAbandoned);
    word(0) = 0;
    word(1) = 0;
  }
  void act() override {
    for (unsigned i = 0; i < times_; ++i)
      if (lock_->try_acquire() == Took::kNo) std::abort();
    word(0) = 1;
    word(1) = 1;
    for (unsigned i = 0; i < times_; ++i) release(*lock_);
  }

 protected:
  void survive(const Death& death, Findings& found) override {
    const Took how = acquire(*lock_);
    if (how == Took::kNo) return found.add("the lock cannot be had");
    const bool half = word(0) != word(1);
    if (half && how != Took::kAbandoned)
      found.add("what the lock guards is half changed, and nobody said so");
    if (death.returned && how == Took::kAbandoned) found.add("taken over from one who had released it");
    if (lock_->abandoned() != (how == Took::kAbandoned)) found.add("abandoned() does not tell");
    if (lock_->depth() != 1) found.add("the depth is " + std::to_string(lock_->depth()));
    release(*lock_);
    if (acquire(*lock_) != Took::kYes) found.add("told twice");
    release(*lock_);
    saw(how == Took::kAbandoned);
  }
  void drop() override { lock_.reset(); }

 private:
  volatile std::uint64_t& word(std::size_t i) {
    return reinterpret_cast<volatile std::uint64_t*>(guarded_->data())[i];
  }
  const unsigned times_;
  const bool abandoned_before_;
  LeasePtr guarded_;
  MutexPtr lock_;
};

TEST(LockStep, Lock) { kill_lock("lock, acquire and release", Hold(1)); }
TEST(LockStep, RLock) { kill_lock("rlock, three times", Hold(3)); }
TEST(LockStep, TakenOver) { kill_lock("lock, taken over and released", Hold(1, true)); }

// The parent holds it, the child releases it: a signal from then on, and never taken over again.
class ReleaseForAnother : public LockOperation {
 public:
  void prepare() override {
    lock_ = must(Mutex::create(table(), false));
    if (acquire(*lock_) != Took::kYes) std::abort();
  }
  void act() override { release(*lock_); }

 protected:
  void survive(const Death& death, Findings& found) override {
    const bool released = !lock_->locked();
    if (death.returned && !released) found.add("the release did not happen");
    if (!released) release(*lock_);
    if (acquire(*lock_) != Took::kYes) found.add("the lock cannot be had");
    release(*lock_);
    saw(released);
  }
  void drop() override { lock_.reset(); }

 private:
  MutexPtr lock_;
};

TEST(LockStep, ReleaseForAnother) { kill_lock("lock, released for another", ReleaseForAnother()); }

class Units : public LockOperation {
 public:
  explicit Units(bool recover) : recover_(recover) {}
  void prepare() override {
    semaphore_ = must(Semaphore::create(table(), {.value = 2, .most = 2, .recover = recover_}));
  }
  void act() override {
    must(semaphore_->acquire(Deadline::after_ns(0), nullptr));
    must(semaphore_->acquire(Deadline::after_ns(0), nullptr));
    must(semaphore_->release());
    must(semaphore_->release());
  }

 protected:
  void survive(const Death& death, Findings& found) override {
    std::uint32_t had = 0;
    // One who recovers waits for what the dead one had; the others may have lost it.
    while (had < 2 && semaphore_->acquire(Deadline::after_seconds(recover_ ? 2 : 0), nullptr).ok()) ++had;
    if ((recover_ || death.returned) && had != 2) found.add(std::to_string(had) + " units are there, of 2");
    saw(recover_ ? death.point % 2 == 0 : had == 2);
    if (semaphore_->acquire(Deadline::after_ns(0), nullptr).ok()) found.add("a unit from nowhere");
    if (had != 0) must(semaphore_->release(had));
    if (semaphore_->value() != had) found.add("the value is " + std::to_string(semaphore_->value()));
  }
  void drop() override { semaphore_.reset(); }

 private:
  const bool recover_;
  SemaphorePtr semaphore_;
};

TEST(LockStep, Semaphore) { kill_lock("semaphore, acquire and release", Units(false)); }
TEST(LockStep, SemaphoreRecovers) { kill_lock("semaphore that recovers", Units(true)); }

class OnCondition : public LockOperation {
 public:
  void prepare() override {
    condition_ = must(locks::Condition::create(table()));
    place_ = 0;
  }

 protected:
  // Is the survivor's place notified?
  bool notified() {
    const Status status = condition_->wait(place_, Deadline::after_ns(0), nullptr);
    if (status.code() != Code::kTimeout) must(status);
    return status.ok();
  }
  void drop() override {
    condition_->leave(place_);
    condition_.reset();
  }
  locks::ConditionPtr condition_;
  std::uint32_t place_ = 0;
};

class Notify : public OnCondition {
 public:
  void prepare() override {
    OnCondition::prepare();
    place_ = must(condition_->enrol());
  }
  void act() override {
    if (condition_->notify(1) != 1) std::abort();
  }

 protected:
  void survive(const Death& death, Findings& found) override {
    const bool was = condition_->waiting() == 0;
    if (death.returned && !was) found.add("the notification did not arrive");
    if (!was && condition_->notify(1) != 1) found.add("nobody waits any more");
    if (!notified()) found.add("a notification was lost");
    saw(was);
  }
};

TEST(LockStep, Notify) { kill_lock("condition, notify", Notify()); }

// The child waits first and is notified; while it has not left, its notification is the next one's.
class TakeNotification : public OnCondition {
 public:
  void enter() override { childs_place_ = must(condition_->enrol()); }
  void ready() override {
    place_ = must(condition_->enrol());
    if (condition_->notify(1) != 1 || condition_->waiting() != 1) std::abort();
  }
  void act() override {
    must(condition_->wait(childs_place_, Deadline::after_seconds(1), nullptr));
    condition_->leave(childs_place_);
  }

 protected:
  void survive(const Death& death, Findings& found) override {
    std::uint64_t tickets = 0;
    for (std::uint32_t i = 0; i < table().cells_used(); ++i)
      tickets += (table().cell(i).ticket.load() & 3) == 2 && i != place_ ? 1 : 0;
    const bool passed_before = condition_->waiting() == 0;  // check() has reaped
    if (!passed_before && tickets != 0) {
      must(condition_->wait(place_, Deadline::after_seconds(2), nullptr));
      return saw(false);
    }
    if (death.returned && passed_before) found.add("a notification that was taken came again");
    saw(!passed_before);
    if (!passed_before && condition_->notify(1) != 1) found.add("nobody waits any more");
    if (!notified()) found.add("the notification is nobody's");
  }

 private:
  std::uint32_t childs_place_ = 0;
};

TEST(LockStep, TakeNotification) { kill_lock("condition, a notified waiter", TakeNotification()); }

class WaitInVain : public OnCondition {
 public:
  void prepare() override {
    OnCondition::prepare();
    place_ = must(condition_->enrol());
  }
  void act() override {
    const std::uint32_t place = must(condition_->enrol());
    if (condition_->wait(place, Deadline::after_ns(0), nullptr).ok()) std::abort();
    condition_->leave(place);
  }

 protected:
  void survive(const Death& death, Findings& found) override {
    saw(death.point % 2 == 0);
    world_.node().domain().reap();
    if (condition_->notify(5) != 1) found.add("others wait than should");
    if (!notified()) found.add("the notification is nobody's");
  }
};

TEST(LockStep, WaitInVain) { kill_lock("condition, wait until the time is over", WaitInVain()); }

class SetEvent : public LockOperation {
 public:
  void prepare() override { event_ = must(locks::Event::create(table())); }
  void act() override {
    must(event_->set());
    must(event_->clear());
    must(event_->set());
  }

 protected:
  void survive(const Death& death, Findings& found) override {
    if (death.returned && !event_->is_set()) found.add("the event is not set");
    saw(event_->is_set());
    must(event_->set());
    must(event_->wait(Deadline::after_ns(0), nullptr));
  }
  void drop() override { event_.reset(); }

 private:
  locks::EventPtr event_;
};

TEST(LockStep, Event) { kill_lock("event, set and clear", SetEvent()); }

// Making and dropping: row and lease together.
class Create : public LockOperation {
 public:
  void act() override {
    MutexPtr made = must(Mutex::create(table(), false));
    made.reset();
  }

 protected:
  void survive(const Death& death, Findings&) override {
    saw(death.point % 2 == 0);
    world_.node().domain().reap();
  }
  void drop() override {}
};

TEST(LockStep, Create) { kill_lock("lock, made and dropped", Create()); }

}  // namespace
}  // namespace forklift::test
