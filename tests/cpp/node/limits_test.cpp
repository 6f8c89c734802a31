// Limits under which shared memory has to be made: file sizes, locked memory, address space, a user's wish.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "domain/layout.h"
#include "forklift/queue.h"
#include "node/node.h"
#include "support/child.h"
#include "support/status_check.h"

namespace forklift {
namespace {

using domain::make_plan;
using domain::Plan;
using test::Child;

constexpr std::uint64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;

// What an ordinary user may do: no limit can be lifted beyond its hard part.
void drop_privileges() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2]{};
  ASSERT_EQ(::syscall(SYS_capset, &header, none), 0);
}

void limit(__rlimit_resource_t what, std::uint64_t soft, std::uint64_t hard) {
  const rlimit value{soft, hard};
  ASSERT_EQ(::setrlimit(what, &value), 0);
}

void limit(__rlimit_resource_t what, std::uint64_t bytes) { limit(what, bytes, bytes); }

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// Messages that lie in a channel, and such that lie in blocks, through a domain of this process's own.
void exchange(std::size_t largest) {
  Queue<std::vector<int>> queue;
  for (std::size_t count = 1; count * sizeof(int) <= largest; count *= 4) {
    std::vector<int> message(count);
    std::iota(message.begin(), message.end(), 7);
    queue.put(message);
    ASSERT_EQ(queue.get(), message);
  }
}

std::uint64_t segment_bytes() { return (*node::Node::current())->domain().data_bytes(); }

// The thread sanitizer leaves no room for larger segments (domain/layout.cpp).
#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kLargest = 16 * kGiB;
#else
constexpr std::uint64_t kLargest = ~std::uint64_t{0};
#endif

TEST(Limits, AnythingFromOneMegabyteOnIsEnoughForFiles) {
  for (const std::uint64_t bytes :
       {std::uint64_t{1'000'000}, kMiB, 3 * kMiB, 20 * kMiB, 64 * kMiB, kGiB, 600 * kGiB}) {
    Child child([&] {
      drop_privileges();
      limit(RLIMIT_FSIZE, bytes);
      exchange(64 * kKiB);
      EXPECT_LE(segment_bytes(), bytes);
      EXPECT_GT(segment_bytes() * 4, std::min(bytes, kLargest)) << "far smaller than it may be";
      rlimit now{};
      ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &now), 0);
      EXPECT_EQ(now.rlim_cur, bytes);
    });
    EXPECT_EQ(child.wait(), 0) << bytes;
  }
}

TEST(Limits, ASoftLimitOfFilesDoesNotCount) {
  Child child([] {
    const std::uint64_t usual = make_plan({}).data_bytes;
    drop_privileges();
    limit(RLIMIT_FSIZE, 4096, RLIM_INFINITY);
    exchange(kMiB);
    EXPECT_EQ(segment_bytes(), usual);
    rlimit now{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &now), 0);
    EXPECT_EQ(now.rlim_cur, 4096U);
    EXPECT_EQ(now.rlim_max, RLIM_INFINITY);
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Limits, FilesThatAreTooSmallAreAnErrorThatNamesTheLimit) {
  Child child([] {
    drop_privileges();
    limit(RLIMIT_FSIZE, 100'000);
    const Result<node::Node*> node = node::Node::current();
    ASSERT_FALSE(node);
    EXPECT_THAT(node.status().to_string(),
                testing::AllOf(testing::HasSubstr("RLIMIT_FSIZE"), testing::HasSubstr("100000")));
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Limits, MemoryThatIsLockedFromHereOnIsNotPopulated) {
  Child child([] {
    const std::uint64_t before = resident_bytes();
    if (::mlockall(MCL_FUTURE) != 0) std::exit(77);
    exchange(kMiB);
    EXPECT_LT(resident_bytes(), before + 256 * kMiB);
  });
  const int status = child.wait();
  if (status == 77) GTEST_SKIP() << "this user may lock no memory";
  EXPECT_EQ(status, 0);
}

TEST(Limits, WhereLittleMemoryMayBeLockedTheSegmentIsSmall) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "with the sanitizers mlockall does nothing";
#endif
  Child child([] {
    rlimit now{};
    ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &now), 0);
    limit(RLIMIT_MEMLOCK, std::min<std::uint64_t>(now.rlim_max, 64 * kMiB));
    drop_privileges();
    ASSERT_EQ(::mlockall(MCL_FUTURE), 0);
    exchange(64 * kKiB);
    EXPECT_LE(segment_bytes(), 64 * kMiB);
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Limits, TheSegmentsSizeCanBeWishedFor) {
  const auto size_with = [](const char* wish) {
    Child child([&] {
      ::setenv("FORKLIFT_SEGMENT_SIZE", wish, 1);
      const Result<node::Node*> node = node::Node::current();
      if (!node) {
        EXPECT_THAT(node.status().to_string(), testing::HasSubstr("FORKLIFT_SEGMENT_SIZE"));
        std::_Exit(99);
      }
      std::uint64_t bytes = segment_bytes();
      int bits = 0;
      while (bytes >>= 1) ++bits;
      std::_Exit(bits);
    });
    return child.wait();
  };
  EXPECT_EQ(size_with("8G"), 33);
  EXPECT_EQ(size_with("100m"), 26) << "a power of two";
  EXPECT_EQ(size_with("1048576"), 20);
  EXPECT_EQ(size_with("1"), 19) << "at least what anything needs";
  for (const char* wrong : {"x", "8GB", "-1", "0", "99999999999999999999", "99999999999T", "G"})
    EXPECT_EQ(size_with(wrong), 99) << wrong;
}

TEST(Limits, WithoutProcTheErrorSaysSo) {
  Child child([] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", "/proc", "tmpfs", 0, nullptr) != 0)
      std::_Exit(77);
    const Result<node::Node*> node = node::Node::current();
    ASSERT_FALSE(node);
    EXPECT_EQ(node.code(), Code::kUnsupported);
    EXPECT_THAT(node.status().to_string(), testing::HasSubstr("/proc is not mounted"));
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  });
  const int status = child.wait();
  if (status == 77) GTEST_SKIP() << "this user may mount nothing";
  EXPECT_EQ(status, 0);
}

TEST(Limits, APlanFitsItsLimits) {
  for (std::uint64_t bytes = domain::kSmallestSegment * 2; bytes < 4 * kGiB; bytes += bytes / 3) {
    const Plan plan = make_plan({.file_size = bytes});
    EXPECT_LE(plan.data_bytes, bytes);
    EXPECT_LE(plan.control_bytes, bytes);
  }
  EXPECT_EQ(make_plan({.address_space = 4 * kGiB}).data_bytes, kGiB);
  EXPECT_EQ(make_plan({.address_space = 0}).data_bytes, 64 * kMiB);
  EXPECT_EQ(make_plan({.segment = 0}).data_bytes, domain::kSmallestSegment);
}

}  // namespace
}  // namespace forklift
