// Leases that are noted while a message is encoded and made later. Values and tensors: transport_test.cpp.
#include "message/message_builder.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "support/node_fixture.h"

namespace forklift::message {
namespace {

class MessageBuilderTest : public test::NodeFixture {
 protected:
  MessageBuilderTest() : NodeFixture(test::kTinyDomain) {}

  static std::vector<std::uint8_t> counting(std::size_t count) {
    std::vector<std::uint8_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), std::uint8_t{0});
    return numbers;
  }
  static bool begins_with(const arena::Lease& lease, const std::vector<std::uint8_t>& numbers) {
    return std::memcmp(lease.data(), numbers.data(), numbers.size()) == 0;
  }
  std::uint64_t blocks() { return arena().stats().held_blocks; }

  MessageBuilder builder_;
};

TEST_F(MessageBuilderTest, NotingAllocatesNothing) {
  const std::vector<std::uint8_t> numbers = counting(5000);
  const std::uint64_t before = blocks();
  EXPECT_FALSE(builder_.noted());
  EXPECT_EQ(builder_.note_copy(numbers.data(), numbers.size(), arena::Kind::kPrivate).lease, 0U);
  EXPECT_EQ(builder_.note_copy(numbers.data(), 100, arena::Kind::kShare).lease, 1U);
  EXPECT_TRUE(builder_.noted());
  EXPECT_FALSE(builder_.holds_leases());
  EXPECT_EQ(builder_.noted_bytes(), 5100U);
  EXPECT_EQ(builder_.message().copied_bytes, 5100U);
  EXPECT_EQ(blocks(), before);
  builder_.clear();
  EXPECT_FALSE(builder_.noted());
  EXPECT_EQ(builder_.noted_bytes(), 0U);
}

TEST_F(MessageBuilderTest, ACopyArrives) {
  std::vector<std::uint8_t> numbers = counting(5000);
  builder_.note_copy(numbers.data(), numbers.size(), arena::Kind::kPrivate);
  ASSERT_TRUE(builder_.allocate(arena()).ok());
  ASSERT_TRUE(builder_.allocate(arena()).ok());  // changes nothing
  builder_.copy();
  numbers[7] = 99;
  builder_.copy();  // nor does this
  EXPECT_EQ(builder_.copied_bytes(), 5000U);
  const channel::ChannelPtr channel = make_channel();
  ASSERT_TRUE(channel->put(builder_.message(kNativeCodec), os::Deadline::never()).ok());
  builder_.clear();
  channel::Incoming incoming;
  ASSERT_TRUE(channel->get(incoming, os::Deadline::never()).ok());
  ASSERT_EQ(incoming.leases().size(), 1U);
  EXPECT_EQ(incoming.codec(), kNativeCodec);
  EXPECT_TRUE(begins_with(*incoming.leases()[0], counting(5000)));
  incoming.clear();
}

TEST_F(MessageBuilderTest, StridedMemoryIsCopiedWithoutGaps) {
  const std::vector<std::uint8_t> numbers = counting(24);
  PendingCopy& copy = builder_.note_copy(numbers.data(), 6, arena::Kind::kPrivate);
  copy.shape = {3, 2};
  copy.strides = {8, 2};
  ASSERT_TRUE(builder_.allocate(arena()).ok());
  builder_.copy();
  EXPECT_TRUE(begins_with(*builder_.leases()[0], {0, 2, 8, 10, 16, 18}));
  builder_.clear();
}

TEST_F(MessageBuilderTest, PartsShareABlock) {
  const std::vector<std::uint8_t> numbers = counting(200);
  PendingCopy& first = builder_.note_copy(numbers.data(), 50, arena::Kind::kShare);
  first.block_bytes = 200;
  builder_.note_part(first.lease, 50, numbers.data() + 50, 150);
  ASSERT_TRUE(builder_.allocate(arena()).ok());
  builder_.copy();
  ASSERT_EQ(builder_.leases().size(), 1U);
  EXPECT_TRUE(begins_with(*builder_.leases()[0], numbers));
  EXPECT_EQ(builder_.copied_bytes(), 200U);
  builder_.clear();
}

