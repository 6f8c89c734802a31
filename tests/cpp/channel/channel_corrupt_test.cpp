// What a wild writer may leave in a channel's memory: an error that names it, no leak, and a channel that
// goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "support/node_fixture.h"

namespace forklift::channel {
namespace {

using arena::Handle;
using arena::Kind;
using arena::LeasePtr;
using os::Deadline;
using test::audit_of;
using test::bytes_of;
using test::get_text;
using test::put_text;

class ChannelCorruptTest : public test::NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    channel_ = make_channel({.byte_capacity = 10 << 20});
  }
  void TearDown() override {
    channel_.reset();
    NodeFixture::TearDown();
  }

  ChannelRow& row() { return node().channels().unchecked_row(channel_->id().index); }
  std::byte* at(Position position) {
    return node().chunks().chunk(position.chunk())->units + (position.unit() - 1) * std::size_t{kUnitBytes};
  }
  // The oldest message's record, and its first handle.
  RecordHeader& record() { return *reinterpret_cast<RecordHeader*>(at(head())); }
  Handle& handle() { return *reinterpret_cast<Handle*>(at(head()) + sizeof(RecordHeader)); }
  Position head() { return Position::unpack(row().head.load()); }

  void put_block(const std::string& text) {
    LeasePtr block = allocate(Kind::kShare, 5000);
    ASSERT_OK(channel_->put({.bytes = bytes_of(text), .leases = {&block, 1}}, Deadline::never()));
  }
  Status get_any() {
    Incoming message;
    const Status status = channel_->get(message, Deadline::after_seconds(0));
    if (!status) {
      EXPECT_TRUE(message.leases().empty());
      EXPECT_TRUE(message.bytes().empty());
    }
    return status;
  }
  // Nothing leaked, and messages pass again.
  void expect_sound() {
    EXPECT_EQ(channel_->size(), 0U);
    EXPECT_EQ(arena().stats().held_blocks, 0U);
    EXPECT_EQ(audit_of(node()), "");
    for (int i = 0; i < 5; ++i) {
      put_block("after");
      ASSERT_OK(put_text(*channel_, std::string(9000, 'x')));
    }
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(*get_text(*channel_), "after");
      EXPECT_EQ(get_text(*channel_)->size(), 9000U);
    }
    EXPECT_EQ(audit_of(node()), "");
  }

  ChannelPtr channel_;
};

// The frame (length and sequence) is good: one message is lost, the next one comes.
TEST_F(ChannelCorruptTest, ARecordWithWrongPartsIsLostAlone) {
  const std::vector<std::function<void()>> damages = {
      [&] { record().bytes = 0xffffffff; },
      [&] { record().bytes = 65; },
      [&] { record().handles = 0xffff; },
      [&] { record().handles = 2; },
      [&] { record().spilled = 2; },
      [&] { record().spilled = 0xff; },
      [&] { record().spilled = 1, record().handles = 0; },
  };
  for (const auto& damage : damages) {
    put_block("lost");
    put_block("next");
    damage();
    EXPECT_CODE(Code::kCorrupt, get_any());
    EXPECT_EQ(*get_text(*channel_, 0), "next");
    expect_sound();
  }
}

