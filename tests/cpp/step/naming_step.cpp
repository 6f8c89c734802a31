// Meeting by name, killed after every instruction: who publishes and unpublishes, who serves, takes over and
// answers, who joins. Afterwards the name is free or served, as it was, and the domain as if nothing had
// been.
#include <array>
#include <memory>

#include "node/published.h"
#include "os/local_socket.h"
#include "rendezvous/handshake.h"
#include "rendezvous/join.h"
#include "rendezvous/join_server.h"
#include "step/world.h"
#include "support/child.h"
#include "support/runtime_dir.h"

namespace forklift::test {
namespace {

using node::Published;
using rendezvous::Handshake;
using rendezvous::JoinServer;
using rendezvous::NameLock;
using rendezvous::Role;

// --- names of objects

class NameOperation : public Operation {
 public:
  explicit NameOperation(bool there) : there_(there) {}
  void prepare() override {
    channel_ = must(channel::Channel::create(world_.node().channels(), {}));
    if (there_) publish();
  }
  void check(const Death& death, Findings& found) override {
    if (death.point % 2 == 1) world_.node().domain().reap();
    const Result<Published> name = world_.node().names().find("frames");
    if (!name && name.code() != Code::kNotFound) found.add(name.status().to_string());
    if (death.returned && name.ok() == there_) found.add("what had returned is not there");
    (name.ok() == there_ ? seen_undone_ : seen_done_) = true;
    const channel::ChannelId id = channel_->id();
    if (name && (name->object.index != id.index || name->generation != id.generation))
      found.add("the name is another object's");
    if (name) {
      // It alone keeps the channel.
      channel_.reset();
      if (!channel::Channel::open(world_.node().channels(), id))
        found.add("the name does not keep its object");
      if (!world_.node().names().unpublish("frames")) found.add("the name cannot be taken away");
    }
    channel_.reset();
    world_.expect_marked(found);
    world_.expect_goes_on(found);
  }
  bool seen_both() const { return seen_done_ && seen_undone_; }

 protected:
  void publish() {
    must(node::publish(world_.node().names(), *channel_, node::ObjectType::kQueue, "frames"));
  }

  World world_;
  channel::ChannelPtr channel_;
  const bool there_;
  bool seen_done_ = false;
  bool seen_undone_ = false;
};

class Publish : public NameOperation {
 public:
  Publish() : NameOperation(false) {}
  void act() override { publish(); }
};

class Unpublish : public NameOperation {
 public:
  Unpublish() : NameOperation(true) {}
  void act() override { must(world_.node().names().unpublish("frames")); }
};

TEST(MeetingStep, Publish) {
  Publish operation;
  EXPECT_TRUE(survives_every_kill("publish", operation));
  EXPECT_TRUE(operation.seen_both());
}

TEST(MeetingStep, Unpublish) {
  Unpublish operation;
  EXPECT_TRUE(survives_every_kill("unpublish", operation));
  EXPECT_TRUE(operation.seen_both());
}

// --- the place of a name

os::Fd begin_at(NameLock& name_lock) {
  if (!must(name_lock.begin())) std::abort();
  os::Fd listener = must(name_lock.open_socket());
  must(name_lock.settle());
  return listener;
}

class Serve : public Operation {
 public:
  void enter() override { name_lock_ = must(NameLock::find("x")); }
  void act() override { listener_ = begin_at(name_lock_); }
  void check(const Death&, Findings& found) override {
    NameLock name_lock = must(NameLock::find("x"));
    const Result<bool> mine = name_lock.begin();
    if (!mine || !*mine) return found.add("the dead server's name cannot be had");
    if (!name_lock.open_socket()) found.add("the dead server's served cannot be replaced");
    if (!name_lock.settle()) found.add("the next server cannot settle");
    name_lock.clear();
    for (const std::string& entry : directory_.entries()) found.add("left behind: " + entry);
  }

