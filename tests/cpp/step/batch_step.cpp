// A process is killed after every instruction of a put and of a get of several messages.
#include <array>
#include <memory>

#include "channel/batch.h"
#include "step/world.h"

namespace forklift::test {
namespace {

constexpr std::size_t kMany = 5;

// Batches of messages of 16 bytes, each its number and its length, as the survivors expect.
class PutMany : public ChannelOperation {
 public:
  PutMany(std::size_t already, ChannelOptions options = {}, Shape filling = {})
      : ChannelOperation(options), already_(already), filling_(std::move(filling)) {}

  void enter() override {
    for (std::size_t i = 0; i < kMany; ++i)
      singles_[i] = std::make_unique<Message>(world_.node(), shape_, kChildsNumber + i);
  }
  void act() override {
    std::array<channel::Outgoing, kMany> messages;
    for (std::size_t i = 0; i < kMany; ++i) messages[i] = singles_[i]->outgoing();
    std::size_t count = 0;
    must(channel_->put_many(messages, count, os::Deadline::after_seconds(2)));
  }
  bool seen_both() const { return seen_done_ && seen_undone_; }

 protected:
  void fill() override {
    for (std::size_t i = 0; i < already_; ++i) ChannelOperation::put(filling_, 1 + i);
  }

  // What was there is there, and behind it the first messages of the batch, whole; all if the put had returned. Of one
  // step of the put there is all or nothing: `whole_` messages of the batch.
  void check_numbers(const Death& death, const std::vector<std::uint64_t>& there, Findings& found) override {
    std::vector<std::uint64_t> with = before_;
    std::size_t came = 0;
    while (with != there && came < kMany) with.push_back(kChildsNumber + came++);
    const bool in_steps = came == 0 || came == kMany || came == first_step();
    if (with != there || !in_steps || (death.returned && came != kMany))
      found.add("there is " + numbers_text(there) + ", there was " + numbers_text(before_) +
                (death.returned ? " and the put had returned" : ""));
    (came == kMany ? seen_done_ : seen_undone_) |= true;
  }
  // Where bytes are bounded, an odd number is put in one step.
  virtual std::size_t first_step() const { return kMany; }

 private:
  std::size_t already_;
  Shape filling_;
  std::array<std::unique_ptr<Message>, kMany> singles_;
};

void kill_put(const char* name, PutMany put) {
  EXPECT_TRUE(survives_every_kill(name, put));
  EXPECT_TRUE(put.seen_both()) << "the messages should be there after some deaths and not after others";
}

TEST(BatchStep, Put) { kill_put("put_many", PutMany(2)); }
TEST(BatchStep, PutFirstChunk) { kill_put("put_many, first chunk of a channel", PutMany(0)); }
// Four messages of 126 units and one of `units` leave less of the chunk's 511 than the batch needs.
class PutAtTheEnd : public PutMany {
 public:
  PutAtTheEnd(std::size_t units, std::size_t first)
      : PutMany(4, {}, {.bytes = 8000}), bytes_(units * 64 - 40), first_(first) {}
  void fill() override {
    PutMany::fill();
    ChannelOperation::put({.bytes = bytes_}, 5);
  }
  std::size_t first_step() const override { return first_; }

 private:
  std::size_t bytes_;
  std::size_t first_;
};

void kill_put_at_the_end(const char* name, PutAtTheEnd put) {
  EXPECT_TRUE(survives_every_kill(name, put));
  EXPECT_TRUE(put.seen_both());
}

TEST(BatchStep, PutNextChunk) { kill_put_at_the_end("put_many, the next chunk", PutAtTheEnd(7, kMany)); }
TEST(BatchStep, PutTwoChunks) { kill_put_at_the_end("put_many, in two chunks", PutAtTheEnd(6, 2)); }
TEST(BatchStep, PutBounded) { kill_put("put_many, bounded", PutMany(2, {.capacity = 8})); }
TEST(BatchStep, PutBoundedInBytes) {
  kill_put("put_many, bounded in bytes", PutMany(2, {.byte_capacity = 1000}));
}

class GetMany : public ChannelOperation {
 public:
  explicit GetMany(std::size_t most, ChannelOptions options = {}, Shape shape = {}, bool packed = true)
      : ChannelOperation(options, std::move(shape)), most_(most), packed_(packed) {}

