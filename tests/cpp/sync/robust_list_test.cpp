// The thread's list of held robust mutexes, which RobustMutex and pthread functions keep together.
#include "sync/robust_list.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "os/proc.h"
#include "support/child.h"
#include "sync/robust_mutex.h"

namespace forklift::sync {
namespace {

using Acquired = RobustMutex::Acquired;

// Somebody else's robust mutex.
class Foreign {
 public:
  explicit Foreign(int protocol = PTHREAD_PRIO_NONE) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setprotocol(&attributes, protocol);
    EXPECT_EQ(pthread_mutex_init(&mutex_, &attributes), 0);
    pthread_mutexattr_destroy(&attributes);
  }
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;
  ~Foreign() { pthread_mutex_destroy(&mutex_); }
  bool lock() { return pthread_mutex_lock(&mutex_) == 0; }
  bool unlock() { return pthread_mutex_unlock(&mutex_) == 0; }
  bool died() {
    const int rc = pthread_mutex_trylock(&mutex_);
    if (rc == EOWNERDEAD) pthread_mutex_consistent(&mutex_);
    if (rc == 0 || rc == EOWNERDEAD) pthread_mutex_unlock(&mutex_);
    return rc == EOWNERDEAD;
  }

 private:
  pthread_mutex_t mutex_;
};

struct Ours {
  Ours() { EXPECT_TRUE(mutex.init().ok()); }
  bool lock() {
    Status why;
    return mutex.lock(&why) == Acquired::kClean;
  }
  bool unlock() {
    mutex.unlock();
    return true;
  }
  bool died() {
    Status why;
    const Acquired got = mutex.lock(&why);
    if (got == Acquired::kOwnerDied) mutex.consistent();
    if (got != Acquired::kFailed) mutex.unlock();
    return got == Acquired::kOwnerDied;
  }
  RobustMutex mutex;
};

TEST(RobustListTest, IsFoundWhereItIsKnown) {
  find_robust_list();
  if (!kRobustListKnown) {
    EXPECT_EQ(robust_list(), nullptr);
    return;
  }
  ASSERT_NE(robust_list(), nullptr);
  EXPECT_EQ(robust_list()->tid, ::gettid());
  std::thread([] { EXPECT_EQ(robust_list()->tid, ::gettid()); }).join();
  test::Child child([] { EXPECT_EQ(robust_list()->tid, ::gettid()); });
  EXPECT_EQ(child.wait(), 0);
}

TEST(RobustListTest, IsEmptyWhenNothingIsHeld) {
  find_robust_list();
  if (robust_list() == nullptr) GTEST_SKIP() << "pthread functions are used here";
  const auto empty = [] {
    const RobustList& list = *robust_list();
    return list.first == &list.first && list.pending == nullptr;
  };
  EXPECT_TRUE(empty());
  Ours one;
  Ours two;
  ASSERT_TRUE(one.lock() && two.lock());
  EXPECT_FALSE(empty());
  one.unlock();
  EXPECT_FALSE(empty());
  two.unlock();
  EXPECT_TRUE(empty());
}

// Ours between two of the pthread functions' (one of them with priority inheritance, which marks its entry),
// given up in every order.
TEST(RobustListTest, IsSharedWithPthreadFunctions) {
  Foreign plain;
  Foreign inheriting(PTHREAD_PRIO_INHERIT);
  Ours first;
  Ours second;
  std::array<int, 4> order{0, 1, 2, 3};
  const auto unlock = [&](int which) {
    switch (which) {
      case 0: return plain.unlock();
      case 1: return first.unlock();
      case 2: return inheriting.unlock();
      default: return second.unlock();
    }
  };
  do {
    ASSERT_TRUE(plain.lock() && first.lock() && inheriting.lock() && second.lock());
    for (const int which : order) ASSERT_TRUE(unlock(which));
    if (const RobustList* list = robust_list()) {
      ASSERT_EQ(list->first, &list->first);
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

// The kernel finds all that a thread held, whoever entered it.
TEST(RobustListTest, ADyingThreadHandsAllOfItOn) {
  for (const int held : {0, 1, 2, 3}) {
    Foreign plain;
    Ours first;
    Foreign inheriting(PTHREAD_PRIO_INHERIT);
    Ours second;
    std::thread([&] {
      ASSERT_TRUE(plain.lock() && first.lock() && inheriting.lock() && second.lock());
      if (held == 0) plain.unlock();
      if (held == 1) first.unlock();
      if (held == 2) inheriting.unlock();
      if (held == 3) second.unlock();
    }).join();
    EXPECT_EQ(plain.died(), held != 0);
    EXPECT_EQ(first.died(), held != 1);
    EXPECT_EQ(inheriting.died(), held != 2);
    EXPECT_EQ(second.died(), held != 3);
  }
}

// Whoever sleeps in pthread_mutex_clocklock is woken by our unlock.
TEST(RobustListTest, AWaiterIsWoken) {
  Ours mutex;
  ASSERT_TRUE(mutex.lock());
  std::array<std::atomic<pid_t>, 4> ids{};
  std::vector<std::thread> waiters;
  waiters.reserve(ids.size());
  std::atomic<int> had{0};
  for (std::atomic<pid_t>& id : ids) {
    waiters.emplace_back([&] {
      id = ::gettid();
      EXPECT_TRUE(mutex.lock());
      ++had;
      mutex.unlock();
    });
  }
  const auto sleeps = [](const std::atomic<pid_t>& id) { return id != 0 && os::task_state(id) == 'S'; };
  EXPECT_TRUE(test::eventually([&] { return std::all_of(ids.begin(), ids.end(), sleeps); }));
  EXPECT_EQ(had.load(), 0);
  mutex.unlock();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(had.load(), 4);
}

}  // namespace
}  // namespace forklift::sync
