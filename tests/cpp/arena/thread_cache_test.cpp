// Objects whose memory a thread keeps for the next ones.
#include "arena/cache/thread_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace forklift::arena {
namespace {

struct Counted {
  explicit Counted(int& alive) : alive_(alive) { ++alive_; }
  ~Counted() { --alive_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  int& alive_;
};

TEST(ThreadCache, ObjectsLiveAndEndAsTheyShould) {
  int alive = 0;
  std::vector<std::shared_ptr<Counted>> many;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 100; ++i)
      many.push_back(std::allocate_shared<Counted>(ThreadCache<Counted>(), alive));
    EXPECT_EQ(alive, 100);
    many.clear();
    EXPECT_EQ(alive, 0);
  }
}

TEST(ThreadCache, AnotherThreadMayEndWhatThisOneMade) {
  int alive = 0;
  std::shared_ptr<Counted> here = std::allocate_shared<Counted>(ThreadCache<Counted>(), alive);
  std::thread([object = std::move(here)]() mutable { object.reset(); }).join();
  EXPECT_EQ(alive, 0);
  std::thread([&] { here = std::allocate_shared<Counted>(ThreadCache<Counted>(), alive); }).join();
  EXPECT_EQ(alive, 1);
  here.reset();
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace forklift::arena
