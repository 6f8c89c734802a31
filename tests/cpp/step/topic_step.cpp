// A writer, a reader, one who subscribes or leaves, who makes or drops a topic, is killed after every
// instruction.
#include <memory>

#include "step/world.h"
#include "topic/topic.h"
#include "topic/topics.h"

namespace forklift::test {
namespace {

using os::Deadline;
using topic::ReaderPtr;
using topic::Topic;
using topic::TopicOptions;
using topic::TopicPtr;
using topic::WhenSlow;

constexpr std::uint64_t kChilds = 1'000'000;
constexpr std::uint64_t kSurvivors = 2'000'000;

// A topic that is made anew for each kill, with a reader in the surviving process.
class TopicOperation : public Operation {
 public:
  TopicOperation(TopicOptions options, Shape shape, std::size_t already)
      : options_(options), shape_(std::move(shape)), already_(already) {}

  void prepare() override {
    topic_ = must(Topic::create(world_.node().topics(), options_));
    reader_ = must(topic_->subscribe());
    for (std::size_t i = 1; i <= already_; ++i) put(i);
  }

  void check(const Death& death, Findings& found) override {
    if (death.point % 2 == 1) world_.node().domain().reap();
    const std::vector<std::uint64_t> there = read_all(found);
    look(death, there, found);
    if (Status put = Message(world_.node(), {}, kSurvivors).put(*topic_); !put)
      found.add("the survivor cannot put: " + put.to_string());
    if (read_all(found) != std::vector<std::uint64_t>{kSurvivors})
      found.add("the survivor does not get what it put");
    drop();
    world_.expect_marked(found);
    world_.expect_goes_on(found);
  }
  bool seen_both() const { return seen_done_ && seen_undone_; }

 protected:
  // What the survivor may find, given what happened.
  virtual void look(const Death& death, const std::vector<std::uint64_t>& there, Findings& found) = 0;
  virtual void drop() {
    reader_.reset();
    topic_.reset();
  }
  void put(std::uint64_t number) { must(Message(world_.node(), shape_, number).put(*topic_)); }
  void saw(bool done) { (done ? seen_done_ : seen_undone_) = true; }
  std::vector<std::uint64_t> read_all(Findings& found) {
    std::vector<std::uint64_t> numbers;
    Incoming message;
    for (;;) {
      const Status got = reader_->get(message, Deadline::after_ns(0));
      if (got.code() == Code::kTimeout) return numbers;
      if (!got) {
        found.add("the survivor cannot get: " + got.to_string());
        return numbers;
      }
      numbers.push_back(read_message(message, shape_, found));
    }
  }

  World world_;
  TopicOptions options_;
  Shape shape_;
  std::size_t already_;
  TopicPtr topic_;
  ReaderPtr reader_;

 private:
  bool seen_done_ = false;    // in some run the operation had an effect,
  bool seen_undone_ = false;  // in some other it had none
};

template <class Kind>
void kill(const char* name, Kind operation, const StepOptions& options = {}) {
  EXPECT_TRUE(survives_every_kill(name, operation, options));
  EXPECT_TRUE(operation.seen_both()) << "it should have happened before some deaths and not before others";
}

// What was there is there, but for as many of the oldest as had to make room; the child's message is there or
// not, and is there if its put had returned.
class Put : public TopicOperation {
 public:
  using TopicOperation::TopicOperation;
  void enter() override { message_ = std::make_unique<Message>(world_.node(), shape_, kChilds); }
  void act() override { must(message_->put(*topic_)); }

 protected:
  void look(const Death& death, const std::vector<std::uint64_t>& there, Findings& found) override {
    const bool came = !there.empty() && there.back() == kChilds;
    std::vector<std::uint64_t> others(there.begin(), there.end() - (came ? 1 : 0));
    const bool full = already_ == options_.capacity;
    const std::uint64_t first = already_ + 1 - others.size();
    bool right = others.size() == already_ || (full && others.size() + 1 == already_);
    for (std::size_t i = 0; i < others.size(); ++i) right = right && others[i] == first + i;
    if (!right || (death.returned && !came) || (came && full && others.size() == already_))
      found.add("there is " + numbers_text(there) + ", there were " + std::to_string(already_));
    if (reader_->missed() != already_ - others.size()) found.add("the reader was not told what it missed");
    saw(came);
  }

