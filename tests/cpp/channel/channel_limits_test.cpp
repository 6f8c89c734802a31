// Where a channel meets the end of memory, chunks or rows: said clearly, and over when something is free
// again.
#include "channel/channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/node_fixture.h"

namespace forklift::channel {
namespace {

using arena::Kind;
using arena::LeasePtr;
using test::audit_of;
using test::get_text;
using test::put_text;

class ChannelLimitsTest : public test::NodeFixture {
 protected:
  ChannelLimitsTest() = default;
  explicit ChannelLimitsTest(const domain::Options& options) : NodeFixture(options) {}
};

TEST_F(ChannelLimitsTest, MessagesRespectTheBudgetAndFreeMemoryMakesWayForThem) {
  constexpr std::uint64_t kBudget = 4 << 20;
  domain().set_budget(kBudget);
  allocate(Kind::kShare, 3 << 20).reset();  // warm, but free
  ChannelPtr channel = make_channel();
  const std::string text = std::string(kInlineBytes, 'x');
  unsigned sent = 0;
  Status status;
  while ((status = put_text(*channel, text, 0)).ok()) ++sent;
  EXPECT_CODE(Code::kOverBudget, status);
  EXPECT_THAT(std::string(status.what()), testing::HasSubstr(std::to_string(kBudget)));
  EXPECT_GE(sent, 3U * (kBudget / kChunkBytes) - 6);
  EXPECT_EQ(audit_of(node()), "");
  EXPECT_CODE(Code::kOverBudget, arena().allocate(Kind::kShare, 1 << 20));
  for (unsigned i = 0; i < sent; ++i) ASSERT_EQ(*get_text(*channel, 0), text);
  LeasePtr block = allocate(Kind::kShare, 3 << 20);  // free chunks make way in turn
  ASSERT_TRUE(block);
  EXPECT_EQ(audit_of(node()), "");
  block.reset();
  for (unsigned i = 3; i < sent; ++i) ASSERT_OK(put_text(*channel, text, 0));
  EXPECT_EQ(audit_of(node()), "");
}

class TinyChannelTest : public ChannelLimitsTest {
 protected:
  TinyChannelTest() : ChannelLimitsTest(test::kTinyDomain) {}
};

TEST_F(TinyChannelTest, AllChunksInUseSaysSoAndRecovers) {
  ChannelPtr channel = make_channel();
  const std::string text = std::string(kInlineBytes, 'x');
  unsigned sent = 0;
  Status status;
  while ((status = put_text(*channel, text, 0)).ok()) ++sent;
  EXPECT_CODE(Code::kNoSpace, status);
  EXPECT_GE(sent, 3U * 500);
  EXPECT_EQ(audit_of(node()), "");
  ChannelPtr other = make_channel();
  EXPECT_CODE(Code::kNoSpace, put_text(*other, "no chunk for me", 0));
  for (unsigned i = 0; i < 3; ++i) EXPECT_OK(get_text(*channel));
  EXPECT_OK(get_text(*channel));
  EXPECT_OK(put_text(*other, "now", 0));
  EXPECT_EQ(*get_text(*other), "now");
  EXPECT_EQ(audit_of(node()), "");
}

TEST_F(TinyChannelTest, AllRowsInUseSaysSoAndRecovers) {
  std::vector<ChannelPtr> all;
  for (;;) {
    Result<ChannelPtr> made = Channel::create(node().channels(), {});
    if (!made) {
      EXPECT_CODE(Code::kNoSpace, made);
      break;
    }
    all.push_back(*std::move(made));
  }
  EXPECT_GE(all.size(), 2000U);
  EXPECT_EQ(node().channels().live(), all.size());
  all[1000].reset();
  all.push_back(make_channel());
  ASSERT_OK(put_text(*all.back(), "works"));
  EXPECT_EQ(*get_text(*all.back()), "works");
  EXPECT_EQ(audit_of(node()), "");
}

}  // namespace
}  // namespace forklift::channel
