// Objects whose memory a thread keeps for the next ones.
#include "arena/cache/thread_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
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

TEST(ThreadCache, TheNextObjectLiesWhereTheLastOneLay) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "nothing is kept under the address sanitizer";
#endif
  struct Own {
    int value = 0;
  };
  std::shared_ptr<Own> object = std::allocate_shared<Own>(ThreadCache<Own>());
  const auto lay_at = reinterpret_cast<std::uintptr_t>(object.get());
  object.reset();
  object = std::allocate_shared<Own>(ThreadCache<Own>());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(object.get()), lay_at);
}

using Large = std::array<std::byte, 64 * 1024>;

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t size = 0;
  std::size_t resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// Constructed before the thread keeps anything, so it ends behind what gives the kept objects back.
struct EndsLast {
  std::shared_ptr<Large> object;
};

TEST(ThreadCache, AThreadThatEndsLeavesNothing) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "nothing is kept under the address sanitizer";
#endif
  const auto once = [] {
    static thread_local EndsLast last;
    std::vector<std::shared_ptr<Large>> many;
    for (int i = 0; i < 20; ++i) {
      many.push_back(std::allocate_shared<Large>(ThreadCache<Large>()));
      many.back()->fill(std::byte{1});
    }
    last.object = many.back();
    many.clear();
    many.push_back(std::allocate_shared<Large>(ThreadCache<Large>()));
  };
  std::thread(once).join();
  const std::size_t before = resident_bytes();
  for (int i = 0; i < 200; ++i) std::thread(once).join();
  // One object of each thread is 13 MB, all of them are 262.
  EXPECT_LT(resident_bytes(), before + 8'000'000);
}

}  // namespace
}  // namespace forklift::arena
