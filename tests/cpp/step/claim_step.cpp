// A process is killed after every instruction of claiming a message, acknowledging it, giving it back, and of bringing
// back what a dead process had claimed.
#include <array>
#include <memory>

#include "channel/batch.h"
#include "step/stepper.h"
#include "step/world.h"

namespace forklift::test {
namespace {

using channel::Receipt;

constexpr std::uint32_t kReceipts = 8;

// What a message that is found afterwards may look like.
struct Seen {
  std::uint64_t number;
  std::uint32_t tries;
};

class ClaimOperation : public Operation {
 public:
  explicit ClaimOperation(Shape shape, std::uint32_t tries = 0) : shape_(std::move(shape)), tries_(tries) {}

  void prepare() override {
    letters_ = tries_ != 0 ? must(channel::Channel::create(world_.node().channels(), {})) : nullptr;
    channel_ = must(channel::Channel::create(
        world_.node().channels(), {.receipts = kReceipts, .tries = tries_, .dead_letters = letters_}));
    for (std::uint64_t number = 1; number <= kThere; ++number)
      must(Message(world_.node(), shape_, number).put(*channel_));
    fill();
  }

  void check(const Death& death, Findings& found) override {
    // Half of the survivors learn of the death by taking what is there, half by reaping. Only a reaper gives back what
    // the dead process had claimed, so the others do so in the middle.
    if (death.point % 2 == 1) world_.node().domain().reap();
    std::vector<Seen> there = take_all(*channel_, found);
    world_.node().domain().reap();
    const std::vector<Seen> late = take_all(*channel_, found);
    if (death.point % 2 == 1 && !late.empty()) found.add("a message came back after the reaper was done");
    there.insert(there.begin(), late.begin(), late.end());
    check_there(death, there, found);
    if (channel_->unacknowledged() != 0)
      found.add(std::to_string(channel_->unacknowledged()) + " messages are claimed by nobody");
    if (channel_->unfinished() != 0) found.add("join() would wait for ever");
    channel_.reset();
    letters_.reset();
    world_.expect_marked(found);
    world_.expect_goes_on(found);
  }
  bool seen_both() const { return seen_done_ && seen_undone_; }

 protected:
  static constexpr std::uint64_t kThere = 3;
  virtual void fill() {}
  virtual void check_there(const Death& death, const std::vector<Seen>& there, Findings& found) = 0;

  Receipt claim() {
    Receipt receipt;
    must(channel_->claim(*message_, receipt, os::Deadline::after_seconds(2)));
    return receipt;
  }
  // In order, acknowledging each.
  std::vector<Seen> take_all(channel::Channel& from, Findings& found) {
    std::vector<Seen> there;
    Incoming message;
    while (found.empty()) {
      Receipt receipt;
      const os::Deadline now = os::Deadline::after_ns(0);
      const Status got = from.redelivers() ? from.claim(message, receipt, now) : from.get(message, now);
      if (got.code() == Code::kTimeout) break;
      if (!got) {
        found.add("the survivor cannot take a message: " + got.to_string());
        break;
      }
      there.push_back({read_message(message, shape_, found), receipt.tries()});
      message.clear();
      if (!from.redelivers()) continue;
      if (Status ended = from.acknowledge(receipt); !ended)
        found.add("no acknowledgement: " + ended.to_string());
    }
    return there;
  }
  static std::string text(const std::vector<Seen>& there) {
    std::string all;
    for (const Seen& each : there) {
      all += ' ';
      all += std::to_string(each.number);
      all += " (try ";
      all += std::to_string(each.tries);
      all += ')';
    }
    return all.empty() ? " nothing" : all;
  }
  // All messages from `first` on, the first of them with one of these tries, the others for the first time.
  static bool is_rest(const std::vector<Seen>& there, std::uint64_t first, std::uint32_t least_tries,
                      std::uint32_t most_tries) {
    if (there.size() != kThere + 1 - first) return false;
    for (std::size_t i = 0; i < there.size(); ++i) {
      if (there[i].number != first + i) return false;
      if (i != 0 && there[i].tries != 1) return false;
    }
    return there.empty() || (there[0].tries >= least_tries && there[0].tries <= most_tries);
  }