 private:
  std::unique_ptr<Message> message_;
};

TEST(TopicStep, Put) { kill("put on a topic", Put({.capacity = 4}, {.bytes = 40}, 1)); }
TEST(TopicStep, PutLeases) {
  kill("put on a topic, two leases", Put({.capacity = 4}, {.bytes = 40, .blocks = {64, 5000}}, 1));
}
TEST(TopicStep, PutSpilled) {
  kill("put on a topic, spilled with a lease", Put({.capacity = 4}, {.bytes = 3000, .blocks = {64}}, 1));
}
TEST(TopicStep, PutOverOldest) {
  kill("put on a full topic, over a message with a lease",
       Put({.capacity = 2}, {.bytes = 40, .blocks = {64}}, 2));
}
TEST(TopicStep, PutOverSpilled) {
  kill("put on a full topic, over a spilled message",
       Put({.capacity = 2}, {.bytes = 3000, .blocks = {64}}, 2), {.most_points = 3000});
}

// The newest wins: there is always one, the old or the new.
class Publish : public TopicOperation {
 public:
  explicit Publish(Shape shape) : TopicOperation({.capacity = 2, .keep = 1}, std::move(shape), 1) {}
  void prepare() override {
    topic_ = must(Topic::create(world_.node().topics(), options_));
    reader_ = topic_->newest();
    put(1);
  }
  void enter() override { message_ = std::make_unique<Message>(world_.node(), shape_, kChilds); }
  void act() override { must(message_->put(*topic_)); }

 protected:
  void look(const Death& death, const std::vector<std::uint64_t>& there, Findings& found) override {
    const bool came = there == std::vector<std::uint64_t>{kChilds};
    if (!came && (death.returned || there != std::vector<std::uint64_t>{1}))
      found.add("there is " + numbers_text(there));
    if (topic_->number() != (came ? 2U : 1U)) found.add("the version is wrong");
    saw(came);
  }

 private:
  std::unique_ptr<Message> message_;
};

TEST(TopicStep, Publish) { kill("publish the newest", Publish({.bytes = 40})); }
TEST(TopicStep, PublishLease) {
  kill("publish the newest, with a lease", Publish({.bytes = 40, .blocks = {5000}}));
}

// A reader is killed; it is the last one that has to see the messages, so its get releases them.
class Get : public TopicOperation {
 public:
  Get(Shape shape, TopicOptions options)
      : TopicOperation(options, std::move(shape), 0), message_(used_before(world_.node())) {
    world_.mark();
  }
  void enter() override { childs_ = options_.keep == 0 ? must(topic_->subscribe()) : topic_->newest(); }
  void ready() override {
    for (std::uint64_t i = 1; i <= 2; ++i) put(i);
    if (options_.keep != 0) return;
    Findings ignored;
    (void)read_all(ignored);
    blocks_ = world_.node().arena().stats().held_blocks;
  }
  void act() override {
    must(childs_->get(*message_, Deadline::after_seconds(2)));
    message_->clear();  // gives its leases back: stepped, too
  }

 protected:
  void look(const Death& death, const std::vector<std::uint64_t>& there, Findings& found) override {
    std::vector<std::uint64_t> wanted;
    if (options_.keep != 0) wanted = {1, 2};
    if (there != wanted) found.add("a reader's death took messages along: " + numbers_text(there));
    world_.node().domain().reap();
    if (topic_->readers() != 1) found.add("a dead reader is still there");
    saw(death.returned);
    saw(false);
  }

