// The read-write lock, the latch and once: a reader, a writer, who counts down, who does it once is killed after every
// instruction.
#include <cstdlib>
#include <string>

#include "locks/latch.h"
#include "locks/once.h"
#include "locks/read_write.h"
#include "step/lock_operation.h"

namespace forklift::test {
namespace {

using locks::ReadWriteLock;
using locks::ReadWriteLockPtr;
using locks::Released;
using locks::Took;
using os::Deadline;

class OnReadWrite : public LockOperation {
 public:
  void prepare() override { lock_ = must(ReadWriteLock::create(table())); }

 protected:
  // A writer gets through, and then a reader.
  Took write(Findings& found) {
    Took how = Took::kNo;
    if (!lock_->acquire(Deadline::after_seconds(2), nullptr, how)) found.add("no writer gets the lock");
    if (how != Took::kNo && lock_->release() != Released::kYes) found.add("the writer holds nothing");
    if (!lock_->acquire_shared(Deadline::after_seconds(2), nullptr)) found.add("no reader gets the lock");
    if (lock_->readers() != 1) found.add(std::to_string(lock_->readers()) + " readers, of 1");
    if (lock_->release_shared() != Released::kYes) found.add("the reader holds nothing");
    if (lock_->abandoned()) found.add("abandoned, after a writer was there");
    return how;
  }
  void drop() override { lock_.reset(); }
  ReadWriteLockPtr lock_;
};

class Read : public OnReadWrite {
 public:
  void act() override {
    must(lock_->acquire_shared(Deadline::after_ns(0), nullptr));
    if (lock_->release_shared() != Released::kYes) std::abort();
  }

 protected:
  void survive(const Death& death, Findings& found) override {
    saw(death.point % 2 == 0);
    if (write(found) == Took::kAbandoned) found.add("a reader's death counts as a writer's");
  }
};

TEST(ReadWriteStep, Read) { kill_lock("read-write lock, read", Read()); }

class Write : public OnReadWrite {
 public:
  void act() override {
    Took how = Took::kNo;
    must(lock_->acquire(Deadline::after_ns(0), nullptr, how));
    if (lock_->release() != Released::kYes) std::abort();
  }

 protected:
  void survive(const Death& death, Findings& found) override {
    const Took how = write(found);
    if (death.returned && how == Took::kAbandoned) found.add("taken over from one that had released it");
    saw(how == Took::kAbandoned);
  }
};

TEST(ReadWriteStep, Write) { kill_lock("read-write lock, write", Write()); }

// The parent reads: the writer has to give up, and leaves nothing.
class WriteInVain : public OnReadWrite {
 public:
  void prepare() override {
    OnReadWrite::prepare();
    must(lock_->acquire_shared(Deadline::after_ns(0), nullptr));
  }
  void act() override {
    Took how = Took::kNo;
    if (lock_->acquire(Deadline::after_ns(0), nullptr, how).ok()) std::abort();
  }

 protected:
  void survive(const Death& death, Findings& found) override {
    saw(death.point % 2 == 0);
    if (lock_->release_shared() != Released::kYes) found.add("the parent no longer reads");
    (void)write(found);
  }
};

TEST(ReadWriteStep, WriteInVain) { kill_lock("read-write lock, no time to write", WriteInVain()); }

class CountDown : public LockOperation {
 public:
  void prepare() override { latch_ = must(locks::Latch::create(table(), 2)); }
  void act() override { must(latch_->count_down(1)); }

 protected:
  void survive(const Death& death, Findings& found) override {
    const std::uint64_t left = latch_->left();
    if (death.returned && left != 1) found.add("it was not counted down");
    if (left != 1 && left != 2) found.add(std::to_string(left) + " are left, of 2");
    saw(left == 1);
    must(latch_->count_down(left));
    must(latch_->wait(Deadline::after_ns(0), nullptr));
  }
  void drop() override { latch_.reset(); }

 private:
  locks::LatchPtr latch_;
};

TEST(ReadWriteStep, Latch) { kill_lock("latch, counted down", CountDown()); }

class DoOnce : public LockOperation {
 public:
  void prepare() override { once_ = must(locks::Once::create(table())); }
  void act() override {
    bool mine = false;
    must(once_->begin(Deadline::after_ns(0), nullptr, mine));
    if (!mine) std::abort();
    once_->end(true);
  }

 protected:
  void survive(const Death& death, Findings& found) override {
    const bool done = once_->done();
    if (death.returned && !done) found.add("it was done, and is not");
    saw(done);
    bool mine = false;
    must(once_->begin(Deadline::after_seconds(2), nullptr, mine));
    if (mine == done) found.add("done, and to be done again, or neither");
    if (mine) once_->end(true);
    must(once_->begin(Deadline::after_ns(0), nullptr, mine));
    if (mine) found.add("done twice");
  }
  void drop() override { once_.reset(); }

 private:
  locks::OncePtr once_;
};

TEST(ReadWriteStep, Once) { kill_lock("once", DoOnce()); }

}  // namespace
}  // namespace forklift::test
