// A getter is killed after every instruction of a get.
#include <memory>

#include "step/world.h"

namespace forklift::test {
namespace {

class Get : public ChannelOperation {
 public:
  Get(Shape shape, std::size_t there, ChannelOptions options = {})
      : ChannelOperation(options, std::move(shape)), there_(there), message_(used_before(world_.node())) {}

  void act() override {
    must(channel_->get(*message_, os::Deadline::after_seconds(2)));
    for (const LeasePtr& lease : message_->leases()) must(lease->arena().privatise(*lease));
    message_->clear();  // gives its leases back: stepped, too
  }
  bool seen_both() const { return seen_done_ && seen_undone_; }

 protected:
  void fill() override {
    for (std::size_t i = 0; i < there_; ++i) put(1 + i);
  }

  // At most the first message is gone, and it is gone when the get had returned.
  void check_numbers(const Death& death, const std::vector<std::uint64_t>& there, Findings& found) override {
    const std::vector<std::uint64_t> rest(before_.begin() + 1, before_.end());
    const bool taken = there == rest;
    if (!taken && (death.returned || there != before_))
      found.add("there is " + numbers_text(there) + ", there was " + numbers_text(before_) +
                (death.returned ? " and the get had returned" : ""));
    (taken ? seen_done_ : seen_undone_) = true;
  }

 private:
  std::size_t there_;
  std::unique_ptr<Incoming> message_;
};

void kill_get(const char* name, Get& get, const StepOptions& options = {}) {
  EXPECT_TRUE(survives_every_kill(name, get, options));
  EXPECT_TRUE(get.seen_both()) << "the message should be gone after some deaths and not after others";
}
void kill_get(const char* name, Get&& get) { kill_get(name, get); }

TEST(GetStep, Small) { kill_get("get, inline", Get({.bytes = 40}, 3)); }
TEST(GetStep, Last) { kill_get("get, last message", Get({.bytes = 40}, 1)); }
TEST(GetStep, Lease) { kill_get("get, one lease", Get({.bytes = 64, .blocks = {5000}}, 2)); }
TEST(GetStep, ManyLeases) { kill_get("get, three leases", Get({.bytes = 64, .blocks = {64, 5000, 64}}, 2)); }
TEST(GetStep, PrivateLease) {
  kill_get("get, private lease, made one's own",
           Get({.bytes = 64, .blocks = {20'000}, .kind = Kind::kPrivate}, 2));
}
TEST(GetStep, Spilled) { kill_get("get, spilled with a lease", Get({.bytes = 9000, .blocks = {300}}, 2)); }
TEST(GetStep, Bounded) { kill_get("get, bounded", Get({.bytes = 40, .blocks = {64}}, 4, {.capacity = 4})); }
TEST(GetStep, BoundedInBytes) {
  kill_get("get, bounded in bytes", Get({.bytes = 40, .blocks = {64}}, 3, {.byte_capacity = 1000}));
}

// The first chunk's last message has been taken: the next get releases the chunk to the pool.
class GetNextChunk : public Get {
 public:
  explicit GetNextChunk(bool punched) : Get({.bytes = 8000}, 5), punched_(punched) {}

 protected:
  void fill() override {
    if (punched_ && world_.node().chunks().state().warm_count.load() < kKeptWarm) keep_many_chunks();
    Get::fill();
    for (int i = 0; i < 4; ++i) (void)get();
  }

 private:
  static constexpr std::uint64_t kKeptWarm = 1024;
  // Beyond so many free chunks, one that is given back loses its pages first.
  void keep_many_chunks() {
    const ChannelPtr other = must(channel::Channel::create(world_.node().channels(), {}));
    for (std::uint64_t i = 0; i < 4 * (kKeptWarm + 8); ++i)
      must(Message(world_.node(), shape_, i).put(*other));
  }
  bool punched_;
};

TEST(GetStep, NextChunk) {
  GetNextChunk operation(false);
  kill_get("get, release of a chunk", operation);
}
TEST(GetStep, NextChunkPunched) {
  GetNextChunk operation(true);
  kill_get("get, release of a chunk, its pages given back", operation);
}

// A getter that waits is killed: whoever comes later is woken all the same.
class GetFromEmpty : public ChannelOperation {
 public:
  void act() override {
    const Status status = channel_->get(*message_, os::Deadline::after_ns(300'000));
    if (status.code() != Code::kTimeout) must(status);
  }

 protected:
  void check_numbers(const Death&, const std::vector<std::uint64_t>& there, Findings& found) override {
    if (!there.empty()) found.add("messages from nowhere: " + numbers_text(there));
  }

 private:
  std::unique_ptr<Incoming> message_ = used_before(world_.node());
};

TEST(GetStep, Empty) {
  GetFromEmpty operation;
  EXPECT_TRUE(survives_every_kill("get, waiting", operation, {.most_points = 3000}));
}

}  // namespace
}  // namespace forklift::test
