// Received private payloads: its receiver's own over any number of forks, in a handful of mappings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <thread>

#include "arena/arena.h"
#include "support/node_fixture.h"

namespace forklift::arena {
namespace {

using test::Child;
using test::Gate;
using testing::HasSubstr;

constexpr std::size_t kPayload = 64 * 1024;

struct DataMappings {
  std::size_t count = 0;
  std::uint64_t anonymous_bytes = 0;  // private copies of pages
};

// Of this file only: the program may be in other domains, too.
DataMappings mappings_of(const os::Fd& file) {
  // Appended: GCC 12 warns of an overlap in operator+ that is not there (GCC bug 105651).
  std::string inode(" ");
  inode.append(std::to_string(file.inode())).append(" ");
  DataMappings found;
  std::ifstream smaps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    if (line.find('-') != std::string::npos && line.find(" r") != std::string::npos) {
      inside = line.find(inode) != std::string::npos && line.find("memfd:") != std::string::npos;
      found.count += inside ? 1 : 0;
    } else if (inside && line.starts_with("Anonymous:")) {
      found.anonymous_bytes += std::stoull(line.substr(10)) * 1024;
    }
  }
  return found;
}

bool all_are(const LeasePtr& lease, int value) {
  return std::all_of(lease->data(), lease->data() + lease->size(),
                     [&](std::byte b) { return b == static_cast<std::byte>(value); });
}

class ViewsTest : public test::NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    channel_ = make_channel();
  }
  void TearDown() override {
    channel_.reset();
    EXPECT_TRUE(test::eventually([&] { return domain().reap(), domain().live_slots() == 1; }));
    EXPECT_LE(arena().private_views(), 1U);
    NodeFixture::TearDown();
  }
  // A private payload as it comes out of a message, filled with the value.
  LeasePtr receive(int value, std::size_t bytes = kPayload) {
    LeasePtr block = allocate(Kind::kPrivate, bytes);
    std::memset(block->data(), value, bytes);
    LeasePtr received = pass(channel_, block);
    EXPECT_OK(arena().privatise(*received));
    EXPECT_TRUE(all_are(received, value));
    return received;
  }
  DataMappings data_mappings() { return mappings_of(domain().data_file()); }
  void set(const LeasePtr& lease, int value) { std::memset(lease->data(), value, lease->size()); }

  channel::ChannelPtr channel_;
};

TEST_F(ViewsTest, WritesOnEitherSideOfAForkAreNotSeenByTheOther) {
  LeasePtr payload = receive(1);
  LeasePtr untouched = receive(9);
  Gate parent_wrote;
  Gate child_wrote;
  Child child([&] {
    EXPECT_TRUE(all_are(payload, 1));
    set(payload, 3);
    child_wrote.open();
    ASSERT_TRUE(parent_wrote.wait());
    EXPECT_TRUE(all_are(payload, 3));
    EXPECT_TRUE(all_are(untouched, 9));
  });
  ASSERT_TRUE(child_wrote.wait());
  EXPECT_TRUE(all_are(payload, 1));
  set(payload, 2);
  set(untouched, 8);
  parent_wrote.open();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(all_are(payload, 2));
}

TEST_F(ViewsTest, EveryForkSeesThePayloadAsItWasThen) {
  LeasePtr payload = receive(0);
  std::vector<Child> children;
  Gate go;
  for (int generation = 1; generation <= 5; ++generation) {
    set(payload, generation);
    children.emplace_back([&, generation] {
      ASSERT_TRUE(go.wait());
      EXPECT_TRUE(all_are(payload, generation));
      set(payload, 100 + generation);
      const Child grandchild([&] {
        set(payload, 200);
        EXPECT_TRUE(all_are(payload, 200));
      });
      EXPECT_TRUE(all_are(payload, 100 + generation));
    });
  }
  set(payload, 77);
  go.open(5);
  for (Child& child : children) EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(all_are(payload, 77));
}

TEST_F(ViewsTest, TwoThousandPayloadsNeedAHandfulOfMappings) {
  constexpr std::size_t kCount = 2000;
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  const rlimit few{64, old.rlim_max};  // arrays are no descriptors
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<LeasePtr> payloads;
  for (std::size_t i = 0; i < kCount; ++i) payloads.push_back(receive(static_cast<int>(i % 251)));
  EXPECT_LE(data_mappings().count, 3U);
  Child child([&] {
    EXPECT_LE(data_mappings().count, 6U);
    for (std::size_t i = 0; i < kCount; i += 7) {
      ASSERT_TRUE(all_are(payloads[i], static_cast<int>(i % 251)));
      set(payloads[i], 252);
    }
    EXPECT_LE(data_mappings().count, 6U);
  });
  EXPECT_LE(data_mappings().count, 6U);
  for (std::size_t i = 3; i < kCount; i += 7) set(payloads[i], 253);
  EXPECT_EQ(child.wait(), 0);
  for (std::size_t i = 0; i < kCount; i += 7) ASSERT_TRUE(all_are(payloads[i], static_cast<int>(i % 251)));
  EXPECT_LE(data_mappings().count, 6U);
  payloads.clear();
  EXPECT_EQ(arena().private_views(), 0U);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
}

