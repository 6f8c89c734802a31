// fileno() of objects in shared memory: readable while they are ready, whichever process changes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>

#include <chrono>
#include <thread>

#include "forklift/multiprocessing.h"
#include "os/fd.h"
#include "support/asleep.h"
#include "support/child.h"
#include "support/process_fixture.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using test::when_asleep;

bool readable(int fd, int timeout_ms = 0) {
  pollfd item{fd, POLLIN, 0};
  return ::poll(&item, 1, timeout_ms) == 1;
}

class DescriptorTest : public test::ProcessFixture {};

TEST_F(DescriptorTest, AQueueIsReadableWhileItHasAMessage) {
  Queue<int> queue;
  queue.put(0);
  const int fd = queue.fileno();
  EXPECT_EQ(queue.fileno(), fd);
  EXPECT_TRUE(readable(fd)) << "it had one before";
  EXPECT_EQ(queue.get(), 0);
  EXPECT_FALSE(readable(fd));
  EXPECT_EQ(queue.try_get(), std::nullopt);
  EXPECT_FALSE(readable(fd));
  queue.put(1);
  queue.put(2);
  EXPECT_EQ(queue.get(), 1);
  EXPECT_TRUE(readable(fd));
  EXPECT_EQ(queue.get(), 2);
  EXPECT_FALSE(readable(fd));
  queue.close();
  EXPECT_TRUE(readable(fd));
  EXPECT_THROW((void)queue.try_get(), Closed);
  EXPECT_TRUE(readable(fd)) << "the end stays";
}

