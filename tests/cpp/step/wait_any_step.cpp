// Waiting for several locks at once: the process that waits is killed after every instruction. It takes nothing, so
// every other process finds what it would have found without it, and gets the wake-ups.
#include <cstdlib>
#include <stop_token>
#include <thread>
#include <vector>

#include "locks/event.h"
#include "locks/mutex.h"
#include "locks/semaphore.h"
#include "node/wait_any.h"
#include "step/lock_operation.h"

namespace forklift::test {
namespace {

using os::Deadline;

// Lets a wait sleep once, for no time, and ends it then: the same instructions each time.
class EndsAfterOneSleep final : public domain::WaitHooks {
 public:
  EndsAfterOneSleep() { slice_ns = 1; }
  Status poll() override {
    return polls_++ == 0 ? Status() : Status(Code::kInterrupted, "the test ends the wait");
  }

 private:
  int polls_ = 0;
};

class WaitForAny : public LockOperation {
 public:
  void prepare() override {
    event_ = must(locks::Event::create(table()));
    lock_ = must(locks::Mutex::create(table(), false));
    units_ = must(locks::Semaphore::create(table(), {.value = 0}));
    if (lock_->try_acquire() == locks::Took::kNo) std::abort();
  }
  void act() override {
    EndsAfterOneSleep hooks;
    if (wait(Deadline::never(), &hooks).code() != Code::kInterrupted) std::abort();
  }

 protected:
  void survive(const Death& death, Findings& found) override {
    saw(death.point % 2 == 0);
    if (event_->is_set() || !lock_->mine() || units_->value() != 0) found.add("the wait changed something");
    {
      const std::jthread releaser([this] { must(units_->release()); });
      const Status status = wait(Deadline::after_seconds(30), nullptr);
      if (!status.ok() || ready_ != std::vector<std::size_t>{2})
        found.add("a unit was released, and not reported");
    }
    must(units_->acquire(Deadline::after_ns(0), nullptr));
    if (lock_->release() != locks::Released::kYes) found.add("the lock cannot be released");
    must(event_->set());
    const Status status = wait(Deadline::after_ns(0), nullptr);
    if (!status.ok() || ready_ != std::vector<std::size_t>{0, 1})
      found.add("event and lock are not reported");
  }
  void drop() override {
    event_.reset();
    lock_.reset();
    units_.reset();
  }

 private:
  Status wait(Deadline deadline, domain::WaitHooks* hooks) {
    const node::Source sources[] = {{.lock = event_.get()}, {.lock = lock_.get()}, {.lock = units_.get()}};
    return node::wait_any(sources, deadline, std::stop_token(), ready_, hooks);
  }

  locks::EventPtr event_;
  locks::MutexPtr lock_;
  locks::SemaphorePtr units_;
  std::vector<std::size_t> ready_;
};

TEST(WaitAnyStep, Locks) { kill_lock("wait for any of an event, a lock, a semaphore", WaitForAny()); }

}  // namespace
}  // namespace forklift::test
