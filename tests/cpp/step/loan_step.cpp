// Loans: who lends, writes and publishes, and who gets and gives back, is killed after every instruction.
#include <optional>
#include <string>

#include "forklift/loan.h"
#include "step/lock_operation.h"

namespace forklift::test {
namespace {

struct Frame {
  std::uint64_t first;
  std::uint64_t between[1000];
  std::uint64_t last;
};
using Loans = detail::Loans<Frame>;

class OnLoans : public LockOperation {
 public:
  void prepare() override {
    channel_ = must(channel::Channel::create(world_.node().channels(), {.capacity = 4}));
  }

 protected:
  void publish(std::uint64_t number) {
    auto frame = Loans::lend(channel_, 1);
    frame->first = number;
    frame->last = number;
    frame.publish();
  }
  // The numbers of what is there, whole, oldest first.
  std::string take_all(Findings& found) {
    std::string text;
    while (const auto frame = Loans::borrow(*channel_, detail::Limit{0, nullptr})) {
      if ((*frame)->first != (*frame)->last) found.add("half a frame");
      text += std::to_string((*frame)->first) + " ";
    }
    // All places are there: none was lost with the dead process.
    for (std::uint64_t i = 0; i < 4; ++i) publish(i);
    while (Loans::borrow(*channel_, detail::Limit{0, nullptr})) {
    }
    return text;
  }
  void drop() override { channel_.reset(); }

  channel::ChannelPtr channel_;
};

class Publish : public OnLoans {
 public:
  void prepare() override {
    OnLoans::prepare();
    publish(1);
  }
  void act() override { publish(2); }

 protected:
  void survive(const Death& death, Findings& found) override {
    const std::string there = take_all(found);
    if (there != "1 " && there != "1 2 ") found.add("there is " + there);
    if (death.returned && there != "1 2 ") found.add("what was published is lost");
    saw(there == "1 2 ");
  }
};

TEST(LoanStep, Publish) { kill_lock("loan, written and published", Publish()); }

class Get : public OnLoans {
 public:
  void prepare() override {
    OnLoans::prepare();
    publish(1);
    publish(2);
  }
  void act() override {
    const auto frame = Loans::borrow(*channel_, detail::kForever);
    if (!frame || (*frame)->last != 1) std::abort();
  }

 protected:
  void survive(const Death& death, Findings& found) override {
    const std::string there = take_all(found);
    if (there != "2 " && there != "1 2 ") found.add("there is " + there);
    if (death.returned && there != "2 ") found.add("what was taken came again");
    saw(there == "2 ");
  }
};

TEST(LoanStep, Get) { kill_lock("loan, received and given back", Get()); }

class DropUnpublished : public OnLoans {
 public:
  void act() override {
    auto frame = Loans::lend(channel_, 1);
    frame->first = 7;
  }

 protected:
  void survive(const Death& death, Findings& found) override {
    world_.node().domain().reap();
    if (!take_all(found).empty()) found.add("an unpublished loan arrived");
    saw(death.point % 2 == 0);
  }
};

TEST(LoanStep, Drop) { kill_lock("loan, taken and given back", DropUnpublished()); }

}  // namespace
}  // namespace forklift::test
