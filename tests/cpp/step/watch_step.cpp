// Wait sets: a process is killed after every instruction of joining and leaving a set, of telling what watches an
// event, and of what the reaper does for a dead owner. Survivors' sets are told of what happened.
#include <poll.h>

#include <cstdlib>
#include <vector>

#include "locks/event.h"
#include "step/lock_operation.h"
#include "support/child.h"
#include "watch/set.h"

namespace forklift::test {
namespace {

using watch::Set;

// What all have: an event, and a set of the survivor's that watches it.
class WatchOperation : public LockOperation {
 public:
  void prepare() override {
    event_ = must(locks::Event::create(table()));
    other_ = must(locks::Event::create(table()));
    set_ = must(Set::make(watches()));
    must(set_->add(row(*event_).event));
    fd_ = must(set_->descriptor());
    take();
    if (!set_->arm()) std::abort();
  }

 protected:
  watch::Watches& watches() { return world_.node().watches(); }
  locks::LockRow& row(const locks::Event& event) { return table().row(event.id().index); }
  std::vector<std::uint32_t> take() {
    std::vector<std::uint32_t> found;
    set_->take_marks([&](std::uint32_t member) { found.push_back(member); });
    return found;
  }
  bool readable() const {
    pollfd item{fd_, POLLIN, 0};
    return ::poll(&item, 1, 0) == 1;
  }
  // The survivor's set works.
  void expect_told(Findings& found) {
    world_.node().domain().reap();
    take();
    if (!set_->arm()) found.add("the set cannot be armed");
    must(event_->clear());
    must(event_->set());
    if (!readable()) found.add("the descriptor is not readable after a notification");
    if (take() != std::vector<std::uint32_t>{0}) found.add("the member is not marked after a notification");
  }
  void drop() override {
    set_.reset();
    event_.reset();
    other_.reset();
    world_.node().domain().reap();
    if (watches().live_sets() != 0) lost_ = "a wait set is left";
    if (watches().live_watches() != 0) lost_ = "a watch is left";
  }
  void add_lost(Findings& found) {
    if (!lost_.empty()) found.add(lost_);
  }

  locks::EventPtr event_, other_;
  std::unique_ptr<Set> set_;
  int fd_ = -1;
  std::string lost_;
};

class JoinAndLeave final : public WatchOperation {
 public:
  void act() override {
    std::unique_ptr<Set> own = must(Set::make(watches()));
    const std::uint32_t first = must(own->add(row(*event_).event));
    must(own->add(row(*other_).event));
    own->remove(first);
    own.reset();
  }

 protected:
  void survive(const Death& death, Findings& found) override {
    (void)death;
    saw(watches().live_sets() == 2);  // half of the deaths are reaped already
    expect_told(found);
    // Whether the death was noticed before or is now: nothing watches the other event any more.
    if (!eventually([&] { return world_.node().domain().reap() == 0 && watches().live_watches() == 1; }))
      found.add("watches of the dead process are left");
    add_lost(found);
  }
};

class Tell final : public WatchOperation {
 public:
  void act() override { must(event_->set()); }

 protected:
  void survive(const Death& death, Findings& found) override {
    (void)death;
    world_.node().domain().reap();
    saw(event_->is_set());
    // The one who was killed may not have come to it: the reaper does it then.
    if (event_->is_set()) {
      if (!readable()) found.add("the event is set, and the descriptor is not readable");
      if (take() != std::vector<std::uint32_t>{0}) found.add("the event is set, and the member not marked");
    }
    expect_told(found);
    add_lost(found);
  }
};

// The one who reaps a dead owner of a set is killed.
class ReapAnOwner final : public WatchOperation {
 public:
  void prepare() override {
    WatchOperation::prepare();
    // A look for deaths by this process, now and then, may be faster than the test: then another owner comes.
    for (int attempt = 0; watches().live_sets() != 2; ++attempt) {
      if (attempt == 10) std::abort();
      Child owner([&] {
        std::unique_ptr<Set> own = must(Set::make(watches()));
        must(own->add(row(*event_).event));
        must(own->add(row(*other_).event));
        (void)own.release();
        ::_exit(0);
      });
      owner.wait();
    }
  }
  void act() override { (void)world_.node().domain().reap(); }

 protected:
  void survive(const Death& death, Findings& found) override {
    (void)death;
    saw(watches().live_sets() == 2);  // half of the deaths are reaped already
    expect_told(found);
    if (watches().live_sets() != 1 || watches().live_watches() != 1)
      found.add("the sets or watches of the dead process are left");
    add_lost(found);
  }
};

TEST(WatchStep, JoinAndLeave) { kill_lock("join and leave a wait set", JoinAndLeave()); }
TEST(WatchStep, Tell) { kill_lock("tell a wait set", Tell()); }
TEST(WatchStep, ReapAnOwner) { kill_lock("reap the owner of a wait set", ReapAnOwner()); }

}  // namespace
}  // namespace forklift::test
