// Deaths within the repair of a death: a victim dies inside an operation, and the process that finds what it
// left is itself killed after every instruction. A third one must still find everything in order.
#include <memory>
#include <optional>

#include "step/stepper.h"
#include "step/trace.h"
#include "step/world.h"

namespace forklift::test {
namespace {

enum class Act {
  kPut,
  kGet,
  kAllocate,
  kLeave,
  kReap
};

const char* name_of(Act act) {
  switch (act) {
    case Act::kPut: return "put";
    case Act::kGet: return "get";
    case Act::kAllocate: return "allocate";
    case Act::kLeave: return "destroy a channel";
    case Act::kReap: return "reap";
  }
  return "";
}

// One of the two who die.
class Actor {
 public:
  Actor(Act act, std::uint64_t number) : act_(act), number_(number) {}

  void enter(Node& node, const ChannelPtr& channel, const Shape& shape) {
    node_ = &node;
    channel_ = channel;
    if (act_ == Act::kGet) incoming_ = used_before(node);
    if (act_ == Act::kPut) message_ = std::make_unique<Message>(node, shape, number_);
    if (act_ != Act::kLeave) return;
    channel_ = must(channel::Channel::create(node.channels(), {}));
    for (int i = 0; i < 2; ++i) must(Message(node, shape, 10).put(*channel_));
  }
  void act() {
    const os::Deadline soon = os::Deadline::after_seconds(2);
    switch (act_) {
      case Act::kPut: return must(message_->put(*channel_, soon));
      case Act::kGet: return must(channel_->get(*incoming_, soon));
      case Act::kAllocate: block_ = must(node_->arena().allocate(Kind::kShare, 3000)); return;
      case Act::kLeave: return channel_.reset();
      case Act::kReap: node_->domain().reap(); return;
    }
  }

 private:
  Act act_;
  std::uint64_t number_;
  Node* node_ = nullptr;
  ChannelPtr channel_;
  std::unique_ptr<Message> message_;
  std::unique_ptr<Incoming> incoming_;
  LeasePtr block_;
};

struct Case {
  Act victim;
  Act rescuer;
  bool next_chunk = false;  // a put that links a chunk, a get that releases one; else a channel's first put
};

class Recovery : public ChannelOperation {
 public:
  explicit Recovery(const Case& what) : ChannelOperation({}, {.bytes = 600, .blocks = {64}}), case_(what) {
    // The first run warms what is made once; the second one's way is the others'.
    for (int run = 0; run < 2; ++run) {
      prepare();
      victims_trace_ = {};
      Tracee tracee = start_victim();
      victims_trace_.record(tracee);
      tracee.kill();
      Findings ignored;
      check({}, ignored);
    }
  }

  // The victim dies `part` of its way into its operation.
  void choose(double part) {
    const std::vector<std::size_t> points = victims_trace_.points();
    victims_end_ = points[static_cast<std::size_t>(part * static_cast<double>(points.size() - 1))];
  }

  void enter() override { rescuer_.enter(world_.node(), channel_, shape_); }
  // The rescuer exists already: its fork does not repair what it shall find.
  void ready() override {
    Tracee tracee = start_victim();
    (void)victims_trace_.replay(tracee, victims_end_);
    tracee.kill();
  }
  void act() override { rescuer_.act(); }

 protected:
  void fill() override {
    // Four of these fill a chunk: what is put next begins another one.
    const Shape large{.bytes = 8000};
    const bool anybody_gets = case_.victim == Act::kGet || case_.rescuer == Act::kGet;
    if (!anybody_gets && !case_.next_chunk) return;
    for (std::uint64_t i = 1; i <= 4; ++i) put(large, i);
    if (!anybody_gets || case_.victim == Act::kPut) return;
    // And the get that comes next releases the first chunk.
    for (std::uint64_t i = 5; i <= 6; ++i) put(i);
    for (int i = 0; i < 4; ++i) (void)get();
  }

  // What was there, less one from the front for each getter, and behind it the putters' messages, in order.
  void check_numbers(const Death& death, const std::vector<std::uint64_t>& there, Findings& found) override {
    const std::size_t getters =
        (case_.victim == Act::kGet ? 1U : 0U) + (case_.rescuer == Act::kGet ? 1U : 0U);
    for (std::size_t taken = 0; taken <= getters && taken <= before_.size() + 1; ++taken) {
      for (int puts = 0; puts < 4; ++puts) {
        std::vector<std::uint64_t> wanted = before_;
        if (puts & 1) wanted.push_back(kVictimsNumber);
        if (puts & 2) wanted.push_back(kRescuersNumber);
        if ((puts & 1 && case_.victim != Act::kPut) || (puts & 2 && case_.rescuer != Act::kPut)) continue;
        if (taken > wanted.size()) continue;
        wanted.erase(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(taken));
        if (death.returned && case_.rescuer == Act::kPut && !(puts & 2)) continue;
        if (death.returned && case_.rescuer == Act::kGet && taken == 0) continue;
        if (there == wanted) return;
      }
    }
    found.add("there is " + numbers_text(there) + ", there was " + numbers_text(before_) +
              "; the victim had made " + std::to_string(victims_end_) + " of " +
              std::to_string(victims_trace_.size()) + " steps");
  }

 private:
  static constexpr std::uint64_t kVictimsNumber = 1'000'001;
  static constexpr std::uint64_t kRescuersNumber = 1'000'002;

  Tracee start_victim() {
    return Tracee::start([this] {
      victim_.enter(world_.node(), channel_, shape_);
      begin_marker();
      victim_.act();
      end_marker();
    });
  }

  Case case_;
  Actor victim_{case_.victim, kVictimsNumber};
  Actor rescuer_{case_.rescuer, kRescuersNumber};
  Trace victims_trace_;
  std::size_t victims_end_ = 0;
};

class RecoveryStep : public testing::TestWithParam<Case> {};

TEST_P(RecoveryStep, RescuerDies) {
  Recovery operation(GetParam());
  for (const double part : {0.21, 0.38, 0.47, 0.56, 0.64, 0.71, 0.79, 0.88}) {
    operation.choose(part);
    const std::string name = std::string(name_of(GetParam().rescuer)) + " after a death in " +
                             name_of(GetParam().victim) + " at " +
                             std::to_string(static_cast<int>(part * 100)) + "%";
    EXPECT_TRUE(survives_every_kill(name, operation, {.most_points = 250}));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, RecoveryStep,
                         testing::Values(Case{Act::kPut, Act::kReap}, Case{Act::kPut, Act::kReap, true},
                                         Case{Act::kGet, Act::kReap, true}, Case{Act::kAllocate, Act::kReap},
                                         Case{Act::kLeave, Act::kReap}, Case{Act::kPut, Act::kPut},
                                         Case{Act::kPut, Act::kPut, true}, Case{Act::kGet, Act::kGet, true},
                                         Case{Act::kGet, Act::kPut}, Case{Act::kPut, Act::kGet, true},
                                         Case{Act::kAllocate, Act::kAllocate}),
                         [](const testing::TestParamInfo<Case>& info) {
                           std::string name = std::string(name_of(info.param.rescuer)) + "_after_" +
                                              name_of(info.param.victim) +
                                              (info.param.next_chunk ? "_chunk" : "");
                           for (char& letter : name) letter = letter == ' ' ? '_' : letter;
                           return name;
                         });

}  // namespace
}  // namespace forklift::test
