// WaitSet over every kind of object, and what becomes of its members meanwhile.
#include "forklift/wait_set.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <deque>
#include <thread>
#include <vector>

#include "forklift/multiprocessing.h"
#include "os/fd.h"
#include "support/asleep.h"
#include "support/child.h"
#include "support/process_fixture.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using test::when_asleep;
using testing::ElementsAre;
using testing::IsEmpty;

class WaitSetTest : public test::ProcessFixture {
 protected:
  struct Ends {
    os::Fd read, write;
  };
  static Ends pipe_ends() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    return {os::Fd(ends[0]), os::Fd(ends[1])};
  }
  static bool readable(int fd) {
    pollfd item{fd, POLLIN, 0};
    return ::poll(&item, 1, 0) == 1;
  }
};

TEST_F(WaitSetTest, EveryKindIsReportedByItsKeyUntilItIsNotReady) {
  WaitSet set;
  Queue<int> queue;
  Broadcast<int> topic;
  Subscription<int> subscription = topic.subscribe();
  Latest<int> latest;
  Event event;
  Lock lock;
  Semaphore units({.value = 0});
  Latch latch(1);
  auto [reader, writer] = make_pipe<int, int>();
  const Ends plain = pipe_ends();
  lock.lock();
  EXPECT_EQ(set.add(queue), 0U);
  EXPECT_EQ(set.add(subscription), 1U);
  EXPECT_EQ(set.add(latest), 2U);
  EXPECT_EQ(set.add(event), 3U);
  EXPECT_EQ(set.add(lock), 4U);
  EXPECT_EQ(set.add(units), 5U);
  EXPECT_EQ(set.add(latch), 6U);
  EXPECT_EQ(set.add(reader), 7U);
  EXPECT_EQ(set.add(Waitable::descriptor(plain.read.get())), 8U);
  EXPECT_EQ(set.size(), 9U);
  EXPECT_THAT(set.try_wait(5ms), IsEmpty());

  queue.put(1);
  EXPECT_THAT(set.wait(), ElementsAre(0));
  EXPECT_THAT(set.wait(), ElementsAre(0)) << "it stays so";
  topic.put(1);
  latest.put(1);
  event.set();
  lock.unlock();
  units.release();
  latch.count_down();
  writer.put(1);
  ASSERT_EQ(::write(plain.write.get(), "x", 1), 1);
  EXPECT_THAT(set.wait(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
  (void)queue.get();
  (void)subscription.get();
  (void)latest.get();
  event.clear();
  EXPECT_TRUE(units.try_acquire());
  EXPECT_EQ(reader.get(), 1);
  EXPECT_THAT(set.wait(), ElementsAre(4, 6, 8));
  lock.lock();
  char byte;
  ASSERT_EQ(::read(plain.read.get(), &byte, 1), 1);
  EXPECT_THAT(set.wait(), ElementsAre(6));
  EXPECT_TRUE(set.remove(6));
  EXPECT_FALSE(set.remove(6));
  EXPECT_THAT(set.try_wait(5ms), IsEmpty());
  lock.unlock();
}

TEST_F(WaitSetTest, AnEventThatWasSetAndClearedIsReportedOnce) {
  WaitSet set;
  Event event;
  set.add(event);
  EXPECT_THAT(set.try_wait(), IsEmpty());
  event.set();
  event.clear();
  EXPECT_THAT(set.try_wait(10s), ElementsAre(0));
  EXPECT_THAT(set.try_wait(5ms), IsEmpty());
}

TEST_F(WaitSetTest, OneOfAThousandWakesIt) {
  std::deque<Queue<int>> queues(1000);
  for (const bool mixed : {false, true}) {
    WaitSet set;
    for (Queue<int>& queue : queues) set.add(queue);
    const Ends quiet = pipe_ends();
    if (mixed) set.add(Waitable::descriptor(quiet.read.get()));
    EXPECT_THAT(set.try_wait(), IsEmpty());
    test::Child putter([&] {
      for (const int index : {3, 999, 500}) {
        queues[static_cast<std::size_t>(index)].put(index);
        while (!queues[static_cast<std::size_t>(index)].empty()) std::this_thread::sleep_for(1ms);
      }
    });
    for (const int index : {3, 999, 500}) {
      const auto ready = set.try_wait(30s);
      ASSERT_THAT(ready, ElementsAre(static_cast<WaitSet::Key>(index)));
      EXPECT_EQ(queues[ready[0]].get(), index);
    }
    EXPECT_EQ(putter.wait(), 0);
  }
}

TEST_F(WaitSetTest, AWaitThatSleepsIsWokenByEachKind) {
  for (const bool mixed : {false, true}) {
    Queue<int> queue;
    const Ends ends = pipe_ends();
    WaitSet set;
    set.add(queue);
    if (mixed) set.add(Waitable::descriptor(ends.read.get()));
    {
      const std::jthread putter = when_asleep([&] { queue.put(1); });
      EXPECT_THAT(set.try_wait(60s), ElementsAre(0));
    }
    (void)queue.get();
    if (!mixed) continue;
    const std::jthread writer = when_asleep([&] { (void)!::write(ends.write.get(), "x", 1); });
    EXPECT_THAT(set.try_wait(60s), ElementsAre(1));
  }
}

TEST_F(WaitSetTest, AMemberThatIsAddedOrClosedMeanwhileEndsTheWait) {
  WaitSet set;
  Queue<int> quiet, closing, full;
  full.put(1);
  set.add(quiet);
  set.add(closing);
  {
    const std::jthread adder = when_asleep([&] { set.add(full); });
    EXPECT_THAT(set.try_wait(60s), ElementsAre(2));
  }
  EXPECT_TRUE(set.remove(2));
  {
    const std::jthread closer = when_asleep([&] { closing.close(); });
    EXPECT_THAT(set.try_wait(60s), ElementsAre(1));
  }
  EXPECT_TRUE(set.remove(1));
  const Ends ends = pipe_ends();
  ASSERT_EQ(::write(ends.write.get(), "x", 1), 1);
  const std::jthread adder = when_asleep([&] { set.add(Waitable::descriptor(ends.read.get())); });
  EXPECT_THAT(set.try_wait(60s), ElementsAre(3));
}

TEST_F(WaitSetTest, AMemberThatIsResetByAnotherThreadLivesInTheSet) {
  WaitSet set;
  auto queue = std::make_unique<Queue<int>>();
  set.add(*queue);
  const std::jthread dropper = when_asleep([&] {
    queue.reset();
    set.wake();
  });
  EXPECT_THAT(set.wait(), IsEmpty());
  EXPECT_EQ(set.size(), 1U);
}

TEST_F(WaitSetTest, WakeAndStopEndAWait) {
  for (const bool mixed : {false, true}) {
    WaitSet set;
    Queue<int> quiet;
    const Ends ends = pipe_ends();
    set.add(quiet);
    if (mixed) set.add(Waitable::descriptor(ends.read.get()));
    {
      const std::jthread waker = when_asleep([&] { set.wake(); });
      EXPECT_THAT(set.wait(), IsEmpty());
    }
    set.wake();
    EXPECT_THAT(set.wait(), IsEmpty()) << "the next one";
    std::stop_source stop;
    {
      const std::jthread stopper = when_asleep([&] { stop.request_stop(); });
      EXPECT_THAT(set.try_wait(stop.get_token()), IsEmpty());
    }
    quiet.put(1);
    EXPECT_THAT(set.try_wait(stop.get_token()), ElementsAre(0)) << "what is there is reported";
  }
}

TEST_F(WaitSetTest, ALockOfAProcessThatDiedIsReady) {
  for (const bool mixed : {false, true}) {
    Lock lock;
    const Ends ends = pipe_ends();
    test::Gate locked;
    test::Child holder([&] {
      lock.lock();
      locked.open();
      ::pause();
    });
    ASSERT_TRUE(locked.wait());
    WaitSet set;
    set.add(lock);
    if (mixed) set.add(Waitable::descriptor(ends.read.get()));
    EXPECT_THAT(set.try_wait(5ms), IsEmpty());
    const std::jthread killer = when_asleep([&] { holder.signal(SIGKILL); });
    EXPECT_THAT(set.try_wait(60s), ElementsAre(0));
    EXPECT_TRUE(lock.try_lock());
    lock.unlock();
  }
}

TEST_F(WaitSetTest, ProcessesAndFuturesAreMembers) {
  WaitSet set;
  Event go;
  Process child = Process::fork([&] { go.wait(); }).start();
  set.add(child);
  EXPECT_THAT(set.try_wait(5ms), IsEmpty());
  go.set();
  EXPECT_THAT(set.try_wait(60s), ElementsAre(0));
  child.join();
}

TEST_F(WaitSetTest, TheSameDescriptorTwiceAndAFile) {
  WaitSet set;
  const Ends ends = pipe_ends();
  EXPECT_EQ(set.add(Waitable::descriptor(ends.read.get())), 0U);
  EXPECT_EQ(set.add(Waitable::descriptor(ends.read.get())), 1U);
  ASSERT_EQ(::write(ends.write.get(), "x", 1), 1);
  EXPECT_THAT(set.wait(), ElementsAre(0, 1));
  const os::Fd file(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(set.add(Waitable::descriptor(file.get())), 2U);
  EXPECT_THAT(set.wait(), ElementsAre(0, 1, 2)) << "a file is always readable";
}

TEST_F(WaitSetTest, ItsDescriptorFollowsWhatIsReady) {
  WaitSet inner;
  Queue<int> queue;
  const Ends ends = pipe_ends();
  inner.add(queue);
  inner.add(Waitable::descriptor(ends.read.get()));
  const int fd = inner.fileno();
  EXPECT_EQ(inner.fileno(), fd);
  EXPECT_TRUE(readable(fd)) << "nobody has looked yet";
  EXPECT_THAT(inner.try_wait(), IsEmpty());
  EXPECT_FALSE(readable(fd));
  WaitSet outer;
  outer.add(Waitable::descriptor(fd));
  {
    const std::jthread putter = when_asleep([&] { queue.put(1); });
    EXPECT_THAT(outer.try_wait(60s), ElementsAre(0));
  }
  EXPECT_THAT(inner.try_wait(), ElementsAre(0));
  EXPECT_TRUE(readable(fd)) << "the queue still has its message";
  (void)queue.get();
  EXPECT_THAT(inner.try_wait(), IsEmpty());
  EXPECT_FALSE(readable(fd));
  ASSERT_EQ(::write(ends.write.get(), "x", 1), 1);
  EXPECT_TRUE(readable(fd));
}

TEST_F(WaitSetTest, BadMembersAreRefused) {
  WaitSet set;
  Queue<int> gone;
  gone.reset();
  EXPECT_THROW(set.add(gone), Error);
  EXPECT_THROW(set.add(Waitable::descriptor(900)), Error);
  auto [reader, writer] = make_pipe<int, int>();
  EXPECT_EQ(set.add(reader), 0U) << "a refused member used no key";
  WaitSet moved = std::move(set);
  EXPECT_EQ(moved.size(), 1U);
  EXPECT_THROW(set.wait(), Error);  // NOLINT(bugprone-use-after-move)
  EXPECT_THROW(set.add(reader), Error);
}

TEST_F(WaitSetTest, AForkedChildHasNoPartInIt) {
  WaitSet set;
  Queue<int> queue;
  set.add(queue);
  EXPECT_THAT(set.try_wait(), IsEmpty());
  test::Child child([&] {
    EXPECT_THROW(set.add(queue), Error);
    EXPECT_THROW((void)set.try_wait(), Error);
    EXPECT_FALSE(set.remove(0));
    WaitSet own;
    own.add(queue);
    queue.put(1);
    EXPECT_THAT(own.wait(), ElementsAre(0));
    {
      const WaitSet ended = std::move(set);
    }
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_THAT(set.try_wait(10s), ElementsAre(0));
}

}  // namespace
}  // namespace forklift