  World world_;
  Shape shape_;
  std::uint32_t tries_;
  ChannelPtr letters_;
  ChannelPtr channel_;
  std::unique_ptr<Incoming> message_ = used_before(world_.node());
  bool seen_done_ = false;
  bool seen_undone_ = false;
};

// The message comes back whenever its taker died, at the front; its try counts if the claim had returned.
class Claim : public ClaimOperation {
 public:
  using ClaimOperation::ClaimOperation;
  void act() override {
    (void)claim();
    message_->clear();
  }

 protected:
  void check_there(const Death& death, const std::vector<Seen>& there, Findings& found) override {
    const std::uint32_t first = tries_before_ + 1;
    if (!is_rest(there, 1, death.returned ? first + 1 : first, first + 1))
      found.add("there is" + text(there));
    if (!there.empty()) (there[0].tries > first ? seen_done_ : seen_undone_) = true;
  }
  std::uint32_t tries_before_ = 0;
};

// As above, of a message that was given back before.
class ClaimAgain : public Claim {
 public:
  explicit ClaimAgain(Shape shape) : Claim(std::move(shape)) { tries_before_ = 1; }

 protected:
  void fill() override {
    must(channel_->give_back(claim()));
    message_->clear();
  }
};

class Acknowledge : public ClaimOperation {
 public:
  using ClaimOperation::ClaimOperation;
  void enter() override {
    receipt_ = claim();
    message_->clear();
  }
  void act() override { must(channel_->acknowledge(receipt_)); }

 protected:
  void check_there(const Death& death, const std::vector<Seen>& there, Findings& found) override {
    const bool gone = is_rest(there, 2, 1, 1);
    if (!gone && (death.returned || !is_rest(there, 1, 2, 2)))
      found.add("there is" + text(there) + (death.returned ? ", and the message was acknowledged" : ""));
    (gone ? seen_done_ : seen_undone_) = true;
  }

 private:
  Receipt receipt_;
};

// The step of a loop over a queue: the claim before is acknowledged by the next one.
class ClaimNext : public ClaimOperation {
 public:
  using ClaimOperation::ClaimOperation;
  void enter() override {
    last_ = claim();
    message_->clear();
  }
  void act() override {
    Receipt next;
    must(channel_->claim_next(last_, *message_, next, os::Deadline::after_seconds(2)));
    message_->clear();
  }

 protected:
  void check_there(const Death& death, const std::vector<Seen>& there, Findings& found) override {
    const bool gone = is_rest(there, 2, death.returned ? 2 : 1, 2);
    // Whoever dies before the acknowledgement has not claimed the next one.
    if (!gone && (death.returned || !is_rest(there, 1, 2, 2)))
      found.add("there is" + text(there) + (death.returned ? ", and the first one was acknowledged" : ""));
    (gone ? seen_done_ : seen_undone_) = true;
  }

 private:
  Receipt last_;
};

class GiveBack : public ClaimOperation {
 public:
  using ClaimOperation::ClaimOperation;
  void enter() override {
    receipt_ = claim();
    message_->clear();
  }
  void act() override { must(channel_->give_back(receipt_)); }

 protected:
  void check_there(const Death& death, const std::vector<Seen>& there, Findings& found) override {
    if (!is_rest(there, 1, 2, 2)) found.add("there is" + text(there));
    (death.returned ? seen_done_ : seen_undone_) = true;
  }

 private:
  Receipt receipt_;
};

// A message was delivered as often as it may be: the claim moves it to the dead letters and takes the next one. If it
// dies on the way, the letter may be there twice, and is never lost.
class DeadLetter : public ClaimOperation {
 public:
  explicit DeadLetter(Shape shape) : ClaimOperation(std::move(shape), 1) {}
  void act() override {
    (void)claim();
    message_->clear();
  }