 private:
  std::unique_ptr<Incoming> message_;
  ReaderPtr childs_;
  std::uint64_t blocks_ = 0;
};

TEST(TopicStep, Get) { kill("get from a topic", Get({.bytes = 40}, {.capacity = 4})); }
TEST(TopicStep, GetLeases) {
  kill("get from a topic, two leases", Get({.bytes = 40, .blocks = {64, 5000}}, {.capacity = 4}));
}
TEST(TopicStep, GetSpilled) {
  kill("get from a topic, spilled with a lease", Get({.bytes = 3000, .blocks = {64}}, {.capacity = 4}));
}
TEST(TopicStep, GetWaitedFor) {
  kill("get from a topic whose writer waits",
       Get({.bytes = 40}, {.capacity = 4, .when_slow = WhenSlow::kWait}));
}
TEST(TopicStep, GetNewest) {
  kill("get the newest, with a lease", Get({.bytes = 40, .blocks = {64}}, {.capacity = 4, .keep = 2}));
}

// Subscribing and leaving, while there are messages with leases for the one who leaves.
class ComeAndGo : public TopicOperation {
 public:
  explicit ComeAndGo(bool goes)
      : TopicOperation({.capacity = 4}, {.bytes = 40, .blocks = {64}}, 0), goes_(goes) {}
  void enter() override {
    if (goes_) childs_ = must(topic_->subscribe());
  }
  void ready() override {
    for (std::uint64_t i = 1; i <= 2; ++i) put(i);
    Findings ignored;
    if (goes_) (void)read_all(ignored);
  }
  void act() override {
    if (goes_) {
      childs_->leave();
    } else {
      childs_ = must(topic_->subscribe(true));
    }
  }

 protected:
  void look(const Death& death, const std::vector<std::uint64_t>& there, Findings& found) override {
    if (there.size() != (goes_ ? 0U : 2U)) found.add("the survivor finds " + numbers_text(there));
    world_.node().domain().reap();
    if (topic_->readers() != 1) found.add("a dead reader is still there");
    saw(death.returned);
    saw(false);
  }

 private:
  bool goes_;
  ReaderPtr childs_;
};

TEST(TopicStep, Subscribe) { kill("subscribe to a topic", ComeAndGo(false)); }
TEST(TopicStep, Leave) { kill("leave a topic", ComeAndGo(true)); }

// Topics come and go.
class Life : public Operation {
 public:
  enum class What {
    kCreate,
    kDestroy,
    kOpen
  };
  explicit Life(What what) : what_(what) {}
  void prepare() override {
    if (what_ == What::kOpen) topic_ = must(Topic::create(world_.node().topics(), {.capacity = 4}));
  }
  void enter() override {
    if (what_ == What::kOpen) must(topic_->offer(world_.node().domain().self()));
    if (what_ != What::kDestroy) return;
    childs_ = must(Topic::create(world_.node().topics(), {.capacity = 4, .keep = 4}));
    for (std::uint64_t i = 0; i < 3; ++i)
      must(Message(world_.node(), {.bytes = i == 0 ? 3000U : 40U, .blocks = {64}}, i).put(*childs_));
  }
  void act() override {
    switch (what_) {
      case What::kCreate: childs_ = must(Topic::create(world_.node().topics(), {.capacity = 4})); break;
      case What::kDestroy: childs_.reset(); break;
      case What::kOpen: childs_ = must(Topic::open(world_.node().topics(), topic_->id())); break;
    }
  }
  void check(const Death& death, Findings& found) override {
    if (death.point % 2 == 0) world_.expect_goes_on(found);
    topic_.reset();
    world_.expect_marked(found);
    world_.expect_goes_on(found);
    world_.expect_marked(found);
  }

 private:
  What what_;
  World world_;
  TopicPtr topic_;
  TopicPtr childs_;
};

TEST(TopicStep, Create) {
  Life operation(Life::What::kCreate);
  EXPECT_TRUE(survives_every_kill("create a topic", operation));
}
TEST(TopicStep, Destroy) {
  Life operation(Life::What::kDestroy);
  EXPECT_TRUE(survives_every_kill("destroy a topic with three messages", operation, {.most_points = 3000}));
}
TEST(TopicStep, OpenOffered) {
  Life operation(Life::What::kOpen);
  EXPECT_TRUE(survives_every_kill("open a topic that was offered", operation));
}

}  // namespace
}  // namespace forklift::test