TEST_F(ViewsTest, AForkWithoutPayloadsMapsNothingAnew) {
  receive(1).reset();
  const std::size_t mappings = data_mappings().count;
  for (int i = 0; i < 3; ++i) {
    Child child([&] { EXPECT_EQ(data_mappings().count, mappings); });
    EXPECT_EQ(child.wait(), 0);
  }
  EXPECT_EQ(data_mappings().count, mappings);
  EXPECT_EQ(arena().private_views(), 1U);
}

TEST_F(ViewsTest, WhatIsReceivedAfterAForkIsSharedAgainUntilTheNext) {
  LeasePtr before = receive(1);
  Child first([] {});
  EXPECT_EQ(first.wait(), 0);
  LeasePtr after = receive(2);
  EXPECT_EQ(arena().private_views(), 2U);
  set(after, 3);
  EXPECT_EQ(data_mappings().anonymous_bytes, 0U);  // no private copy was needed
  set(before, 4);
  EXPECT_GE(data_mappings().anonymous_bytes, kPayload);
  Gate go;
  Child second([&] {
    ASSERT_TRUE(go.wait());
    EXPECT_TRUE(all_are(after, 3));
    EXPECT_TRUE(all_are(before, 4));
  });
  set(after, 5);
  set(before, 6);
  go.open();
  EXPECT_EQ(second.wait(), 0);
}

TEST_F(ViewsTest, AReleaseDropsThePrivateCopies) {
  std::vector<LeasePtr> payloads;
  for (int i = 0; i < 8; ++i) payloads.push_back(receive(i));
  Child child([] {});
  EXPECT_EQ(child.wait(), 0);
  for (const LeasePtr& payload : payloads) set(payload, 99);
  EXPECT_GE(data_mappings().anonymous_bytes, 8 * kPayload);
  payloads.resize(2);
  EXPECT_LE(data_mappings().anonymous_bytes, 2 * kPayload);
  payloads.clear();
  EXPECT_EQ(data_mappings().anonymous_bytes, 0U);
  EXPECT_EQ(arena().private_views(), 0U);
}

// With as many views as there may be, receipts go to a private one: what was written there before must be
// gone.
TEST_F(ViewsTest, ABlockComesBackWithItsNewContentsInAPrivateView) {
  std::vector<LeasePtr> kept;
  for (int i = 0; i < 8; ++i) {
    kept.push_back(receive(i));
    Child child([] {});
    EXPECT_EQ(child.wait(), 0);
    domain().reap();
  }
  LeasePtr first = receive(20);
  const std::uint64_t offset = first->handle().offset;
  first.reset();
  for (int i = 20; i < 30; ++i) {
    LeasePtr again = receive(i);  // checks the contents
    EXPECT_EQ(again->handle().offset, offset);
    set(again, 100 + i);
    EXPECT_GE(data_mappings().anonymous_bytes, kPayload);
    again.reset();
    EXPECT_EQ(data_mappings().anonymous_bytes, 0U);
  }
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(all_are(kept[static_cast<std::size_t>(i)], i));
}

// A payload kept from each of more generations than there may be views.
TEST_F(ViewsTest, ManyGenerationsShareTheLastViews) {
  std::vector<LeasePtr> payloads;
  for (int generation = 0; generation < 14; ++generation) {
    payloads.push_back(receive(generation));
    payloads.push_back(receive(generation, 3 * kPayload));
    Gate go;
    Child child([&] {
      ASSERT_TRUE(go.wait());
      for (int i = 0; i <= generation; ++i) {
        const auto at = static_cast<std::size_t>(i) * 2;
        EXPECT_TRUE(all_are(payloads[at], i));
        EXPECT_TRUE(all_are(payloads[at + 1], generation > i ? 100 + i : i));
      }
    });
    for (const LeasePtr& payload : payloads) {
      if (payload->size() > kPayload) continue;
      const int value = static_cast<int>(payload->data()[0]);
      set(payload, 200);
      EXPECT_TRUE(all_are(payload, 200));
      set(payload, value);
    }
    set(payloads.back(), 100 + generation);
    go.open();
    EXPECT_EQ(child.wait(), 0) << generation;
    EXPECT_LE(arena().private_views(), 8U);
  }
  EXPECT_LE(data_mappings().count, 40U);
  std::reverse(payloads.begin(), payloads.end());
  payloads.clear();
  EXPECT_LE(arena().private_views(), 1U);
}