 protected:
  void fill() override {
    must(channel_->give_back(claim()));
    message_->clear();
  }
  void check_there(const Death& death, const std::vector<Seen>& there, Findings& found) override {
    // The second message was claimed once at most; if that was counted, it is a dead letter with the next look.
    std::vector<Seen> letters = take_all(*letters_, found);
    std::uint64_t expected = 1;
    std::size_t at = 0;
    for (; expected <= 2; ++expected) {
      const std::size_t begin = at;
      while (at < letters.size() && letters[at].number == expected) ++at;
      if (at - begin > 2) found.add("a dead letter came " + std::to_string(at - begin) + " times");
      if (expected == 1 && at == begin) found.add("the dead letter is lost");
      if (expected == 2) (at > begin ? seen_done_ : seen_undone_) = true;
      if (expected == 2 && !is_rest(there, at > begin ? 3 : 2, 1, 1)) found.add("there is" + text(there));
      if (expected == 2 && at == begin && death.returned) found.add("the second claim was not counted");
    }
    if (at != letters.size()) found.add("the dead letters are" + text(letters));
  }
};

// A process died with two claims, of which it was acknowledging one; the one that finds them dies, too.
class ReapClaims : public ClaimOperation {
 public:
  using ClaimOperation::ClaimOperation;
  void ready() override {
    Tracee victim = Tracee::start([this] {
      (void)claim();
      (void)claim();
      begin_marker();
      message_->clear();
      end_marker();
    });
    victim.kill();
  }
  void act() override { world_.node().domain().reap(); }

 protected:
  void check_there(const Death& death, const std::vector<Seen>& there, Findings& found) override {
    if (there.size() != kThere || there[0].number != 1 || there[0].tries != 2 || there[1].number != 2 ||
        there[1].tries != 2 || there[2].number != 3 || there[2].tries != 1)
      found.add("there is" + text(there));
    (death.returned ? seen_done_ : seen_undone_) = true;
  }
};

// Claims of several messages under one hold of the lock: those that were claimed come back, the first ones.
class ClaimMany : public ClaimOperation {
 public:
  using ClaimOperation::ClaimOperation;
  void act() override { (void)claim_all(); }

 protected:
  // The buffers of the object are there before the steps begin.
  void fill() override {
    const ChannelPtr other = must(channel::Channel::create(world_.node().channels(), {}));
    must(Message(world_.node(), {}, 1).put(*other));
    must(other->get_many(*batch_, *message_, 1, os::Deadline::after_seconds(2)));
    message_->clear();
  }
  std::array<Receipt, kThere> claim_all() {
    std::array<Receipt, kThere> receipts;
    std::size_t count = 0;
    must(channel_->claim_many(*batch_, *message_, receipts, count, os::Deadline::after_seconds(2)));
    if (count != kThere) std::abort();
    return receipts;
  }
  void check_there(const Death& death, const std::vector<Seen>& there, Findings& found) override {
    std::size_t again = 0;
    while (again < there.size() && there[again].tries == 2) ++again;
    bool good = there.size() == kThere && (again == kThere || !death.returned);
    for (std::size_t i = 0; i < there.size(); ++i)
      good &= there[i].number == i + 1 && (i < again || there[i].tries == 1);
    if (!good) found.add("there is" + text(there));
    (again == kThere ? seen_done_ : seen_undone_) = true;
  }

 private:
  std::unique_ptr<channel::Batch> batch_ = std::make_unique<channel::Batch>();
};

// Of several that are acknowledged together the first ones are gone.
class AcknowledgeMany : public ClaimMany {
 public:
  using ClaimMany::ClaimMany;
  void enter() override { receipts_ = claim_all(); }
  void act() override { must(channel_->acknowledge_open(std::span<const Receipt>(receipts_))); }

 protected:
  void check_there(const Death& death, const std::vector<Seen>& there, Findings& found) override {
    bool good = there.empty() || !death.returned;
    for (std::size_t i = 0; i < there.size(); ++i)
      good &= there[i].number == kThere + 1 - there.size() + i && there[i].tries == 2;
    if (!good) found.add("there is" + text(there));
    (there.empty() ? seen_done_ : seen_undone_) = true;
  }

