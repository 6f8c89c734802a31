// Batches through a channel: what comes is what was put, in order, whatever the mixture of calls, lengths and bounds.
#include "channel/batch.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>
#include <thread>

#include "channel/record.h"
#include "support/asleep.h"
#include "support/node_fixture.h"

namespace forklift::channel {
namespace {

using arena::Kind;
using arena::LeasePtr;
using os::Deadline;
using test::audit_of;
using test::bytes_of;
using test::get_text;
using test::put_text;
using test::text_of;

const Deadline kNow = Deadline::after_ns(0);

class BatchTest : public test::NodeFixture {
 protected:
  // How many were put; `status` as put_many() answers.
  static std::size_t put_texts(Channel& channel, const std::vector<std::string>& texts, Status& status,
                               Deadline deadline = kNow) {
    std::vector<Outgoing> messages;
    for (const std::string& text : texts) messages.push_back({.bytes = bytes_of(text), .codec = 1, .tag = 7});
    std::size_t count = 0;
    status = channel.put_many(messages, count, deadline);
    return count;
  }
  static void put_all(Channel& channel, const std::vector<std::string>& texts) {
    Status status;
    EXPECT_EQ(put_texts(channel, texts, status, Deadline::after_seconds(10)), texts.size());
    EXPECT_OK(status);
  }
  // What one get_many() takes.
  std::vector<std::string> get_texts(Channel& channel, std::size_t most) {
    std::vector<std::string> texts;
    EXPECT_OK(channel.get_many(batch_, single_, most, kNow));
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      const auto bytes = batch_.bytes(i);
      texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    if (batch_.empty()) texts.push_back(text_of(single_));
    single_.clear();
    return texts;
  }
  ChannelRow& row_of(const ChannelPtr& channel) {
    return node().channels().unchecked_row(channel->id().index);
  }
  std::uint32_t units_used(const ChannelPtr& channel) {
    return Position::unpack(row_of(channel).tail.load()).unit() -
           Position::unpack(row_of(channel).head.load()).unit();
  }