TEST_F(MessageBuilderTest, ASharedBlockGetsAnotherLease) {
  arena::LeasePtr block = allocate(arena::Kind::kShare, 5000);
  EXPECT_EQ(builder_.note_share(block), 0U);
  ASSERT_TRUE(builder_.allocate(arena()).ok());
  builder_.copy();
  EXPECT_EQ(builder_.leases()[0]->data(), block->data());
  EXPECT_NE(builder_.leases()[0], block);
  EXPECT_EQ(builder_.shared_bytes(), block->size());
  EXPECT_EQ(builder_.copied_bytes(), 0U);
  builder_.clear();
}

TEST_F(MessageBuilderTest, ABlockOfAnotherDomainIsCopied) {
  const std::vector<std::uint8_t> numbers = counting(5000);
  const Result<std::unique_ptr<node::Node>> other = node::Node::create(test::kTinyDomain);
  ASSERT_TRUE(other.ok());
  Result<arena::LeasePtr> made = (*other)->arena().allocate(arena::Kind::kShare, numbers.size());
  ASSERT_TRUE(made.ok());
  arena::LeasePtr block = *std::move(made);
  std::memcpy(block->data(), numbers.data(), numbers.size());
  builder_.note_share(block);
  ASSERT_TRUE(builder_.allocate(arena()).ok());
  ASSERT_TRUE(builder_.allocate(arena()).ok());  // changes nothing
  builder_.copy();
  EXPECT_EQ(&builder_.leases()[0]->arena(), &arena());
  EXPECT_TRUE(begins_with(*builder_.leases()[0], numbers));
  EXPECT_EQ(builder_.copied_bytes(), block->size());
  EXPECT_EQ(builder_.shared_bytes(), 0U);
  const channel::ChannelPtr channel = make_channel();
  EXPECT_TRUE(channel->put(builder_.message(kNativeCodec), os::Deadline::never()).ok());
  builder_.clear();
  // As it is it does not cross, and the error says between which domains.
  const Status refused = channel->put({{}, {&block, 1}, kNativeCodec, 0}, os::Deadline::never());
  EXPECT_EQ(refused.code(), Code::kInvalid);
  (*other)->domain().call_it("camera");
  EXPECT_NE(std::string((*other)->domain().described()).find("camera"), std::string::npos);
  EXPECT_NE(
      channel->put({{}, {&block, 1}, kNativeCodec, 0}, os::Deadline::never()).to_string().find("camera"),
      std::string::npos);
}

TEST_F(MessageBuilderTest, AShareReplacesACopy) {
  const std::vector<std::uint8_t> numbers = counting(5000);
  arena::LeasePtr block = allocate(arena::Kind::kShare, 5000);
  const std::uint32_t lease = builder_.note_copy(numbers.data(), 5000, arena::Kind::kShare).lease;
  ASSERT_TRUE(builder_.allocate(arena()).ok());
  builder_.copy();
  builder_.share_instead(lease, block);
  ASSERT_TRUE(builder_.allocate(arena()).ok());
  ASSERT_EQ(builder_.leases().size(), 1U);
  EXPECT_EQ(builder_.leases()[0]->data(), block->data());
  builder_.clear();
}

TEST_F(MessageBuilderTest, AllocationGoesOnWhereItFailed) {
  const std::vector<std::uint8_t> numbers = counting(5000);
  constexpr std::size_t kLarge = std::size_t{24} << 20;  // the domain has room for one
  arena::LeasePtr large = allocate(arena::Kind::kShare, kLarge);
  builder_.note_copy(numbers.data(), numbers.size(), arena::Kind::kPrivate);
  builder_.note_copy(large->data(), kLarge, arena::Kind::kShare);
  EXPECT_EQ(builder_.allocate(arena()).code(), Code::kNoSpace);
  const arena::LeasePtr first = builder_.leases()[0];
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(builder_.leases()[1], nullptr);
  large.reset();
  ASSERT_TRUE(builder_.allocate(arena()).ok());
  EXPECT_EQ(builder_.leases()[0], first);
  builder_.clear();
}

}  // namespace
}  // namespace forklift::message
