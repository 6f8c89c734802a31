// Meeting by name, killed after every instruction: who publishes and unpublishes, who serves, takes over and
// answers, who joins. Afterwards the name is free or served, as it was, and the domain as if nothing had
// been.
#include <array>
#include <memory>

#include "channel/published.h"
#include "os/local_socket.h"
#include "process/greeting.h"
#include "process/join.h"
#include "process/reception.h"
#include "step/world.h"
#include "support/child.h"
#include "support/runtime_dir.h"

namespace forklift::test {
namespace {

using channel::Published;
using process::Greeting;
using process::Place;
using process::Reception;
using process::Stand;

// --- names of objects

class NameOperation : public Operation {
 public:
  explicit NameOperation(bool there) : there_(there) {}
  void prepare() override {
    channel_ = must(channel::Channel::create(world_.hub(), {}));
    if (there_) publish();
  }
  void check(const Death& death, Findings& found) override {
    if (death.point % 2 == 1) world_.hub().domain().reap();
    const Result<Published> name = world_.hub().names().find("frames");
    if (!name && name.code() != Code::kNotFound) found.add(name.status().to_string());
    if (death.returned && name.ok() == there_) found.add("what had returned is not there");
    (name.ok() == there_ ? seen_undone_ : seen_done_) = true;
    const channel::ChannelId id = channel_->id();
    if (name && (name->object.index != id.index || name->generation != id.generation))
      found.add("the name is another object's");
    if (name) {
      // It alone keeps the channel.
      channel_.reset();
      if (!channel::Channel::open(world_.hub(), id)) found.add("the name does not keep its object");
      if (!world_.hub().names().unpublish("frames")) found.add("the name cannot be taken away");
    }
    channel_.reset();
    world_.expect_marked(found);
    world_.expect_goes_on(found);
  }
  bool seen_both() const { return seen_done_ && seen_undone_; }

 protected:
  void publish() { must(channel::publish(*channel_, channel::Sort::kQueue, "frames")); }

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
  void act() override { must(world_.hub().names().unpublish("frames")); }
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

os::Fd begin_at(Place& place) {
  if (!must(place.begin())) std::abort();
  os::Fd listener = must(place.open_door());
  must(place.settle());
  return listener;
}

class Serve : public Operation {
 public:
  void enter() override { place_ = must(Place::find("x")); }
  void act() override { listener_ = begin_at(place_); }
  void check(const Death&, Findings& found) override {
    Place place = must(Place::find("x"));
    const Result<bool> mine = place.begin();
    if (!mine || !*mine) return found.add("the dead server's name cannot be had");
    if (!place.open_door()) found.add("the dead server's door cannot be replaced");
    if (!place.settle()) found.add("the next server cannot settle");
    place.clear();
    for (const std::string& entry : directory_.entries()) found.add("left behind: " + entry);
  }

 protected:
  RuntimeDir directory_;
  Place place_;
  os::Fd listener_;
};

// A member that stands by, when its server has gone.
class TakeOver : public Serve {
 public:
  void enter() override {
    Serve::enter();
    must(place_.open_lock(true));
    if (!must(place_.share(Stand::kMember))) std::abort();
  }
  void act() override {
    if (!must(place_.take(Stand::kServer))) std::abort();
    listener_ = must(place_.open_door());
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
      [&] { return world.hub().domain().reap(), world.hub().domain().live_slots() == slots; }, 1000);
  if (!settled) found.add("a slot stays taken");
}

class Answer : public Operation {
 public:
  Answer() : slots_(world_.hub().domain().live_slots()) {}
  void enter() override {
    place_ = must(Place::find("x"));
    reception_ = std::make_unique<Reception>(world_.hub(), begin_at(place_));
  }
  void ready() override {
    const Place place = must(Place::find("x"));
    guest_ = must(place.knock());
    const Greeting hello = process::greeting(process::Says::kJoin, 0);
    must(os::send_packet(guest_, std::as_bytes(std::span(&hello, 1)), {}));
  }
  void act() override {
    reception_->turn(-1, 1'000'000'000);  // comes in
    reception_->turn(-1, 1'000'000'000);  // is answered
  }
  void check(const Death& death, Findings& found) override {
    std::array<std::byte, sizeof(Greeting)> buffer;
    {
      const Result<os::Packet> packet = os::receive_packet(guest_, buffer, 3);
      const bool answered = packet.ok() && packet->bytes == sizeof(Greeting);
      if (answered && packet->files.size() != 3) found.add("an answer without its descriptors");
      if (death.returned && !answered) found.add("no answer had been given");
      (answered ? seen_done_ : seen_undone_) = true;
    }
    guest_.close();
    settle_slots(world_, slots_, found);
    world_.expect_marked(found);
    world_.expect_goes_on(found);
    Place place = must(Place::find("x"));
    if (!must(place.begin())) found.add("the dead server's name cannot be had");
    place.clear();
  }
  bool seen_both() const { return seen_done_ && seen_undone_; }

 private:
  RuntimeDir directory_;
  World world_;
  const std::uint32_t slots_;
  Place place_;
  std::unique_ptr<Reception> reception_;
  os::Fd guest_;
  bool seen_done_ = false;
  bool seen_undone_ = false;
};

TEST(MeetingStep, Answer) {
  Answer operation;
  EXPECT_TRUE(survives_every_kill("answer at the door", operation, {.most_points = 2000}));
  EXPECT_TRUE(operation.seen_both());
}

// Guests are answered in the order in which they came: who came before, and died, has been seen to.
void pass_the_door(Findings& found) {
  const Place place = must(Place::find("x"));
  const os::Fd guest = must(place.knock());
  const Greeting hello = process::greeting(process::Says::kJoin, 0);
  must(os::send_packet(guest, std::as_bytes(std::span(&hello, 1)), {}));
  std::array<std::byte, sizeof(Greeting)> buffer;
  const auto answered = [&] {
    const Result<os::Packet> packet = os::receive_packet(guest, buffer, 3);
    return packet.ok() && packet->bytes == sizeof(Greeting);
  };
  if (!eventually(answered, 1000)) found.add("the server answers nobody");
}

class Join : public Operation {
 public:
  Join() {
    Gate serving;
    server_ = Child([&] {
      Place place = must(Place::find("x"));
      Reception reception(world_.hub(), begin_at(place));
      serving.open();
      for (;;) reception.turn(-1);
    });
    if (!serving.wait()) std::abort();
    world_.mark();
    slots_ = world_.hub().domain().live_slots();
  }
  ~Join() override {
    server_.kill_now();
    directory_.empty();
  }
  void enter() override { place_ = must(Place::find("x")); }
  void act() override { connection_ = must(process::join_at(place_, {})); }
  void check(const Death&, Findings& found) override {
    pass_the_door(found);
    settle_slots(world_, slots_, found);
    world_.expect_marked(found);
    world_.expect_goes_on(found);
    Place place = must(Place::find("x"));
    must(place.open_lock(false));
    if (*place.taken(Stand::kMember) != true || *place.taken(Stand::kServer) != true)
      found.add("the server has lost its name");
    if (*place.taken(Stand::kJoiner)) found.add("somebody is still joining");
  }

 private:
  RuntimeDir directory_;
  World world_;
  Child server_;
  std::uint32_t slots_ = 0;
  Place place_;
  os::Fd connection_;
};

TEST(MeetingStep, Join) {
  Join operation;
  EXPECT_TRUE(survives_every_kill("join by name", operation, {.most_points = 1500}));
}

}  // namespace
}  // namespace forklift::test