TEST_F(DescriptorTest, AnotherProcessMakesItReadable) {
  SimpleQueue<int> queue;
  const int fd = queue.fileno();
  test::Gate got;
  test::Child putter([&] {
    for (int i = 0; i < 1000; ++i) {
      queue.put(i);
      if (i % 10 != 9) continue;
      EXPECT_TRUE(got.wait());
    }
  });
  for (int i = 0; i < 1000; ++i) {
    if (i % 10 == 0) {
      ASSERT_TRUE(readable(fd, 30'000));
    }
    ASSERT_EQ(queue.try_get(30s), i);
    if (i % 10 == 9) got.open();
  }
  EXPECT_EQ(putter.wait(), 0);
}

// No message may lie there while the loop sleeps for ever.
TEST_F(DescriptorTest, ALoopThatTakesWhatIsThereMissesNothing) {
  Queue<int> queue;
  constexpr int kMessages = 20'000;
  const int fd = queue.fileno();
  std::vector<test::Child> putters;
  for (int child = 0; child < 3; ++child) {
    putters.emplace_back([&] {
      for (int i = 0; i < kMessages; ++i) queue.put(i);
    });
  }
  int got = 0;
  while (got < 3 * kMessages) {
    ASSERT_TRUE(readable(fd, 30'000)) << "after " << got;
    while (queue.try_get()) ++got;
  }
  EXPECT_FALSE(readable(fd));
  for (test::Child& putter : putters) EXPECT_EQ(putter.wait(), 0);
}

TEST_F(DescriptorTest, OneThatAnotherProcessEmptiedIsQuietAfterALook) {
  Queue<int> queue;
  const int fd = queue.fileno();
  queue.put(1);
  test::Child taker([&] { EXPECT_EQ(queue.get(), 1); });
  EXPECT_EQ(taker.wait(), 0);
  EXPECT_TRUE(readable(fd)) << "this process has not looked yet";
  EXPECT_EQ(queue.try_get(), std::nullopt);
  EXPECT_FALSE(readable(fd));
}

TEST_F(DescriptorTest, RoomForAPut) {
  Queue<int> queue({.capacity = 2});
  const int fd = queue.room_fileno();
  EXPECT_TRUE(readable(fd));
  queue.put(1);
  queue.put(2);
  EXPECT_FALSE(queue.try_put(3));
  EXPECT_FALSE(readable(fd));
  test::Child taker([&] { EXPECT_EQ(queue.get(), 1); });
  EXPECT_TRUE(readable(fd, 30'000));
  EXPECT_EQ(taker.wait(), 0);
  EXPECT_TRUE(queue.try_put(3));
  EXPECT_FALSE(queue.try_put(4));
  EXPECT_FALSE(readable(fd));
  queue.close();
  EXPECT_TRUE(readable(fd));
}

TEST_F(DescriptorTest, AQueueBoundedInBytesWithAMessageThatDoesNotFit) {
  Queue<std::vector<char>> queue({.bytes = 4096});
  const int fd = queue.room_fileno();
  queue.put(std::vector<char>(3000));
  queue.put(std::vector<char>(500));
  EXPECT_FALSE(queue.try_put(std::vector<char>(4000)));
  EXPECT_FALSE(readable(fd));
  (void)queue.get();
  EXPECT_TRUE(readable(fd));
  EXPECT_FALSE(queue.try_put(std::vector<char>(4000))) << "the small one is still there";
  EXPECT_FALSE(readable(fd)) << "a loop would be busy until then";
  (void)queue.get();
  EXPECT_TRUE(readable(fd));
  EXPECT_TRUE(queue.try_put(std::vector<char>(4000)));
}

TEST_F(DescriptorTest, ASubscriptionAndALatest) {
  Broadcast<int> topic;
  Subscription<int> subscription = topic.subscribe();
  Latest<int> latest;
  const int next = subscription.fileno(), newest = latest.fileno();
  EXPECT_FALSE(readable(next));
  EXPECT_FALSE(readable(newest));
  test::Child putter([&] {
    topic.put(1);
    latest.put(1);
    latest.put(2);
  });
  EXPECT_TRUE(readable(next, 30'000));
  EXPECT_TRUE(readable(newest, 30'000));
  EXPECT_EQ(putter.wait(), 0);
  EXPECT_EQ(subscription.get(), 1);
  EXPECT_EQ(latest.get(), 2);
  EXPECT_FALSE(readable(next));
  EXPECT_FALSE(readable(newest));
  topic.close();
  latest.close();
  EXPECT_TRUE(readable(next));
  EXPECT_TRUE(readable(newest));
}

TEST_F(DescriptorTest, AnEventWhileItIsSet) {
  Event event;
  const int fd = event.fileno();
  EXPECT_FALSE(readable(fd));
  test::Child setter([&] { event.set(); });
  EXPECT_TRUE(readable(fd, 30'000));
  EXPECT_EQ(setter.wait(), 0);
  event.set();
  EXPECT_TRUE(readable(fd));
  event.clear();
  EXPECT_FALSE(readable(fd));
}

TEST_F(DescriptorTest, AForkedChildHasOneOfItsOwn) {
  Queue<int> queue;
  const int fd = queue.fileno();
  test::Gate looked, go;
  test::Child child([&] {
    const int own = queue.fileno();
    EXPECT_NE(own, fd);
    EXPECT_EQ(queue.try_get(), std::nullopt);
    looked.open();
    EXPECT_TRUE(go.wait());
    EXPECT_TRUE(readable(own, 30'000));
    EXPECT_EQ(queue.get(), 1);
    EXPECT_FALSE(readable(own));
  });
  ASSERT_TRUE(looked.wait());
  queue.put(1);
  EXPECT_TRUE(readable(fd));
  go.open();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(readable(fd)) << "the child had no hand in the parent's";
  EXPECT_EQ(queue.try_get(), std::nullopt);
  EXPECT_FALSE(readable(fd));
}

// Between the message and the wake-up lie some instructions, and no other process will notify.
TEST_F(DescriptorTest, AMessageOfAKilledProcessMakesItReadable) {
  for (int round = 0; round < 20; ++round) {
    Queue<int> queue({.capacity = 1});
    const int fd = queue.fileno();
    test::Child putter([&] {
      for (int i = 0;; ++i) queue.put(i);
    });
    // The time counts from the first message: on a busy machine the child starts late.
    int got = readable(fd, 30'000) && queue.try_get() ? 1 : 0;
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(500 + 1700 * round);
    while (std::chrono::steady_clock::now() < until) {
      if (readable(fd, 1) && queue.try_get()) ++got;
    }
    putter.kill_now();
    // At most one message is left, and the loop gets it.
    while (readable(fd, queue.empty() ? 0 : 30'000)) {
      if (queue.try_get()) ++got;
    }
    EXPECT_TRUE(queue.empty());
    EXPECT_GT(got, 0);
  }
}

TEST_F(DescriptorTest, ADescriptorOutlivesTheOtherHandlesOfItsQueue) {
  auto queue = std::make_unique<Queue<int>>();
  const Queue<int> other = *queue;
  const int fd = queue->fileno();
  queue.reset();
  EXPECT_EQ(other.fileno(), fd) << "handles of one process share it";
  EXPECT_FALSE(readable(fd));
}

}  // namespace
}  // namespace forklift