// Without its frame nobody knows where the next record begins: what is there is given up, by number.
TEST_F(ChannelCorruptTest, ARecordWithoutAFrameTakesTheRestWithIt) {
  const std::vector<std::function<void()>> damages = {
      [&] { ++record().sequence; },
      [&] { record().sequence = 0xffffffff; },
      [&] { record().units = 0; },
      [&] { record().units = 0xffffffff; },
      [&] { record().units = 513; },
      [&] { std::memset(at(head()), 0xff, kUnitBytes); },
      [&] { std::memset(at(head()), 0, kUnitBytes); },
  };
  for (const auto& damage : damages) {
    for (int i = 0; i < 3; ++i) put_block("lost");
    ASSERT_OK(put_text(*channel_, std::string(20'000, 'x')));  // spilled
    damage();
    const Status status = get_any();
    EXPECT_CODE(Code::kCorrupt, status);
    EXPECT_THAT(std::string(status.what()), testing::HasSubstr("4 messages"));
    expect_sound();
  }
}

TEST_F(ChannelCorruptTest, AWrongFrameAmongManyChunksGivesThemAllBack) {
  for (int i = 0; i < 200; ++i) ASSERT_OK(put_text(*channel_, std::string(8000, 'x')));
  for (int i = 0; i < 10; ++i) ASSERT_OK(get_text(*channel_));
  put_block("lost");
  ++record().sequence;
  EXPECT_CODE(Code::kCorrupt, get_any());
  expect_sound();
}

TEST_F(ChannelCorruptTest, ALengthThatLiesIsFoundAtTheNextRecord) {
  for (int i = 0; i < 5; ++i) put_block("message");
  record().units += 1;
  EXPECT_OK(get_any());  // it is readable itself
  EXPECT_CODE(Code::kCorrupt, get_any());
  expect_sound();
}

TEST_F(ChannelCorruptTest, AWrongHandleLosesItsMessageOnly) {
  const std::vector<std::function<void()>> damages = {
      [&] { handle().segment = 3; },
      [&] { handle().block = 0xffffffff; },
      [&] { handle().block ^= 1; },
      [&] { ++handle().generation; },
      [&] { handle().offset += 64; },
      [&] { handle().length = 8193; },
      [&] { handle().length = 0; },
      [&] { handle().lease = 0xffffffff; },
      [&] { handle().lease ^= 1; },
      [&] { std::memset(at(head()) + sizeof(RecordHeader), 0xff, sizeof(Handle)); },
      [&] { handle() = Handle{}; },
  };
  LeasePtr mine = allocate(Kind::kShare, 5000);
  for (const auto& damage : damages) {
    put_block("lost");
    put_block("next");
    damage();
    EXPECT_CODE(Code::kCorrupt, get_any());
    EXPECT_TRUE(mine->held());
    EXPECT_EQ(*get_text(*channel_, 0), "next");
    EXPECT_EQ(arena().stats().held_blocks, 1U);
    EXPECT_EQ(audit_of(node()), "");
  }
  // The handle of a block that somebody holds, in a message that may not pass it on.
  put_block("lost");
  handle() = mine->handle();
  EXPECT_CODE(Code::kCorrupt, get_any());
  EXPECT_EQ(arena().stats().held_blocks, 1U);
  mine.reset();
  expect_sound();
}

TEST_F(ChannelCorruptTest, OneWrongHandleOfManyLosesAllOfThem) {
  for (const std::size_t wrong : {0U, 1U, 9U}) {
    std::vector<LeasePtr> leases;
    for (int i = 0; i < 10; ++i) leases.push_back(allocate(Kind::kShare, 5000));
    ASSERT_OK(channel_->put({.leases = leases}, Deadline::never()));
    put_block("next");
    ++(&handle())[wrong].generation;
    EXPECT_CODE(Code::kCorrupt, get_any());
    EXPECT_EQ(*get_text(*channel_, 0), "next");
    expect_sound();
  }
  // One right, named twice.
  std::vector<LeasePtr> leases{allocate(Kind::kShare, 5000), allocate(Kind::kShare, 5000)};
  ASSERT_OK(channel_->put({.leases = leases}, Deadline::never()));
  (&handle())[1] = handle();
  EXPECT_CODE(Code::kCorrupt, get_any());
  expect_sound();
}

TEST_F(ChannelCorruptTest, AWrongSpillLosesItsMessageOnly) {
  const auto spill = [&]() -> SpillHeader& {
    return *reinterpret_cast<SpillHeader*>(arena().shared_data(handle()));
  };
  const auto spilled_handle = [&](std::size_t i) -> Handle& {
    return reinterpret_cast<Handle*>(arena().shared_data(handle()) + sizeof(SpillHeader))[i];
  };
  const std::vector<std::function<void()>> damages = {
      [&] { spill().handles = 0xffffffff; },
      [&] { spill().handles = 600; },
      [&] { spill().bytes = ~std::uint64_t{0}; },
      [&] { spill().bytes = 30'000; },
      [&] { handle().length = 8; },
      [&] { ++handle().generation; },
      [&] { ++spilled_handle(0).generation; },
      [&] { spilled_handle(299).lease ^= 1; },
      [&] { spilled_handle(5) = spilled_handle(6); },
      [&] { spilled_handle(5) = handle(); },
  };
  for (const auto& damage : damages) {
    std::vector<LeasePtr> leases;
    for (int i = 0; i < 300; ++i) leases.push_back(allocate(Kind::kShare, 64));
    ASSERT_OK(channel_->put({.bytes = bytes_of("lost"), .leases = leases}, Deadline::never()));
    put_block("next");
    ASSERT_EQ(record().spilled, 1);
    damage();
    EXPECT_CODE(Code::kCorrupt, get_any());
    EXPECT_EQ(*get_text(*channel_, 0), "next");
    expect_sound();
  }
}

TEST_F(ChannelCorruptTest, TheLastHolderGetsRidOfWhatIsWrong) {
  for (int i = 0; i < 10; ++i) put_block("lost");
  ++handle().generation;
  EXPECT_OK(get_text(*channel_, 0).code() == Code::kCorrupt ? Status() : Status(Code::kInvalid, "read"));
  record().units = 0;
  channel_.reset();
  EXPECT_EQ(arena().stats().held_blocks, 0U);
  EXPECT_EQ(node().channels().live(), 0U);
  EXPECT_EQ(audit_of(node()), "");
  channel_ = make_channel();
  expect_sound();
}

TEST_F(ChannelCorruptTest, TheAuditSeesDamage) {
  for (int i = 0; i < 10; ++i) put_block("message");
  ++record().sequence;
  EXPECT_THAT(audit_of(node()), testing::HasSubstr("C1"));
  --record().sequence;
  ++record().weight;
  EXPECT_THAT(audit_of(node()), testing::HasSubstr("bytes booked"));
  --record().weight;
  Word& used = node().chunks().state().used;
  used = used + 1;
  EXPECT_THAT(audit_of(node()), testing::HasSubstr("in 0 places"));
  used = used - 1;
  EXPECT_EQ(audit_of(node()), "");
}

// The first put of a channel died between naming its chunk as the head and committing: the chunk is in one
// place.
TEST_F(ChannelCorruptTest, AChannelWhoseFirstPutDiedIsEmptiedOnce) {
  ASSERT_OK(node().chunks().take_into(row().spare));
  const Position tail = Position::unpack(row().tail.load());
  row().head = Position{static_cast<std::uint32_t>(row().spare.load()), 1, tail.sequence()}.pack();
  EXPECT_EQ(audit_of(node()), "");
  channel_.reset();
  EXPECT_EQ(audit_of(node()), "");
  channel_ = make_channel();
  expect_sound();
}

}  // namespace
}  // namespace forklift::channel
