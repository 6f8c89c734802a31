// Names of objects within a domain: who keeps what alive, what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "locks/event.h"
#include "node/names.h"
#include "node/published.h"
#include "support/node_fixture.h"

namespace forklift::channel {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

class NamesTest : public test::NodeFixture {
 protected:
  node::Names& names() { return node().names(); }
  Status publish(const std::string& name, const ChannelPtr& channel) {
    return node::publish(names(), *channel, node::ObjectType::kQueue, name);
  }
  Result<ChannelPtr> open(const std::string& name) {
    Result<node::Published> found = names().find(name);
    if (!found) return found.status();
    return Channel::open(node().channels(), {found->object.index, found->generation});
  }
};

TEST_F(NamesTest, WhatIsPublishedIsFound) {
  const ChannelPtr frames = make_channel();
  const ChannelPtr answers = make_channel();
  ASSERT_OK(publish("frames", frames));
  ASSERT_OK(publish("answers", answers));
  ASSERT_OK(test::put_text(*frames, "one"));
  Result<ChannelPtr> again = open("frames");
  ASSERT_OK(again);
  EXPECT_EQ((*again)->id().index, frames->id().index);
  EXPECT_EQ(*test::get_text(**again), "one");
  std::vector<std::string> all;
  for (const node::Published& one : *names().list()) all.push_back(one.name + ": " + type_name(one));
  EXPECT_THAT(all, UnorderedElementsAre("frames: queue", "answers: queue"));
  EXPECT_OK(names().unpublish("frames"));
  EXPECT_OK(names().unpublish("answers"));
  EXPECT_CODE(Code::kNotFound, names().find("frames"));
  EXPECT_CODE(Code::kNotFound, names().unpublish("frames"));
}

TEST_F(NamesTest, ANameKeepsAChannelAndItsMessages) {
  ASSERT_OK(publish("kept", make_channel()));
  {
    Result<ChannelPtr> there = open("kept");
    ASSERT_OK(there);
    ASSERT_OK(test::put_text(**there, "still"));
  }
  EXPECT_EQ(node().channels().live(), 1U);
  {
    Result<ChannelPtr> there = open("kept");
    ASSERT_OK(there);
    EXPECT_EQ(*test::get_text(**there), "still");
    ASSERT_OK(test::put_text(**there, "left behind"));
    EXPECT_OK(names().unpublish("kept"));
    // Who has it open keeps it.
    EXPECT_EQ(*test::get_text(**there), "left behind");
  }
  EXPECT_EQ(node().channels().live(), 0U);
}

TEST_F(NamesTest, TheLastNameGivesTheMessagesBack) {
  const ChannelPtr queue = make_channel();
  ASSERT_OK(publish("frames", queue));
  arena::LeasePtr block = allocate(arena::Kind::kShare, 100'000);
  ASSERT_OK(queue->put({.leases = {&block, 1}}, os::Deadline::after_seconds(1)));
  ASSERT_OK(publish("other-name", queue));
  EXPECT_OK(names().unpublish("frames"));
  EXPECT_OK(names().unpublish("other-name"));
}

TEST_F(NamesTest, ItOutlivesWhoPublished) {
  test::Gate done;
  test::Child child([&] {
    const ChannelPtr queue = make_channel();
    ASSERT_OK(publish("from-a-child", queue));
    ASSERT_OK(test::put_text(*queue, "hello"));
    done.open();
    ::pause();
  });
  ASSERT_TRUE(done.wait());
  child.kill_now();
  EXPECT_EQ(domain().reap(), 1U);
  EXPECT_EQ(test::audit_of(node()), "");
  Result<ChannelPtr> queue = open("from-a-child");
  ASSERT_OK(queue);
  EXPECT_EQ(*test::get_text(**queue), "hello");
  EXPECT_OK(names().unpublish("from-a-child"));
}

TEST_F(NamesTest, ANameIsPublishedOnce) {
  const ChannelPtr queue = make_channel();
  ASSERT_OK(publish("frames", queue));
  const Status again = publish("frames", queue);
  EXPECT_CODE(Code::kExists, again);
  EXPECT_THAT(std::string(again.what()), HasSubstr("\"frames\""));
  EXPECT_OK(names().unpublish("frames"));
}

TEST_F(NamesTest, WhatIsNoName) {
  const ChannelPtr queue = make_channel();
  for (const std::string bad :
       {"", "a/b", "../x", ".hidden", "white space", "\xc3\xa4", "a\n", "semi;colon"}) {
    EXPECT_CODE(Code::kInvalid, publish(bad, queue)) << bad;
    EXPECT_CODE(Code::kInvalid, names().find(bad)) << bad;
    EXPECT_CODE(Code::kInvalid, names().unpublish(bad)) << bad;
  }
  EXPECT_CODE(Code::kInvalid, publish(std::string(65, 'x'), queue));
  EXPECT_CODE(Code::kInvalid, publish(std::string("a\0b", 3), queue));
  const std::string longest(64, 'x');
  EXPECT_OK(publish(longest, queue));
  EXPECT_EQ(names().find(longest)->name, longest);
  EXPECT_CODE(Code::kNotFound, names().find(longest.substr(1)));
  EXPECT_OK(names().unpublish(longest));
}

TEST_F(NamesTest, AllRowsAndOneMore) {
  const ChannelPtr queue = make_channel();
  const std::uint64_t most = names().capacity();
  EXPECT_EQ(most, 1023U);
  for (std::uint64_t i = 0; i < most; ++i) ASSERT_OK(publish('n' + std::to_string(i), queue));
  EXPECT_CODE(Code::kNoSpace, publish("one-more", queue));
  EXPECT_OK(names().unpublish("n500"));
  EXPECT_OK(publish("one-more", queue));
  EXPECT_OK(names().unpublish("one-more"));
  for (std::uint64_t i = 0; i < most; ++i) {
    if (i == 500) continue;
    EXPECT_OK(names().unpublish('n' + std::to_string(i)));
  }
  EXPECT_EQ(names().count(), 0U);
}

TEST_F(NamesTest, LocksAreKeptLikeChannels) {
  {
    const auto event = locks::Event::create(node().locks());
    ASSERT_OK(event);
    ASSERT_OK((*event)->set());
    ASSERT_OK(node::publish(names(), **event, "go"));
  }
  const Result<node::Published> found = names().find("go");
  ASSERT_OK(found);
  EXPECT_EQ(type_name(*found), "event");
  {
    const auto event = locks::Event::open(node().locks(), {found->object.index, found->generation});
    ASSERT_OK(event);
    EXPECT_TRUE((*event)->is_set());
  }
  EXPECT_EQ(node().locks().live_locks(), 1U);
  EXPECT_OK(names().unpublish("go"));
  EXPECT_EQ(node().locks().live_locks(), 0U);
}

TEST_F(NamesTest, ManyAtOnceAgree) {
  const ChannelPtr queue = make_channel();
  std::vector<test::Child> children;
  for (int child = 0; child < 4; ++child) {
    children.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        const std::string name = "shared-" + std::to_string(round % 7);
        const Status put = publish(name, queue);
        EXPECT_TRUE(put.ok() || put.code() == Code::kExists) << put.to_string();
        const Status gone = names().unpublish(name);
        EXPECT_TRUE(gone.ok() || gone.code() == Code::kNotFound) << gone.to_string();
      }
    });
  }
  for (test::Child& child : children) EXPECT_EQ(child.wait(), 0);
  domain().reap();
  for (const node::Published& left : *names().list()) EXPECT_OK(names().unpublish(left.name));
}

}  // namespace
}  // namespace forklift::channel