 private:
  std::array<Receipt, kThere> receipts_;
};

void kill_in(const char* name, ClaimOperation& operation, const StepOptions& options = {}) {
  EXPECT_TRUE(survives_every_kill(name, operation, options));
  EXPECT_TRUE(operation.seen_both()) << "some deaths should come before the effect, some after it";
}
template <class Kind>
void kill_in(const char* name, Shape shape, const StepOptions& options = {}) {
  Kind operation(std::move(shape));
  kill_in(name, operation, options);
}

const Shape kSmall{.bytes = 40};
const Shape kLease{.bytes = 64, .blocks = {5000}};
const Shape kSpilled{.bytes = 1000, .blocks = {300, 64}};
constexpr StepOptions kThinned{.most_points = 3000};

TEST(ClaimStep, Small) { kill_in<Claim>("claim, inline", kSmall); }
TEST(ClaimStep, Lease) { kill_in<Claim>("claim, one lease", kLease); }
TEST(ClaimStep, Spilled) { kill_in<Claim>("claim, spilled with two leases", kSpilled, kThinned); }
TEST(ClaimStep, AgainSmall) { kill_in<ClaimAgain>("claim what came back, inline", kSmall); }
TEST(ClaimStep, AgainSpilled) { kill_in<ClaimAgain>("claim what came back, spilled", kSpilled, kThinned); }
TEST(ClaimStep, AcknowledgeSmall) { kill_in<Acknowledge>("acknowledge, inline", kSmall); }
TEST(ClaimStep, AcknowledgeLease) { kill_in<Acknowledge>("acknowledge, one lease", kLease); }
TEST(ClaimStep, AcknowledgeSpilled) {
  kill_in<Acknowledge>("acknowledge, spilled with two leases", kSpilled, kThinned);
}
TEST(ClaimStep, NextSmall) { kill_in<ClaimNext>("claim the next one, inline", kSmall); }
TEST(ClaimStep, NextSpilled) {
  kill_in<ClaimNext>("claim the next one, spilled with two leases", kSpilled, kThinned);
}
TEST(ClaimStep, GiveBackSmall) { kill_in<GiveBack>("give back, inline", kSmall); }
TEST(ClaimStep, GiveBackSpilled) { kill_in<GiveBack>("give back, spilled", kSpilled); }
TEST(ClaimStep, DeadLetter) { kill_in<DeadLetter>("claim, with a dead letter, inline", kSmall, kThinned); }
TEST(ClaimStep, DeadLetterSpilled) {
  kill_in<DeadLetter>("claim, with a dead letter, spilled", kSpilled, kThinned);
}
TEST(ClaimStep, Many) { kill_in<ClaimMany>("claim_many", kSmall); }
TEST(ClaimStep, AcknowledgeMany) { kill_in<AcknowledgeMany>("acknowledge several", kSmall); }
TEST(ClaimStep, Reap) { kill_in<ReapClaims>("reap two claims", kSmall, kThinned); }
TEST(ClaimStep, ReapSpilled) { kill_in<ReapClaims>("reap two claims, spilled", kSpilled, kThinned); }

// The last holder of the channel leaves: what is claimed goes with it, and the right to the dead letters, too.
class DestroyClaims : public ClaimOperation {
 public:
  explicit DestroyClaims(Shape shape) : ClaimOperation(std::move(shape), 3) {}
  void prepare() override {}
  void enter() override {
    ClaimOperation::prepare();
    (void)claim();
    must(channel_->give_back(claim()));
    message_->clear();
  }
  void act() override { channel_.reset(); }
  void check(const Death&, Findings& found) override {
    world_.expect_marked(found);
    world_.expect_goes_on(found);
  }

 protected:
  void check_there(const Death&, const std::vector<Seen>&, Findings&) override {}
};

TEST(ClaimStep, Destroy) {
  DestroyClaims operation(kSpilled);
  EXPECT_TRUE(survives_every_kill("destroy a channel with claims", operation, kThinned));
}

}  // namespace
}  // namespace forklift::test