 protected:
  RuntimeDir directory_;
  NameLock name_lock_;
  os::Fd listener_;
};

// A member that stands by, when its server has gone.
class TakeOver : public Serve {
 public:
  void enter() override {
    Serve::enter();
    must(name_lock_.open_lock(true));
    if (!must(name_lock_.share(Role::kMember))) std::abort();
  }
  void act() override {
    if (!must(name_lock_.take(Role::kServer))) std::abort();
    listener_ = must(name_lock_.open_socket());
  }
};

TEST(MeetingStep, Serve) {
  Serve operation;
  EXPECT_TRUE(survives_every_kill("serve a name", operation));
}

TEST(MeetingStep, TakeOver) {
  TakeOver operation;
  EXPECT_TRUE(survives_every_kill("take a name over", operation));
}

// --- the handshake

// What was in a socket that nobody has any more may be closed a moment later.
void settle_slots(World& world, std::uint32_t slots, Findings& found) {
  const bool settled = eventually(
      [&] { return world.node().domain().reap(), world.node().domain().live_slots() == slots; }, 1000);
  if (!settled) found.add("a slot stays taken");
}

class Answer : public Operation {
 public:
  Answer() : slots_(world_.node().domain().live_slots()) {}
  void enter() override {
    name_lock_ = must(NameLock::find("x"));
    join_server_ = std::make_unique<JoinServer>(world_.node(), begin_at(name_lock_));
  }
  void ready() override {
    const NameLock name_lock = must(NameLock::find("x"));
    connection_ = must(name_lock.knock());
    const Handshake hello = rendezvous::handshake(rendezvous::MessageType::kJoin, 0);
    must(os::send_packet(connection_, std::as_bytes(std::span(&hello, 1)), {}));
  }
  void act() override {
    join_server_->turn(-1, 1'000'000'000);  // comes in
    join_server_->turn(-1, 1'000'000'000);  // is answered
  }
  void check(const Death& death, Findings& found) override {
    std::array<std::byte, sizeof(Handshake)> buffer;
    {
      const Result<os::Packet> packet = os::receive_packet(connection_, buffer, 3);
      const bool answered = packet.ok() && packet->bytes == sizeof(Handshake);
      if (answered && packet->files.size() != 3) found.add("an answer without its descriptors");
      if (death.returned && !answered) found.add("no answer had been given");
      (answered ? seen_done_ : seen_undone_) = true;
    }
    connection_.close();
    settle_slots(world_, slots_, found);
    world_.expect_marked(found);
    world_.expect_goes_on(found);
    NameLock name_lock = must(NameLock::find("x"));
    if (!must(name_lock.begin())) found.add("the dead server's name cannot be had");
    name_lock.clear();
  }
  bool seen_both() const { return seen_done_ && seen_undone_; }

 private:
  RuntimeDir directory_;
  World world_;
  const std::uint32_t slots_;
  NameLock name_lock_;
  std::unique_ptr<JoinServer> join_server_;
  os::Fd connection_;
  bool seen_done_ = false;
  bool seen_undone_ = false;
};

TEST(MeetingStep, Answer) {
  Answer operation;
  EXPECT_TRUE(survives_every_kill("answer of the server", operation, {.most_points = 2000}));
  EXPECT_TRUE(operation.seen_both());
}

// Guests are answered in the order in which they came: who came before, and died, has been seen to.
void pass_the_door(Findings& found) {
  const NameLock name_lock = must(NameLock::find("x"));
  const os::Fd connection = must(name_lock.knock());
  const Handshake hello = rendezvous::handshake(rendezvous::MessageType::kJoin, 0);
  must(os::send_packet(connection, std::as_bytes(std::span(&hello, 1)), {}));
  std::array<std::byte, sizeof(Handshake)> buffer;
  const auto answered = [&] {
    const Result<os::Packet> packet = os::receive_packet(connection, buffer, 3);
    return packet.ok() && packet->bytes == sizeof(Handshake);
  };
  if (!eventually(answered, 1000)) found.add("the server answers nobody");
}

class Join : public Operation {
 public:
  Join() {
    Gate serving;
    server_ = Child([&] {
      NameLock name_lock = must(NameLock::find("x"));
      JoinServer join_server(world_.node(), begin_at(name_lock));
      serving.open();
      for (;;) join_server.turn(-1);
    });
    if (!serving.wait()) std::abort();
    world_.mark();
    slots_ = world_.node().domain().live_slots();
  }
  ~Join() override {
    server_.kill_now();
    directory_.empty();
  }
  void enter() override { name_lock_ = must(NameLock::find("x")); }
  void act() override { connection_ = must(rendezvous::join_at(name_lock_, {})).connection; }
  void check(const Death&, Findings& found) override {
    pass_the_door(found);
    settle_slots(world_, slots_, found);
    world_.expect_marked(found);
    world_.expect_goes_on(found);
    NameLock name_lock = must(NameLock::find("x"));
    must(name_lock.open_lock(false));
    if (*name_lock.taken(Role::kMember) != true || *name_lock.taken(Role::kServer) != true)
      found.add("the server has lost its name");
    if (*name_lock.taken(Role::kJoiner)) found.add("somebody is still joining");
  }

 private:
  RuntimeDir directory_;
  World world_;
  Child server_;
  std::uint32_t slots_ = 0;
  NameLock name_lock_;
  os::Fd connection_;
};

// By a process that has a domain of its own already: it says so, is told which domain the name is of, and joins beside.
class JoinBeside : public Join {
 public:
  void enter() override {
    (void)must(node::Node::home());
    Join::enter();
  }
};

TEST(MeetingStep, JoinBeside) {
  JoinBeside operation;
  EXPECT_TRUE(survives_every_kill("join by name beside a home", operation, {.most_points = 1500}));
}

TEST(MeetingStep, Join) {
  Join operation;
  EXPECT_TRUE(survives_every_kill("join by name", operation, {.most_points = 1500}));
}

}  // namespace
}  // namespace forklift::test
