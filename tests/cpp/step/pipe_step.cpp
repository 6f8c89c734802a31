// A writer or a reader of a pipe is killed after every instruction: messages, tokens and ends stay right.
#include <cstring>
#include <memory>

#include "channel/pipe.h"
#include "os/socket.h"
#include "step/world.h"

namespace forklift::test {
namespace {

using channel::PipeEnd;
using channel::PipePair;

class PipeOperation : public Operation {
 public:
  PipeOperation(std::size_t there, bool selectable) : there_(there), selectable_(selectable) {}

  void prepare() override {
    pair_ = std::make_unique<PipePair>(must(channel::make_pipe(world_.node().channels(), false)));
    reader_ = PipeEnd(pair_->first_fd.get(), pair_->second_to_first, nullptr);
    writer_ = PipeEnd(pair_->second_fd.get(), nullptr, pair_->second_to_first);
    if (selectable_) must(reader_.make_selectable());
    for (std::size_t i = 0; i < there_; ++i) send(i);
  }

  void check(const Death& death, Findings& found) override {
    if (death.point % 2 == 1) world_.node().domain().reap();
    const std::size_t left = reader_.in()->size();
    check_left(death, left, found);
    // What was there before the operation, or came by a send that had returned, shows in the descriptor.
    if (must_show(death, left) && !shows()) found.add("messages are there and the descriptor is quiet");
    send(kSurvivor);
    if (!reader_.make_selectable()) found.add("the descriptor cannot be asked for");
    std::uint64_t last = 0;
    for (std::size_t more = left + 1; more > 0; --more) {
      if (!shows()) found.add(std::to_string(more) + " messages are there and the descriptor is quiet");
      Incoming message;
      if (Status got = reader_.receive(message, os::Deadline::after_seconds(1)); !got)
        return found.add("the survivor cannot receive: " + got.to_string());
      std::memcpy(&last, message.bytes().data(), sizeof last);
    }
    if (last != kSurvivor) found.add("the survivor's message is not the last");
    if (reader_.wait_readable(os::Deadline::after_ns(0)).ok() || shows())
      found.add("the pipe is empty and its descriptor is readable");
    pair_->second_fd.close();
    Incoming message;
    if (reader_.receive(message, os::Deadline::after_seconds(1)).code() != Code::kClosed)
      found.add("the end is not seen");
    reader_ = writer_ = PipeEnd();
    pair_.reset();
    world_.expect_marked(found);
    world_.expect_goes_on(found);
  }
  bool seen_both() const { return seen_done_ && seen_undone_; }

 protected:
  static constexpr std::uint64_t kChildsNumber = 1'000'000;
  static constexpr std::uint64_t kSurvivor = 2'000'000;
  virtual void check_left(const Death& death, std::size_t left, Findings& found) = 0;
  virtual bool must_show(const Death& death, std::size_t left) const = 0;

  void send(std::uint64_t number) {
    must(writer_.send({.bytes = std::as_bytes(std::span(&number, 1))}, os::Deadline::after_seconds(2)));
  }
  bool shows() const { return os::wait_readable(pair_->first_fd.get(), 0).readable; }

  World world_;
  std::unique_ptr<PipePair> pair_;
  PipeEnd reader_;
  PipeEnd writer_;
  const std::size_t there_;
  const bool selectable_;
  bool seen_done_ = false;
  bool seen_undone_ = false;
};

class Send : public PipeOperation {
 public:
  using PipeOperation::PipeOperation;
  void act() override { send(kChildsNumber); }

 protected:
  void check_left(const Death& death, std::size_t left, Findings& found) override {
    const bool came = left == there_ + 1;
    if (!came && (death.returned || left != there_)) found.add(std::to_string(left) + " messages are there");
    (came ? seen_done_ : seen_undone_) = true;
  }
  bool must_show(const Death& death, std::size_t) const override { return there_ > 0 || death.returned; }
};

class Receive : public PipeOperation {
 public:
  using PipeOperation::PipeOperation;
  void act() override {
    Incoming message;
    must(reader_.receive(message, os::Deadline::after_seconds(2)));
  }

 protected:
  void check_left(const Death& death, std::size_t left, Findings& found) override {
    const bool taken = left == there_ - 1;
    if (!taken && (death.returned || left != there_)) found.add(std::to_string(left) + " messages are there");
    (taken ? seen_done_ : seen_undone_) = true;
  }
  bool must_show(const Death&, std::size_t left) const override { return left > 0; }
};

class MakeSelectable : public Receive {
 public:
  explicit MakeSelectable(std::size_t there) : Receive(there, false) {}
  void act() override { must(reader_.make_selectable()); }

 protected:
  void check_left(const Death&, std::size_t left, Findings& found) override {
    if (left != there_) found.add(std::to_string(left) + " messages are there");
  }
};

template <class T>
void kill_pipe(const char* name, T operation) {
  EXPECT_TRUE(survives_every_kill(name, operation));
  EXPECT_TRUE(operation.seen_both());
}

TEST(PipeStep, SendFirst) { kill_pipe("pipe, send into an empty one", Send(0, false)); }
TEST(PipeStep, SendFirstSelectable) { kill_pipe("pipe, send, somebody selects", Send(0, true)); }
TEST(PipeStep, SendNext) { kill_pipe("pipe, send behind others", Send(2, true)); }
TEST(PipeStep, ReceiveLast) { kill_pipe("pipe, receive the last", Receive(1, false)); }
TEST(PipeStep, ReceiveLastSelectable) { kill_pipe("pipe, receive the last, selected", Receive(1, true)); }
TEST(PipeStep, ReceiveNext) { kill_pipe("pipe, receive one of several", Receive(3, true)); }
TEST(PipeStep, MakeSelectable) {
  MakeSelectable operation(2);
  EXPECT_TRUE(survives_every_kill("pipe, ask for the descriptor", operation));
}

}  // namespace
}  // namespace forklift::test
