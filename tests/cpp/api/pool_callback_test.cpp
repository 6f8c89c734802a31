// What a callback of a Pool's task may do: it has a thread of its own, so nothing that it waits for waits for
// it.
#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <mutex>
#include <optional>
#include <thread>

#include "forklift/pool.h"
#include "support/child.h"
#include "support/process_fixture.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using test::eventually;

int square(int x) { return x * x; }
const Registered<&square> kSquare{"callback square"};

int die(int) {
  ::raise(SIGKILL);
  return 0;
}
const Registered<&die> kDie{"callback die"};

void stay() {
  for (;;) ::pause();
}
const Registered<&stay> kStay{"callback stay"};

class CallbackTest : public test::ProcessFixture {};

TEST_F(CallbackTest, AreCalledInOneThreadThatIsNobodyElses) {
  Pool pool({.workers = 2});
  std::atomic<int> at_once{0};
  std::atomic<int> together{0};
  std::atomic<int> foreign{0};
  std::atomic<std::thread::id> first{};
  std::vector<int> order;
  for (int i = 0; i < 200; ++i) {
    pool.submit(square, i).then([&, i](Future<int> done) {
      if (at_once.fetch_add(1) != 0) ++together;
      std::thread::id nobody{};
      const std::thread::id here = std::this_thread::get_id();
      if (!first.compare_exchange_strong(nobody, here) && nobody != here) ++foreign;
      EXPECT_EQ(done.get(), i * i);
      order.push_back(i);
      at_once.fetch_sub(1);
    });
    if (i % 4 != 0) continue;
    EXPECT_EQ(pool.apply(square, 3), 9);  // takes in others' answers
  }
  pool.close();
  pool.join();
  EXPECT_EQ(order.size(), 200U) << "join() returned before they had";
  EXPECT_EQ(together, 0);
  EXPECT_EQ(foreign, 0);
  EXPECT_NE(first.load(), std::this_thread::get_id());
}

TEST_F(CallbackTest, MayWantALockThatAWaiterHolds) {
  Pool pool({.workers = 2});
  std::mutex mutex;
  int called = 0;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 10; ++i) {
      pool.submit(square, i).then([&](Future<int>) {
        const std::lock_guard<std::mutex> lock(mutex);
        ++called;
      });
    }
    const std::lock_guard<std::mutex> lock(mutex);
    EXPECT_EQ(pool.apply(square, 2), 4);
  }
  pool.close();
  pool.join();
  EXPECT_EQ(called, 200);
}

TEST_F(CallbackTest, OfATaskThatDiedMayTryAgain) {
  Pool pool({.workers = 1});
  std::atomic<int> result{0};
  pool.submit(die, 1).then([&](Future<int> done) {
    EXPECT_THROW((void)done.get(), WorkerDiedError);
    result = pool.apply(square, 5);  // by the worker that takes the dead one's place
  });
  EXPECT_TRUE(eventually([&] { return result == 25; }));
}

TEST_F(CallbackTest, HoldsUpNoDeadline) {
  test::Gate go;
  Pool pool({.workers = 2});
  pool.with({.timeout = 50ms}).submit(stay).then([&](Future<void> done) {
    EXPECT_THROW(done.get(), TaskTimeoutError);
    EXPECT_TRUE(go.wait());
  });
  EXPECT_THROW(pool.with({.timeout = 100ms}).submit(stay).get(), TaskTimeoutError);
  EXPECT_THROW((void)pool.apply(die, 1), WorkerDiedError);
  go.open();
}

TEST_F(CallbackTest, MayCloseAndJoin) {
  for (auto* const function : {&square, &die}) {
    Pool pool({.workers = 1});
    std::atomic<bool> joined{false};
    pool.submit(*function, 1).then([&](Future<int>) {
      pool.close();
      joined = pool.try_join(20s);
    });
    EXPECT_TRUE(eventually([&] { return joined.load(); }));
  }
}

TEST_F(CallbackTest, MayDestroyThePool) {
  // What a pool that is destroyed by its own callback leaves stays until its process ends.
  for (auto* const function : {&square, &die}) {
    test::Child child([function] {
      std::optional<Pool> pool(PoolOptions{.workers = 1});
      std::atomic<bool> gone{false};
      pool->submit(*function, 1).then([&](Future<int>) {
        pool.reset();
        gone = true;
      });
      EXPECT_TRUE(eventually([&] { return gone.load(); }));
    });
    EXPECT_EQ(child.wait(), 0);
  }
}

TEST_F(CallbackTest, IsCalledWhenThePoolEnds) {
  int closed = 0;
  {
    Pool pool({.workers = 1});
    for (int i = 0; i < 5; ++i) {
      pool.submit(stay).then([&](Future<void> done) {
        try {
          done.get();
        } catch (const Error& error) {
          closed += error.code() == Code::kClosed ? 1 : 0;
        }
      });
    }
  }
  EXPECT_EQ(closed, 5);
}

TEST_F(CallbackTest, OfAnEndedPoolIsCalledHere) {
  std::optional<Pool> pool(PoolOptions{.workers = 1});
  Future<int> future = pool->submit(square, 4);
  EXPECT_TRUE(future.try_wait(20s));
  pool.reset();
  std::thread::id called{};
  std::move(future).then([&](Future<int> done) {
    EXPECT_EQ(done.get(), 16);
    called = std::this_thread::get_id();
  });
  EXPECT_EQ(called, std::this_thread::get_id());
}

}  // namespace
}  // namespace forklift