  Batch batch_;
  Incoming single_;
};

TEST_F(BatchTest, MessagesOfOneLengthShareARecord) {
  ChannelPtr channel = make_channel();
  put_all(*channel, std::vector<std::string>(64, "12345678"));
  EXPECT_EQ(units_used(channel), 9U);  // 32 bytes of header and 512 of messages
  EXPECT_EQ(channel->size(), 64U);
  EXPECT_EQ(audit_of(node()), "");
  EXPECT_EQ(get_texts(*channel, 10), std::vector<std::string>(10, "12345678"));
  EXPECT_EQ(channel->size(), 54U);
  EXPECT_EQ(audit_of(node()), "");
  EXPECT_EQ(*get_text(*channel), "12345678");  // from the middle of a record
  EXPECT_EQ(get_texts(*channel, 100).size(), 53U);
  EXPECT_EQ(units_used(channel), 0U);
  EXPECT_EQ(audit_of(node()), "");
}

TEST_F(BatchTest, AnyMixtureOfCallsKeepsTheOrder) {
  for (const ChannelOptions& options :
       {ChannelOptions{}, ChannelOptions{.capacity = 40}, ChannelOptions{.byte_capacity = 3000},
        ChannelOptions{.capacity = 50, .byte_capacity = 3000}}) {
    SCOPED_TRACE(std::to_string(options.capacity) + " " + std::to_string(options.byte_capacity));
    ChannelPtr channel = make_channel(options);
    std::mt19937 engine(options.capacity + static_cast<unsigned>(options.byte_capacity));
    const auto random = [&engine] { return static_cast<unsigned>(engine()); };
    std::deque<std::string> expected;
    unsigned number = 0;
    for (int round = 0; round < 500; ++round) {
      std::vector<std::string> texts;
      const unsigned length = random() % 4 == 0 ? random() % 600 : random() % 20;
      for (unsigned i = random() % 90; i != 0; --i) {
        std::string text = std::to_string(number++);
        text.resize(random() % 8 == 0 ? random() % 9000 : std::max<std::size_t>(length, text.size()), '.');
        texts.push_back(text);
      }
      Status status;
      const std::size_t put = put_texts(*channel, texts, status);
      ASSERT_EQ(status.ok(), put == texts.size());
      ASSERT_TRUE(status.ok() || status.code() == Code::kTimeout) << status.to_string();
      expected.insert(expected.end(), texts.begin(), texts.begin() + static_cast<std::ptrdiff_t>(put));
      ASSERT_EQ(channel->size(), expected.size());
      ASSERT_EQ(audit_of(node()), "");
      for (unsigned i = random() % 12; i != 0 && !expected.empty(); --i) {
        std::vector<std::string> got;
        if (random() % 3 == 0) {
          got.push_back(*get_text(*channel));
        } else {
          got = get_texts(*channel, 1 + random() % 70);
        }
        for (const std::string& text : got) {
          ASSERT_FALSE(expected.empty());
          ASSERT_EQ(text, expected.front());
          expected.pop_front();
        }
      }
      ASSERT_EQ(audit_of(node()), "");
    }
    while (!expected.empty()) {
      for (const std::string& text : get_texts(*channel, 500)) {
        ASSERT_EQ(text, expected.front());
        expected.pop_front();
      }
    }
    EXPECT_TRUE(channel->empty());
  }
}

TEST_F(BatchTest, AMessageWithALeaseComesByItself) {
  ChannelPtr channel = make_channel();
  LeasePtr block = allocate(Kind::kShare, 100);
  ASSERT_NE(block, nullptr);
  std::memset(block->data(), 5, 100);
  const std::string text = "text";
  const std::vector<LeasePtr> leases = {block};
  const Outgoing plain{.bytes = bytes_of(text)};
  const std::vector<Outgoing> messages = {plain, plain, {.bytes = bytes_of(text), .leases = leases}, plain};
  std::size_t count = 0;
  ASSERT_OK(channel->put_many(messages, count, kNow));
  EXPECT_EQ(count, 4U);
  EXPECT_FALSE(block->held());  // it went along
  EXPECT_EQ(get_texts(*channel, 10).size(), 2U);
  ASSERT_OK(channel->get_many(batch_, single_, 10, kNow));
  EXPECT_TRUE(batch_.empty());
  ASSERT_EQ(single_.leases().size(), 1U);
  EXPECT_EQ(single_.leases()[0]->data()[99], std::byte{5});
  single_.clear();
  EXPECT_EQ(get_texts(*channel, 10), std::vector<std::string>{text});
}

TEST_F(BatchTest, WhatIsPutBeforeAFailureStays) {
  ChannelPtr channel = make_channel();
  LeasePtr block = allocate(Kind::kShare, 100);
  const std::vector<LeasePtr> twice = {block, block};
  const std::string text = "text";
  const Outgoing plain{.bytes = bytes_of(text)};
  const std::vector<Outgoing> messages = {plain, plain, {.leases = twice}, plain};
  std::size_t count = 0;
  EXPECT_CODE(Code::kInvalid, channel->put_many(messages, count, kNow));
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(channel->size(), 2U);
  ASSERT_OK(channel->close());
  EXPECT_CODE(Code::kClosed, channel->put_many(messages, count, kNow));
  EXPECT_EQ(count, 0U);
  EXPECT_EQ(get_texts(*channel, 10).size(), 2U);
  EXPECT_CODE(Code::kClosed, channel->get_many(batch_, single_, 10, kNow));
}

TEST_F(BatchTest, ABoundedChannelTakesWhatFits) {
  ChannelPtr channel = make_channel({.capacity = 10});
  Status status;
  EXPECT_EQ(put_texts(*channel, std::vector<std::string>(16, "x"), status), 10U);
  EXPECT_CODE(Code::kTimeout, status);
  EXPECT_EQ(get_texts(*channel, 4).size(), 4U);
  EXPECT_EQ(put_texts(*channel, std::vector<std::string>(16, "y"), status), 4U);
  EXPECT_EQ(channel->size(), 10U);
}

TEST_F(BatchTest, BytesAreCounted) {
  ChannelPtr channel = make_channel({.byte_capacity = 100});
  Status status;
  EXPECT_EQ(put_texts(*channel, std::vector<std::string>(20, "0123456789"), status), 10U);
  EXPECT_EQ(put_texts(*channel, {std::string(200, 'x')}, status), 0U);
  while (!channel->empty()) get_texts(*channel, 3);
  // A longer one goes into an empty channel, alone.
  EXPECT_EQ(put_texts(*channel, {std::string(200, 'x'), "y"}, status), 1U);
  EXPECT_EQ(audit_of(node()), "");
  get_texts(*channel, 1);
}

TEST_F(BatchTest, PutManyWaitsForRoom) {
  ChannelPtr channel = make_channel({.capacity = 8});
  std::vector<std::string> texts;
  for (int i = 0; i < 100; ++i) texts.push_back(std::to_string(i));
  std::thread putter([&] { put_all(*channel, texts); });
  for (int i = 0; i < 100; ++i) EXPECT_EQ(*get_text(*channel), std::to_string(i));
  putter.join();
}

TEST_F(BatchTest, AsManyGettersAreWokenAsThereAreMessages) {
  ChannelPtr channel = make_channel();
  std::array<test::Sleeper, 3> sleepers;
  std::vector<std::thread> getters;
  for (test::Sleeper& sleeper : sleepers) {
    getters.emplace_back([&] {
      sleeper.is_me();
      EXPECT_EQ(*get_text(*channel), "x");
    });
  }
  for (test::Sleeper& sleeper : sleepers) ASSERT_TRUE(sleeper.asleep());
  put_all(*channel, {"x", "x", "x"});
  for (std::thread& getter : getters) getter.join();
  EXPECT_TRUE(channel->empty());
}

TEST_F(BatchTest, AsManyPuttersAreWokenAsThereIsRoomFor) {
  ChannelPtr channel = make_channel({.capacity = 3});
  put_all(*channel, {"x", "x", "x"});
  std::array<test::Sleeper, 3> sleepers;
  std::vector<std::thread> putters;
  for (test::Sleeper& sleeper : sleepers) {
    putters.emplace_back([&] {
      sleeper.is_me();
      EXPECT_OK(put_text(*channel, "y"));
    });
  }
  for (test::Sleeper& sleeper : sleepers) ASSERT_TRUE(sleeper.asleep());
  EXPECT_EQ(get_texts(*channel, 10).size(), 3U);
  for (std::thread& putter : putters) putter.join();
  EXPECT_EQ(channel->size(), 3U);
}

TEST_F(BatchTest, ItemsOfEveryLength) {
  ChannelPtr channel = make_channel();
  for (const std::size_t bytes : {1U, 3U, 8U, 12U, 64U, 200U, 5000U, 9000U}) {
    SCOPED_TRACE(bytes);
    constexpr std::size_t kCount = 300;
    std::vector<std::byte> items(bytes * kCount);
    for (std::size_t i = 0; i < items.size(); ++i) items[i] = static_cast<std::byte>(i * 7 + i / 251);
    std::size_t put = 0;
    ASSERT_OK(channel->put_items(items, bytes, {.codec = 1, .tag = 2}, put, kNow));
    EXPECT_EQ(put, kCount);
    std::vector<std::byte> got(items.size());
    std::size_t done = 0;
    while (done < kCount) {
      std::size_t now = 0;
      const std::span<std::byte> rest = std::span(got).subspan(done * bytes);
      ASSERT_OK(channel->get_items(rest, bytes, {.codec = 1, .tag = 2}, now, single_, kNow));
      if (now == 0) {  // longer than a record
        ASSERT_EQ(single_.bytes().size(), bytes);
        std::memcpy(rest.data(), single_.bytes().data(), bytes);
        now = 1;
      }
      done += now;
    }
    single_.clear();
    EXPECT_EQ(got, items);
    EXPECT_TRUE(channel->empty());
  }
}

TEST_F(BatchTest, ItemsOfAnotherTypeComeByThemselves) {
  ChannelPtr channel = make_channel();
  put_all(*channel, {"12345678", "12345678"});
  std::uint64_t word = 0;
  std::size_t count = 0;
  const std::span<std::byte> into = std::as_writable_bytes(std::span(&word, 1));
  ASSERT_OK(channel->get_items(into, 8, {.codec = 1, .tag = 8}, count, single_, kNow));
  EXPECT_EQ(count, 0U);
  EXPECT_EQ(text_of(single_), "12345678");
  ASSERT_OK(channel->get_items(into, 8, {.codec = 1, .tag = 7}, count, single_, kNow));
  EXPECT_EQ(count, 1U);
}

TEST_F(BatchTest, AWrongPackedRecordIsLost) {
  const auto damaged = [&](auto&& damage) {
    ChannelPtr channel = make_channel();
    put_all(*channel, std::vector<std::string>(6, "12345678"));
    const Position head = Position::unpack(row_of(channel).head.load());
    damage(*reinterpret_cast<RecordHeader*>(unit_address(*node().chunks().chunk(head.chunk()), head.unit())));
    EXPECT_CODE(Code::kCorrupt, channel->get_many(batch_, single_, 10, kNow));
    // Whatever is left is another error or the end of it, and the channel goes on.
    while (channel->size() != 0) EXPECT_CODE(Code::kCorrupt, channel->get_many(batch_, single_, 10, kNow));
    put_all(*channel, {"a", "b"});
    EXPECT_EQ(get_texts(*channel, 10), (std::vector<std::string>{"a", "b"}));
  };
  damaged([](RecordHeader& header) { header.handles = 0xffff; });
  damaged([](RecordHeader& header) { header.handles = 1; });
  damaged([](RecordHeader& header) { header.bytes = 0xffffffff; });
  damaged([](RecordHeader& header) { header.units = 0; });
  damaged([](RecordHeader& header) { header.units = 600; });
  damaged([](RecordHeader& header) { header.sequence += 1; });
}

TEST_F(BatchTest, MessagesThatWereReadyToComeBackCountRight) {
  ChannelPtr channel = make_channel({.receipts = 8});
  put_all(*channel, std::vector<std::string>(5, "x"));
  EXPECT_EQ(channel->unfinished(), 5U);
  EXPECT_CODE(Code::kInvalid, channel->get_many(batch_, single_, 10, kNow));
  std::vector<Receipt> receipts(3);
  for (Receipt& receipt : receipts) {
    ASSERT_OK(channel->claim(single_, receipt, kNow));
    EXPECT_EQ(text_of(single_), "x");
  }
  ASSERT_OK(channel->give_back(receipts[0]));
  ASSERT_OK(channel->acknowledge(receipts[1]));
  ASSERT_OK(channel->acknowledge(receipts[2]));
  EXPECT_EQ(channel->unfinished(), 3U);
  EXPECT_EQ(audit_of(node()), "");
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(channel->claim(single_, receipts[0], kNow));
    ASSERT_OK(channel->acknowledge(receipts[0]));
  }
  EXPECT_EQ(channel->unfinished(), 0U);
}

TEST_F(BatchTest, TasksOfABatchAreCountedDone) {
  ChannelPtr channel = make_channel();
  put_all(*channel, std::vector<std::string>(5, "x"));
  EXPECT_EQ(get_texts(*channel, 5).size(), 5U);
  EXPECT_EQ(channel->unfinished(), 5U);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(channel->task_done());
  EXPECT_FALSE(channel->task_done());
  EXPECT_OK(channel->join(kNow));
}

}  // namespace
}  // namespace forklift::channel