TEST_F(ViewsTest, TheSmallestPayloadsDoNotShareAPage) {
  std::vector<LeasePtr> payloads;
  for (int i = 0; i < 20; ++i) payloads.push_back(receive(i, 1 + static_cast<std::size_t>(i)));
  Child child([] {});
  EXPECT_EQ(child.wait(), 0);
  for (int i = 0; i < 20; ++i) set(payloads[static_cast<std::size_t>(i)], 100 + i);
  for (std::size_t i = 0; i < 20; i += 2) payloads[i].reset();
  for (int i = 1; i < 20; i += 2) EXPECT_TRUE(all_are(payloads[static_cast<std::size_t>(i)], 100 + i));
}

TEST_F(ViewsTest, SharedBlocksStayShared) {
  LeasePtr block = allocate(Kind::kShare, kPayload);
  std::memset(block->data(), 1, kPayload);
  LeasePtr received = pass(channel_, block);
  std::byte* where = received->data();
  EXPECT_OK(arena().privatise(*received));
  EXPECT_EQ(received->data(), where);
  Child child([&] { set(received, 2); });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(all_are(received, 2));
}

TEST_F(ViewsTest, AChildReceivesAndForksLikeItsParent) {
  LeasePtr mine = receive(1);
  Child child([&] {
    LeasePtr its = receive(2);
    Child grandchild([&] {
      set(its, 3);
      set(mine, 3);
    });
    EXPECT_EQ(grandchild.wait(), 0);
    EXPECT_TRUE(all_are(its, 2));
    EXPECT_TRUE(all_are(mine, 1));
    set(mine, 4);
    mine.reset();
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(all_are(mine, 1));
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
// RLIMIT_DATA counts private writable mappings, so that the isolation cannot be had. The fork goes on, and
// says so.
TEST_F(ViewsTest, AForkThatCannotIsolateSaysSo) {
  testing::internal::CaptureStderr();
  Child child([&] {
    LeasePtr payload = receive(1);
    const rlimit none{4096, RLIM_INFINITY};  // 0 would mean something else
    ASSERT_EQ(::setrlimit(RLIMIT_DATA, &none), 0);
    const pid_t grandchild = ::fork();
    if (grandchild == 0) ::_exit(domain().attached() ? 0 : 1);
    int status = 1;
    while (::waitpid(grandchild, &status, 0) < 0 && errno == EINTR) {
    }
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(all_are(payload, 1));
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("fork without isolation"));
}
#endif

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
// RLIMIT_AS lowered below what is mapped: no fresh view can be had, so receipts go to the rest of the private
// one; and a fork still isolates, since that takes no address space.
TEST_F(ViewsTest, WithoutAddressSpaceThePrivateViewIsUsedOn) {
  Child child([&] {
    LeasePtr first = receive(1);
    const Child fork([] {});
    LeasePtr open = receive(50);
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = std::uint64_t{1} << 30;  // far less than is mapped
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
    std::vector<LeasePtr> more;
    for (int i = 2; i < 10; ++i) more.push_back(receive(i));
    EXPECT_EQ(arena().private_views(), 2U);
    EXPECT_EQ(::getrlimit(RLIMIT_AS, &limit), 0);
    EXPECT_EQ(limit.rlim_cur, std::uint64_t{1} << 30);
    set(first, 100);
    set(more[0], 102);
    Child second([&] {
      EXPECT_TRUE(all_are(first, 100));
      EXPECT_TRUE(all_are(more[0], 102));
      EXPECT_TRUE(all_are(more[7], 9));
      set(more[7], 109);
      set(open, 110);
    });
    EXPECT_EQ(second.wait(), 0);
    EXPECT_TRUE(all_are(open, 50));
    more.push_back(receive(11));  // both views are private now
    set(more.back(), 12);
    Child third([&] {
      EXPECT_TRUE(all_are(more.back(), 12));
      set(more.back(), 13);
    });
    EXPECT_EQ(third.wait(), 0);
    EXPECT_TRUE(all_are(more.back(), 12));
    EXPECT_TRUE(all_are(more[7], 9));
  });
  EXPECT_EQ(child.wait(), 0);
}
#endif

// Threads receive, write and release while this one forks.
TEST_F(ViewsTest, ThreadsReceiveWhileOneForks) {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      channel::ChannelPtr own = make_channel();
      for (int value = i; !done; value = (value + 2) % 100) {
        LeasePtr block = allocate(Kind::kPrivate, kPayload);
        std::memset(block->data(), value, kPayload);
        LeasePtr received = pass(own, block);
        ASSERT_OK(arena().privatise(*received));
        ASSERT_TRUE(all_are(received, value));
        std::memset(received->data(), value + 100, kPayload);
        ASSERT_TRUE(all_are(received, value + 100));
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    Child child([] { ::_exit(0); });
    ASSERT_EQ(child.wait(), 0);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace forklift::arena
