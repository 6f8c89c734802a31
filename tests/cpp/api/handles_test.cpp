// Handles as values: equality, hash, and the state of none.
#include <gtest/gtest.h>

#include <unordered_map>
#include <unordered_set>

#include "forklift/barrier.h"
#include "forklift/broadcast.h"
#include "forklift/claim.h"
#include "forklift/condition.h"
#include "forklift/domain.h"
#include "forklift/event.h"
#include "forklift/init.h"
#include "forklift/joinable_queue.h"
#include "forklift/latch.h"
#include "forklift/latest.h"
#include "forklift/lock.h"
#include "forklift/once.h"
#include "forklift/queue.h"
#include "forklift/rw_lock.h"
#include "forklift/semaphore.h"
#include "forklift/simple_queue.h"

namespace forklift {
namespace {

template <class Handle, class Make>
void behaves_as_a_value(Make make) {
  const Handle a = make();
  const Handle same = a;
  const Handle other = make();
  EXPECT_TRUE(a == same);
  EXPECT_FALSE(a == other);
  EXPECT_EQ(std::hash<Handle>()(a), std::hash<Handle>()(same));
  EXPECT_NE(std::hash<Handle>()(a), std::hash<Handle>()(other));

  Handle none(nullptr);
  EXPECT_FALSE(static_cast<bool>(none));
  EXPECT_TRUE(none == Handle(nullptr));
  EXPECT_FALSE(none == a);
  EXPECT_FALSE(a == none);
  EXPECT_EQ(std::hash<Handle>()(none), std::hash<Handle>()(Handle(nullptr)));
  none = a;
  EXPECT_TRUE(static_cast<bool>(none));
  EXPECT_TRUE(none == a);

  std::unordered_set<Handle> set{a, same, other};
  EXPECT_EQ(set.size(), 2u);
}

TEST(Handles, AreValues) {
  behaves_as_a_value<Queue<int>>([] { return Queue<int>(); });
  behaves_as_a_value<Queue<int, Delivery::kAtLeastOnce>>([] { return Queue<int, Delivery::kAtLeastOnce>(); });
  behaves_as_a_value<JoinableQueue<int>>([] { return JoinableQueue<int>(); });
  behaves_as_a_value<SimpleQueue<int>>([] { return SimpleQueue<int>(); });
  behaves_as_a_value<Broadcast<int>>([] { return Broadcast<int>(); });
  behaves_as_a_value<Latest<int>>([] { return Latest<int>(); });
  behaves_as_a_value<Lock>([] { return Lock(); });
  behaves_as_a_value<RLock>([] { return RLock(); });
  behaves_as_a_value<RWLock>([] { return RWLock(); });
  behaves_as_a_value<Event>([] { return Event(); });
  behaves_as_a_value<Condition>([] { return Condition(); });
  behaves_as_a_value<Semaphore>([] { return Semaphore(); });
  behaves_as_a_value<BoundedSemaphore>([] { return BoundedSemaphore(); });
  behaves_as_a_value<Barrier>([] { return Barrier(2); });
  behaves_as_a_value<Latch>([] { return Latch(1); });
  behaves_as_a_value<Once>([] { return Once(); });
}

TEST(Handles, OpenedTwiceAreEqual) {
  Domain domain = Domain::own();
  Queue<int> queue;
  domain.publish("handles-test.queue", queue);
  Lock lock;
  domain.publish("handles-test.lock", lock);
  const auto queue_again = domain.open<Queue<int>>("handles-test.queue");
  const auto lock_again = domain.open<Lock>("handles-test.lock");
  EXPECT_TRUE(queue_again == queue);
  EXPECT_TRUE(lock_again == lock);
  EXPECT_EQ(std::hash<Queue<int>>()(queue_again), std::hash<Queue<int>>()(queue));
  EXPECT_TRUE(domain.unpublish("handles-test.queue"));
  EXPECT_TRUE(domain.unpublish("handles-test.lock"));
}

TEST(Handles, OfNoneTakeNothing) {
  (void)stats();
  const Stats before = stats();
  {
    const Queue<int> queue(nullptr);
    const Broadcast<int> topic(nullptr);
    const Latest<int> latest(nullptr);
    const Latest<int> copy = latest;
    const Lock lock(nullptr);
    const Stats now = stats();
    EXPECT_EQ(now.channels, before.channels);
    EXPECT_EQ(now.leases, before.leases);
    EXPECT_FALSE(static_cast<bool>(copy));
  }
}

TEST(Handles, OfNoneSayThatTheyAreEmpty) {
  EXPECT_THROW(Queue<int>(nullptr).put(1), Error);
  EXPECT_THROW((void)Queue<int>(nullptr).size(), Error);
  EXPECT_THROW(Broadcast<int>(nullptr).put(1), Error);
  EXPECT_THROW((void)Latest<int>(nullptr).get(), Error);
  EXPECT_THROW(Lock(nullptr).lock(), Error);
  EXPECT_THROW(Event(nullptr).set(), Error);
  EXPECT_THROW(Semaphore(nullptr).acquire(), Error);
  EXPECT_THROW((void)Barrier(nullptr).arrive_and_wait(), Error);
  EXPECT_THROW(Latch(nullptr).wait(), Error);
  EXPECT_THROW((void)Once(nullptr).call([] {}), Error);
  EXPECT_THROW(RWLock(nullptr).lock_shared(), Error);
  EXPECT_THROW(Condition(nullptr).notify_one(), Error);
}

TEST(Handles, AreKeys) {
  Queue<int> left;
  Queue<int> right;
  std::unordered_map<Queue<int>, int> sums;
  left.put(1);
  right.put(2);
  for (Queue<int> queue : {left, right}) sums[queue] += queue.get();
  EXPECT_EQ(sums[left], 1);
  EXPECT_EQ(sums[right], 2);
}

}  // namespace
}  // namespace forklift
