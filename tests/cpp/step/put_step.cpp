// A putter is killed after every instruction of a put.
#include <algorithm>
#include <memory>

#include "step/world.h"

namespace forklift::test {
namespace {

class Put : public ChannelOperation {
 public:
  Put(Shape shape, std::size_t already, ChannelOptions options = {}, Shape filling = {})
      : ChannelOperation(options, std::move(shape)), already_(already), filling_(std::move(filling)) {}

  void enter() override { message_ = std::make_unique<Message>(world_.node(), shape_, kChildsNumber); }
  void act() override { must(message_->put(*channel_)); }
  bool seen_both() const { return seen_done_ && seen_undone_; }

 protected:
  void fill() override {
    for (std::size_t i = 0; i < already_; ++i) ChannelOperation::put(filling_, 1 + i);
  }

  // What was there is there; the child's message is there or not, and is there if its put had returned.
  void check_numbers(const Death& death, const std::vector<std::uint64_t>& there, Findings& found) override {
    std::vector<std::uint64_t> with = before_;
    with.push_back(kChildsNumber);
    const bool came = there == with;
    if (!came && (death.returned || there != before_))
      found.add("there is " + numbers_text(there) + ", there was " + numbers_text(before_) +
                (death.returned ? " and the put had returned" : ""));
    (came ? seen_done_ : seen_undone_) = true;
  }

 private:
  std::size_t already_;
  Shape filling_;
  std::unique_ptr<Message> message_;
};

void kill_put(const char* name, Put put) {
  EXPECT_TRUE(survives_every_kill(name, put));
  EXPECT_TRUE(put.seen_both()) << "the message should be there after some deaths and not after others";
}

TEST(PutStep, Small) { kill_put("put, inline", Put({.bytes = 40}, 2)); }
TEST(PutStep, Lease) { kill_put("put, one lease", Put({.bytes = 64, .blocks = {5000}}, 1)); }
TEST(PutStep, ManyLeases) { kill_put("put, three leases", Put({.bytes = 64, .blocks = {64, 5000, 64}}, 1)); }
TEST(PutStep, PrivateLease) {
  kill_put("put, private lease", Put({.bytes = 64, .blocks = {20'000}, .kind = Kind::kPrivate}, 1));
}
TEST(PutStep, Spilled) { kill_put("put, spilled with a lease", Put({.bytes = 9000, .blocks = {300}}, 1)); }
TEST(PutStep, FirstChunk) {
  kill_put("put, first chunk of a channel", Put({.bytes = 40, .blocks = {64}}, 0));
}
// Four messages of 126 units leave seven of the chunk's 511: the fifth begins the next chunk.
TEST(PutStep, NextChunk) {
  kill_put("put, link to the next chunk", Put({.bytes = 600, .blocks = {64}}, 4, {}, {.bytes = 8000}));
}
TEST(PutStep, Bounded) { kill_put("put, bounded", Put({.bytes = 40, .blocks = {64}}, 2, {.capacity = 4})); }
TEST(PutStep, LastPlace) { kill_put("put, last place of a bounded channel", Put({}, 3, {.capacity = 4})); }
TEST(PutStep, BoundedInBytes) {
  kill_put("put, bounded in bytes", Put({.bytes = 40, .blocks = {64}}, 2, {.byte_capacity = 1000}));
}

}  // namespace
}  // namespace forklift::test
