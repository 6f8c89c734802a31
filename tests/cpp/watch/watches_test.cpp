// The tables of wait sets and watches: what a notification marks.
#include "watch/watches.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "node/node.h"
#include "support/child.h"
#include "support/numbered_message.h"
#include "watch/set.h"

namespace forklift::watch {
namespace {

class WatchesTest : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_TRUE(node_->audit().empty());
    EXPECT_EQ(watches().live_sets(), 0U);
    EXPECT_EQ(watches().live_watches(), 0U);
  }
  Watches& watches() { return node_->watches(); }
  // Any event of the control segment will do; these rows belong to nobody.
  sync::EventCount& event(std::uint32_t index) { return node_->locks().row(index).event; }
  std::unique_ptr<Set> make_set() { return test::must(Set::make(watches())); }
  static std::vector<std::uint32_t> marks(Set& set) {
    std::vector<std::uint32_t> found;
    set.take_marks([&](std::uint32_t member) { found.push_back(member); });
    return found;
  }
  static bool readable(int fd) {
    pollfd item{fd, POLLIN, 0};
    return ::poll(&item, 1, 0) == 1;
  }

  std::unique_ptr<node::Node> node_ = test::must(node::Node::create());
};

using Members = std::vector<std::uint32_t>;

TEST_F(WatchesTest, AMemberIsMarkedByItsEventAlone) {
  const std::unique_ptr<Set> set = make_set();
  for (std::uint32_t i = 0; i < 100; ++i) EXPECT_EQ(test::must(set->add(event(i))), i);
  EXPECT_EQ(marks(*set).size(), 100U) << "each is marked at first";
  event(7).notify(1);
  event(93).notify(1);
  event(200).notify(1);
  EXPECT_EQ(marks(*set), (Members{7, 93}));
  EXPECT_EQ(marks(*set), Members());
}

TEST_F(WatchesTest, TwoSetsWatchOneEvent) {
  const std::unique_ptr<Set> first = make_set(), second = make_set();
  test::must(first->add(event(1)));
  test::must(second->add(event(2)));
  const std::uint32_t member = test::must(second->add(event(1)));
  marks(*first), marks(*second);
  event(1).notify(1);
  EXPECT_EQ(marks(*first), Members{0});
  EXPECT_EQ(marks(*second), Members{member});
  second->remove(member);
  event(1).notify(1);
  EXPECT_EQ(marks(*first), Members{0});
  EXPECT_EQ(marks(*second), Members());
  first->remove(0);
  EXPECT_FALSE(event(1).is_watched());
  EXPECT_TRUE(event(2).is_watched());
}

TEST_F(WatchesTest, ANumberIsUsedAgain) {
  const std::unique_ptr<Set> set = make_set();
  for (std::uint32_t i = 0; i < 3; ++i) test::must(set->add(event(i)));
  set->remove(1);
  EXPECT_EQ(set->size(), 2U);
  EXPECT_EQ(test::must(set->add(event(9))), 1U);
  marks(*set);
  event(1).notify(1);
  EXPECT_EQ(marks(*set), Members());
  event(9).notify(1);
  EXPECT_EQ(marks(*set), Members{1});
}

TEST_F(WatchesTest, ASetIsFullAt4096) {
  const std::unique_ptr<Set> set = make_set();
  for (std::uint32_t i = 0; i < kMembers; ++i) ASSERT_EQ(test::must(set->add(event(i))), i);
  EXPECT_EQ(set->add(event(kMembers)).code(), Code::kNoSpace);
  marks(*set);
  event(4095).notify(1);
  EXPECT_EQ(marks(*set), Members{4095});
}

TEST_F(WatchesTest, AnEventOfAnotherDomainIsRefused) {
  const std::unique_ptr<node::Node> other = test::must(node::Node::create());
  const std::unique_ptr<Set> set = make_set();
  EXPECT_EQ(set->add(other->locks().row(0).event).code(), Code::kInvalid);
}

TEST_F(WatchesTest, EachDomainTellsItsOwnWatches) {
  const std::unique_ptr<node::Node> other = test::must(node::Node::create());
  const std::unique_ptr<Set> here = make_set();
  const std::unique_ptr<Set> there = test::must(Set::make(other->watches()));
  test::must(here->add(event(5)));
  test::must(there->add(other->locks().row(5).event));
  marks(*here), marks(*there);
  event(5).notify(1);
  EXPECT_EQ(marks(*there), Members());
  other->locks().row(5).event.notify(1);
  EXPECT_EQ(marks(*there), Members{0});
  EXPECT_EQ(marks(*here), Members{0});
}

