// A process that makes, drops, finds or hands over a named segment is killed after every instruction: no file is
// left that nobody has, and none goes that somebody has. The manager of the segments runs meanwhile.
#include <sys/wait.h>

#include <memory>

#include "segment/segments.h"
#include "step/world.h"
#include "support/shm_files.h"

namespace forklift::test {
namespace {

using arena::LeasePtr;
using channel::Incoming;

// The manager is started before anything is counted. It is a child of this process in the end, since a World
// adopts orphans.
class SegmentOperation : public Operation {
 public:
  explicit SegmentOperation(bool kept) : world_(std::make_unique<World>()), kept_(kept) {
    token_ = segments().token();
    (void)must(segments().create(64));
    while (shm_files(token_).size() != 2 || stand_bys(token_).empty()) ::usleep(1000);
    world_->mark();
  }
  ~SegmentOperation() override {
    world_.reset();
    expect_nothing_left(token_);
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
  }
  SegmentOperation(const SegmentOperation&) = delete;
  SegmentOperation& operator=(const SegmentOperation&) = delete;

  void prepare() override {
    if (kept_) lease_ = must(segments().create(5000, 64));
  }

  void check(const Death& death, Findings& found) override {
    if (death.point % 2 == 1) world_->expect_goes_on(found);
    world_->node().domain().reap();
    look(death, found);
    const std::size_t files = shm_segments(token_).size();
    if (files != (kept_ ? 1U : 0U)) found.add(std::to_string(files) + " files after the reaping");
    if (kept_) {
      const std::string name = segments().name_of(*lease_);
      if (const auto again = segments().find(name, 5000); !again || (*again)->data() != lease_->data())
        found.add("the survivor's segment cannot be found: " + again.status().to_string());
    }
    lease_.reset();
    if (!shm_segments(token_).empty()) found.add("a file is left");
    if (segments().bytes() != 0 || segments().live() != 0)
      found.add("the table counts a segment that is gone");
    if (const auto next = segments().create(100); !next)
      found.add("no new segment: " + next.status().to_string());
    world_->expect_marked(found);
  }

 protected:
  virtual void look(const Death&, Findings&) {}
  segment::Segments& segments() { return world_->node().segments(); }

  std::unique_ptr<World> world_;
  std::uint64_t token_ = 0;
  bool kept_;
  LeasePtr lease_;
};

class Create : public SegmentOperation {
 public:
  Create() : SegmentOperation(false) {}
  void act() override { made_ = must(segments().create(10'000)); }

 private:
  LeasePtr made_;
};

class DropLast : public SegmentOperation {
 public:
  DropLast() : SegmentOperation(false) {}
  void enter() override { own_ = must(segments().create(10'000)); }
  void act() override { own_.reset(); }

 private:
  LeasePtr own_;
};

// Beside the survivor, who has it too.
class DropOne : public SegmentOperation {
 public:
  DropOne() : SegmentOperation(true) {}
  void act() override { lease_.reset(); }
};

class FindIt : public SegmentOperation {
 public:
  FindIt() : SegmentOperation(true) {}
  void enter() override { name_ = segments().name_of(*lease_); }
  void act() override { found_ = must(segments().find(name_, 5000)); }

 private:
  std::string name_;
  LeasePtr found_;
};

// A message that carries a right to the segment, beside the survivor's own.
class InMessage : public SegmentOperation {
 public:
  explicit InMessage(bool sends) : SegmentOperation(true), sends_(sends) {}
  void prepare() override {
    SegmentOperation::prepare();
    queue_ = must(channel::Channel::create(world_->node().channels(), {}));
    if (!sends_) put(must(world_->node().arena().another(lease_)));
  }
  void enter() override {
    if (sends_) mine_ = must(world_->node().arena().another(lease_));
    message_ = std::make_unique<Incoming>();
  }
  void act() override {
    if (sends_) return put(std::move(mine_));
    must(queue_->get(*message_, os::Deadline::after_seconds(2)));
    must(world_->node().arena().open_memory(*message_->leases().at(0)));
    message_->clear();
  }

 protected:
  void look(const Death& death, Findings& found) override {
    Incoming message;
    const Status got = queue_->get(message, os::Deadline::after_ns(0));
    if (death.returned && got.ok() != sends_)
      found.add(sends_ ? "the message is lost" : "the message came twice");
    if (got) {
      const Status opened = world_->node().arena().open_memory(*message.leases().at(0));
      if (!opened || message.leases()[0]->data() != lease_->data())
        found.add("the message's segment cannot be opened: " + opened.to_string());
    }
    message.clear();
    queue_.reset();
  }

 private:
  void put(LeasePtr lease) { must(queue_->put({.leases = {&lease, 1}}, os::Deadline::after_seconds(2))); }

  bool sends_;
  channel::ChannelPtr queue_;
  LeasePtr mine_;
  std::unique_ptr<Incoming> message_;
};

// The manager's part: what was handed over ends a moment later.
class HandOver : public SegmentOperation {
 public:
  HandOver() : SegmentOperation(true) {}
  void act() override { must(segments().hand_over(*lease_)); }

 protected:
  void look(const Death& death, Findings& found) override {
    if (death.returned && !segments().has_handed_over()) found.add("it was not handed over");
    // As the manager does, without the moment. It leaves what somebody else has.
    segments().drop_abandoned(0);
    const std::string name = segments().name_of(*lease_);
    if (!segments().find(name, 5000)) found.add("what the survivor has was dropped");
    LeasePtr mine = std::move(lease_);
    mine.reset();
    segments().drop_abandoned(0);
    if (!shm_segments(token_).empty()) found.add("what was handed over and abandoned is still there");
    lease_ = must(segments().create(5000));
  }
};

class DropAbandoned : public SegmentOperation {
 public:
  DropAbandoned() : SegmentOperation(false) {}
  void enter() override {
    LeasePtr own = must(segments().create(5000));
    must(segments().hand_over(*own));
    own.reset();
  }
  void act() override { segments().drop_abandoned(0); }

 protected:
  void look(const Death& death, Findings& found) override {
    if (death.returned && !shm_segments(token_).empty()) found.add("it was not dropped");
    segments().drop_abandoned(0);
  }
};

TEST(SegmentStep, Create) {
  Create operation;
  EXPECT_TRUE(survives_every_kill("make a named segment", operation));
}
TEST(SegmentStep, DropLast) {
  DropLast operation;
  EXPECT_TRUE(survives_every_kill("drop the last right to a named segment", operation));
}
TEST(SegmentStep, DropOne) {
  DropOne operation;
  EXPECT_TRUE(survives_every_kill("drop one right to a named segment", operation));
}
TEST(SegmentStep, Find) {
  FindIt operation;
  EXPECT_TRUE(survives_every_kill("find a named segment", operation));
}
TEST(SegmentStep, Send) {
  InMessage operation(true);
  EXPECT_TRUE(survives_every_kill("put a right to a named segment", operation));
}
TEST(SegmentStep, Receive) {
  InMessage operation(false);
  EXPECT_TRUE(survives_every_kill("get a right to a named segment, open and drop it", operation));
}
TEST(SegmentStep, HandOver) {
  HandOver operation;
  EXPECT_TRUE(survives_every_kill("hand a named segment over", operation));
}
TEST(SegmentStep, DropAbandoned) {
  DropAbandoned operation;
  EXPECT_TRUE(survives_every_kill("drop what was handed over", operation));
}

}  // namespace
}  // namespace forklift::test