  void act() override { must(channel_->get_many(*batch_, *single_, most_, os::Deadline::after_seconds(2))); }
  bool seen_both() const { return seen_done_ && seen_undone_; }

 protected:
  void fill() override {
    if (!packed_) {
      for (std::size_t i = 0; i < kMany; ++i) put(1 + i);
    } else {
      std::array<std::unique_ptr<Message>, kMany> messages;
      std::array<channel::Outgoing, kMany> outgoing;
      for (std::size_t i = 0; i < kMany; ++i) {
        messages[i] = std::make_unique<Message>(world_.node(), shape_, 1 + i);
        outgoing[i] = messages[i]->outgoing();
        before_.push_back(1 + i);
      }
      std::size_t count = 0;
      must(channel_->put_many(outgoing, count, os::Deadline::after_seconds(2)));
    }
    // The buffers of the object are there before the steps begin.
    const ChannelPtr other = must(channel::Channel::create(world_.node().channels(), {}));
    must(Message(world_.node(), {}, 1).put(*other));
    must(other->get_many(*batch_, *single_, 1, os::Deadline::after_seconds(2)));
  }

  // What is in the channel is what was there, but for the first `most` together, which are gone if the get had returned.
  void check_numbers(const Death& death, const std::vector<std::uint64_t>& there, Findings& found) override {
    const auto taken = static_cast<std::ptrdiff_t>(std::min(most_, before_.size()));
    const std::vector<std::uint64_t> rest(before_.begin() + taken, before_.end());
    const bool gone = there == rest;
    if (!gone && (death.returned || there != before_))
      found.add("there is " + numbers_text(there) + ", there was " + numbers_text(before_) +
                (death.returned ? " and the get had returned" : ""));
    (gone ? seen_done_ : seen_undone_) = true;
  }

 private:
  std::size_t most_;
  bool packed_;
  std::unique_ptr<channel::Batch> batch_ = std::make_unique<channel::Batch>();
  std::unique_ptr<Incoming> single_ = used_before(world_.node());
};

void kill_get(const char* name, GetMany get) {
  EXPECT_TRUE(survives_every_kill(name, get));
  EXPECT_TRUE(get.seen_both()) << "the messages should be gone after some deaths and not after others";
}

TEST(BatchStep, GetAll) { kill_get("get_many, all of a record", GetMany(kMany)); }
TEST(BatchStep, GetSome) { kill_get("get_many, a part of a record", GetMany(3)); }
TEST(BatchStep, GetSingles) { kill_get("get_many, several records", GetMany(3, {}, {.bytes = 40}, false)); }
TEST(BatchStep, GetBounded) { kill_get("get_many, bounded", GetMany(kMany, {.capacity = kMany})); }
TEST(BatchStep, GetBoundedInBytes) {
  kill_get("get_many, bounded in bytes", GetMany(3, {.byte_capacity = 1000}));
}

// A get in the middle of a packed record, one by one.
class GetOneOfMany : public GetMany {
 public:
  GetOneOfMany() : GetMany(1) {}
  void act() override { must(channel_->get(*message_, os::Deadline::after_seconds(2))); }

 private:
  std::unique_ptr<Incoming> message_ = used_before(world_.node());
};

TEST(BatchStep, GetOneOfARecord) {
  GetOneOfMany get;
  EXPECT_TRUE(survives_every_kill("get, one of a packed record", get));
  EXPECT_TRUE(get.seen_both());
}

}  // namespace
}  // namespace forklift::test