TEST_F(WatchesTest, TheDescriptorIsReadableOnceAMemberIsMarked) {
  const std::unique_ptr<Set> set = make_set();
  test::must(set->add(event(1)));
  marks(*set);
  const int fd = test::must(set->descriptor());
  EXPECT_EQ(test::must(set->descriptor()), fd);
  EXPECT_FALSE(readable(fd));
  event(1).notify(1);
  EXPECT_TRUE(readable(fd));
  EXPECT_FALSE(set->arm()) << "a mark is there";
  marks(*set);
  EXPECT_TRUE(readable(fd));
  EXPECT_TRUE(set->arm());
  EXPECT_FALSE(readable(fd));
  for (int i = 0; i < 1000; ++i) event(1).notify(1);
  EXPECT_TRUE(readable(fd));
}

TEST_F(WatchesTest, ASleeperIsWokenBesideAWatch) {
  const std::unique_ptr<Set> set = make_set();
  test::must(set->add(event(1)));
  marks(*set);
  std::atomic<bool> condition{false};
  std::jthread sleeper([&] {
    while (!condition) {
      const sync::EventCount::Ticket ticket = event(1).prepare();
      if (condition) return event(1).cancel(ticket);
      event(1).wait(ticket, -1);
    }
  });
  EXPECT_TRUE(test::eventually([&] { return event(1).has_sleepers(); }));
  condition = true;
  event(1).notify(1);
  sleeper.join();
  EXPECT_EQ(marks(*set), Members{0});
}

TEST_F(WatchesTest, ThreadsAddAndRemoveWhileOthersNotify) {
  const std::unique_ptr<Set> set = make_set();
  test::must(set->add(event(1)));
  (void)marks(*set);  // what it is marked with when it is added
  std::atomic<std::uint64_t> told{0}, seen{0};
  std::jthread notifier([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      told.fetch_add(1);
      event(1).notify(1);
      while (!stop.stop_requested() && seen.load() < told.load()) std::this_thread::yield();
    }
  });
  // Rows of the same buckets come and go under the notifier's walk.
  std::vector<std::jthread> others;
  for (std::uint32_t thread = 0; thread < 2; ++thread) {
    others.emplace_back([&, thread] {
      const std::unique_ptr<Set> mine = make_set();
      for (std::uint32_t i = 0; i < 3000; ++i) {
        const std::uint32_t first = test::must(mine->add(event(1)));
        const std::uint32_t second = test::must(mine->add(event(2 + thread)));
        mine->remove(first);
        mine->remove(second);
      }
    });
  }
  const os::Deadline deadline = os::Deadline::after_seconds(60);
  for (std::uint64_t round = 1; round <= 2000; ++round) {
    while (seen.load() < round && !deadline.passed()) {
      // Look for marks first: one that comes between a load of `told` and the look would be taken and not be counted.
      if (!marks(*set).empty()) seen.store(told.load());
      std::this_thread::yield();
    }
  }
  EXPECT_FALSE(deadline.passed());
  notifier.request_stop();
}

TEST_F(WatchesTest, ADeadProcessLeavesNeitherSetsNorWatches) {
  test::Child child([&] {
    std::unique_ptr<Set> set = make_set();
    for (std::uint32_t i = 0; i < 10; ++i) test::must(set->add(event(i)));
    (void)set.release();
    ::raise(SIGKILL);
  });
  child.wait();
  EXPECT_EQ(watches().live_watches(), 10U);
  EXPECT_TRUE(test::eventually([&] { return node_->domain().reap() == 1; }));
  EXPECT_FALSE(event(3).is_watched());
}

TEST_F(WatchesTest, ADeathMarksAllMembers) {
  const std::unique_ptr<Set> set = make_set();
  for (std::uint32_t i = 0; i < 3; ++i) test::must(set->add(event(i)));
  const int fd = test::must(set->descriptor());
  marks(*set);
  ASSERT_TRUE(set->arm());
  // It may have been between making a condition true and telling.
  test::Child child([] { ::raise(SIGKILL); });
  child.wait();
  EXPECT_TRUE(test::eventually([&] { return node_->domain().reap() == 1; }));
  EXPECT_EQ(marks(*set), (Members{0, 1, 2}));
  EXPECT_TRUE(readable(fd));
}

TEST_F(WatchesTest, AForkedChildHasNoPartInTheSet) {
  const std::unique_ptr<Set> set = make_set();
  test::must(set->add(event(1)));
  marks(*set);
  test::Child child([&] {
    if (set->mine()) ::_exit(1);
    if (set->add(event(2)).code() != Code::kNotAttached) ::_exit(2);
    if (set->wait(os::Deadline::after_ns(0), nullptr).code() != Code::kNotAttached) ::_exit(3);
    event(1).notify(1);
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(marks(*set), Members{0});
  EXPECT_EQ(watches().live_watches(), 1U);
}

}  // namespace
}  // namespace forklift::watch
