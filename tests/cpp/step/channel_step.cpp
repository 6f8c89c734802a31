// A process is killed after every instruction of making, joining, offering and leaving a channel, and of
// joining the domain.
#include <memory>

#include "node/node.h"
#include "step/world.h"

namespace forklift::test {
namespace {

using channel::Channel;

class LifeOperation : public Operation {
 public:
  void check(const Death& death, Findings& found) override {
    if (death.point % 2 == 0) world_.expect_goes_on(found);
    offered_.reset();
    world_.expect_marked(found);
    world_.expect_goes_on(found);
    world_.expect_marked(found);
  }

 protected:
  Node& node() { return world_.node(); }
  World world_;
  ChannelPtr offered_;
};

class Create : public LifeOperation {
 public:
  explicit Create(bool fresh_row) : fresh_row_(fresh_row) {}
  void prepare() override {
    if (fresh_row_)
      world_ = World();
    else
      (void)must(Channel::create(node().channels(), {}));
  }
  void act() override { made_ = must(Channel::create(node().channels(), {.capacity = 3})); }

 private:
  bool fresh_row_;
  ChannelPtr made_;
};

TEST(ChannelStep, Create) {
  Create operation(false);
  EXPECT_TRUE(survives_every_kill("create a channel", operation));
}
TEST(ChannelStep, CreateFirst) {
  Create operation(true);
  EXPECT_TRUE(survives_every_kill("create a domain's first channel", operation));
}

// Its last holder leaves: messages, their leases and chunks go back, then the row.
class Destroy : public LifeOperation {
 public:
  explicit Destroy(std::size_t messages) : messages_(messages) {}
  void enter() override {
    made_ = must(Channel::create(node().channels(), {.byte_capacity = 1'000'000}));
    for (std::size_t i = 0; i < messages_; ++i)
      must(Message(node(), {.bytes = 7000, .blocks = {64}}, i).put(*made_));
  }
  void act() override { made_.reset(); }

 private:
  std::size_t messages_;
  ChannelPtr made_;
};

TEST(ChannelStep, DestroyNeverUsed) {
  Destroy operation(0);
  EXPECT_TRUE(survives_every_kill("destroy a channel, never used", operation));
}
TEST(ChannelStep, DestroyFull) {
  Destroy operation(6);
  EXPECT_TRUE(survives_every_kill("destroy a channel with six messages", operation, {.most_points = 3000}));
}

class Open : public LifeOperation {
 public:
  explicit Open(bool offered) : is_offered_(offered) {}
  void prepare() override { offered_ = must(Channel::create(node().channels(), {})); }
  void enter() override {
    if (is_offered_) must(offered_->offer(node().domain().self()));
  }
  void act() override { joined_ = must(Channel::open(node().channels(), offered_->id())); }

 private:
  bool is_offered_;
  ChannelPtr joined_;
};

TEST(ChannelStep, Open) {
  Open operation(false);
  EXPECT_TRUE(survives_every_kill("open a channel", operation));
}
TEST(ChannelStep, OpenOffered) {
  Open operation(true);
  EXPECT_TRUE(survives_every_kill("open a channel that was offered", operation));
}

// Claims a slot for a child to come and makes the child a holder: what comes before a program is started.
class Invite : public LifeOperation {
 public:
  void prepare() override { offered_ = must(Channel::create(node().channels(), {})); }
  void act() override {
    node::Invitation invitation = must(node().invite());
    must(offered_->offer(invitation.child.slot));
    kept_ = std::make_unique<node::Invitation>(std::move(invitation));
  }

 private:
  std::unique_ptr<node::Invitation> kept_;
};

TEST(ChannelStep, Invite) {
  Invite operation;
  EXPECT_TRUE(survives_every_kill("claim a slot and offer a channel", operation));
}

// Joins the domain: with a slot of its own, or with one that was claimed for it.
class Attach : public LifeOperation {
 public:
  explicit Attach(bool invited) : invited_(invited) {}
  void enter() override { invitation_ = std::make_unique<node::Invitation>(must(node().invite())); }
  void act() override {
    std::optional<domain::ChildSlot> slot;
    if (invited_) slot = std::move(invitation_->child);
    joined_ =
        must(Node::attach(std::move(invitation_->control), std::move(invitation_->data), std::move(slot)));
  }

 private:
  bool invited_;
  std::unique_ptr<node::Invitation> invitation_;
  std::unique_ptr<Node> joined_;
};

TEST(ChannelStep, Attach) {
  Attach operation(false);
  EXPECT_TRUE(survives_every_kill("join the domain", operation, {.most_points = 3000}));
}
TEST(ChannelStep, AttachInvited) {
  Attach operation(true);
  EXPECT_TRUE(survives_every_kill("join the domain, invited", operation, {.most_points = 3000}));
}

}  // namespace
}  // namespace forklift::test
