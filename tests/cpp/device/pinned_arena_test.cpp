// The arena as pinned memory: what is registered with the driver, and that no registration outlives its pages.
#include "device/cuda/pinned_arena.h"

#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "device/pinned_fixture.h"

namespace forklift::test {
namespace {

using testing::Each;
using testing::HasSubstr;

TEST_F(PinnedMemory, GrowsWithUseAndIsUsedAgain) {
  const Tensor a = here(kMiB, 1);
  const Tensor b = here(3 * kMiB, 2);
  const Tensor there = a.to("GPU");
  EXPECT_EQ(ranges(), 1);
  EXPECT_EQ(bytes(), kMiB);
  const Tensor again = a.to("GPU");
  EXPECT_EQ(ranges(), 1);
  const Tensor other = b.to("GPU");
  EXPECT_EQ(bytes(), 4 * kMiB);  // the tensor's pages, not the block of 4 MiB in which it lies
  EXPECT_EQ(stats().registered, 2U);
  EXPECT_THAT(there.to("CPU").span<const float>(), Each(1));
  EXPECT_THAT(other.to("CPU").span<const float>(), Each(2));
}

TEST_F(PinnedMemory, SmallCopiesAndMemoryOutsideTheArenaAreNotRegistered) {
  expect_round_trip(here(PinnedArena::kSmallest - 4), 1);
  std::vector<float> heap(kMiB);
  const Tensor target = here(4 * kMiB).to("GPU");
  const long before = ranges();
  EXPECT_OK(gpu().copy_in(detail::StorageAccess::address(*target.storage()), heap.data(), 4 * kMiB));
  EXPECT_EQ(ranges(), before);
  EXPECT_THAT(target.to("CPU").span<const float>(), Each(0));
}

// A private payload is seen through a view, which a fork replaces.
TEST_F(PinnedMemory, PrivatePayloadsAreNotRegistered) {
  arena::LeasePtr lease = *node().arena().allocate(arena::Kind::kPrivate, kMiB);
  const Tensor target = here(kMiB).to("GPU");
  const long before = ranges();
  EXPECT_OK(gpu().copy_in(detail::StorageAccess::address(*target.storage()), lease->data(), kMiB));
  EXPECT_OK(node().arena().privatise(*lease));
  EXPECT_OK(gpu().copy_in(detail::StorageAccess::address(*target.storage()), lease->data(), kMiB));
  EXPECT_EQ(ranges(), before);
}

// The first copy of a part registers the whole, so that the others find it.
TEST_F(PinnedMemory, PartsOfATensorShareItsRegistration) {
  const Tensor whole = here(2 * kMiB, 3);
  for (std::int64_t i = 0; i < 4; ++i) {
    const Tensor part = whole.slice(0, i * 100'000, (i + 1) * 100'000);
    EXPECT_THAT(part.to("GPU").to("CPU").span<const float>(), Each(3));
  }
  const auto now = stats();
  EXPECT_GE(now.bytes, 2 * kMiB);
  EXPECT_EQ(now.failed, 0U);
}

// Copies that no tensor announces: ranges that meet become one, and one that is in use stays as it is.
TEST_F(PinnedMemory, ACopyAcrossTheEdgeOfARegistrationInUseIsMadeInPieces) {
  const Tensor host = here(4 * kMiB, 5);
  auto* const memory = host.raw();
  const Tensor target = here(4 * kMiB, 0).to("GPU");
  PinnedArena& pinned = PinnedArena::of_process();
  pinned.release();
  {
    const device::cuda::Current current(gpu().driver(), gpu().context());
    const auto first = *pinned.begin(gpu().place(), memory + kMiB, kMiB);
    EXPECT_TRUE(first.is_pinned());
    const auto all = *pinned.begin(gpu().place(), memory, 4 * kMiB);
    EXPECT_FALSE(all.is_pinned());
    EXPECT_EQ(all.pieces().size(), 3U);
    EXPECT_OK(gpu().copy_in(detail::StorageAccess::address(*target.storage()), memory, 4 * kMiB));
    EXPECT_EQ(bytes(), kMiB);
  }
  EXPECT_THAT(target.to("CPU").span<const float>(), Each(5));
  pinned.release();
  const device::cuda::Current current(gpu().driver(), gpu().context());
  static_cast<void>(*pinned.begin(gpu().place(), memory + kMiB, kMiB));
  const auto all = *pinned.begin(gpu().place(), memory, 4 * kMiB);
  EXPECT_TRUE(all.is_pinned());
  EXPECT_EQ(ranges(), 1);
}

TEST_F(PinnedMemory, NoRegistrationOutlivesItsPages) {
  {
    expect_round_trip(here(8 * kMiB, 1), 1);
  }
  EXPECT_GE(bytes(), 8 * kMiB);
  trim();
  EXPECT_EQ(ranges(), 0);
  EXPECT_GE(stats().punched, 1U);
  // New pages at the same addresses, which the driver must see.
  expect_round_trip(here(8 * kMiB, 2), 2);
}

// What this process keeps pinned is punched by another one. The next block that it gets may have those pages.
TEST_F(PinnedMemory, PunchesOfOtherProcessesAreNoticed) {
  Gate go;
  Gate done;
  Child child([&] {
    ASSERT_TRUE(go.wait());
    trim();
    done.open();
  });
  {
    expect_round_trip(here(8 * kMiB, 1), 1);
  }
  node().arena().trim(UINT64_MAX);  // the blocks that this process keeps for itself become free
  EXPECT_GE(bytes(), 8 * kMiB);
  go.open();
  ASSERT_TRUE(done.wait());
  const Tensor next = here(8 * kMiB, 2);
  EXPECT_EQ(ranges(), 0);
  EXPECT_GE(stats().punched, 1U);
  expect_round_trip(next, 2);
  EXPECT_EQ(child.wait(), 0);
}

// More punches than the log keeps.
TEST_F(PinnedMemory, AfterManyPunchesEverythingIsRegisteredAnew) {
  const Tensor kept = here(kMiB, 1);
  Gate go;
  Child child([&] {
    ASSERT_TRUE(go.wait());
    const std::uint64_t first = node().arena().punch_log().count();
    while (node().arena().punch_log().count() - first <= arena::kPunchesKept) {
      {
        const Tensor made = Tensor::zeros({1 << 16}, DType::kFloat32);
      }
      trim();
    }
  });
  expect_round_trip(kept, 1);
  EXPECT_GE(ranges(), 1);
  go.open();
  EXPECT_EQ(child.wait(), 0);
  PinnedArena::of_process().catch_up();
  EXPECT_EQ(ranges(), 0);
  expect_round_trip(kept, 1);
}

// A waiting process gives back what others have punched.
TEST_F(PinnedMemory, AWaitingProcessLetsPunchedPagesGo) {
  Gate go;
  Child child([&] {
    ASSERT_TRUE(go.wait());
    trim();
  });
  {
    expect_round_trip(here(8 * kMiB, 1), 1);
  }
  node().arena().trim(UINT64_MAX);
  go.open();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(eventually([&] {
    node().domain().check_deaths();
    return ranges() == 0;
  }));
}

TEST_F(PinnedMemory, TheOldestGoesWhenTheBudgetIsReached) {
  ::setenv("FORKLIFT_PINNED_BUDGET", "4M", 1);
  const Tensor a = here(2 * kMiB, 1);
  const Tensor b = here(2 * kMiB, 2);
  const Tensor c = here(2 * kMiB, 3);
  const std::vector<Tensor> there{a.to("GPU"), b.to("GPU"), a.to("GPU"), c.to("GPU")};
  EXPECT_EQ(bytes(), 4 * kMiB);
  EXPECT_EQ(stats().evicted, 1U);
  const auto before = stats().registered;
  const Tensor again = a.to("GPU");
  EXPECT_EQ(stats().registered, before);  // it was b that went
  // What is larger than the budget is copied all the same.
  const Tensor d = here(8 * kMiB, 4).to("GPU");
  EXPECT_EQ(bytes(), 4 * kMiB);
  EXPECT_THAT(d.to("CPU").span<const float>(), Each(4));
  EXPECT_THAT(there[3].to("CPU").span<const float>(), Each(3));
  ::unsetenv("FORKLIFT_PINNED_BUDGET");
}

TEST_F(PinnedMemory, ABudgetThatIsNoNumberIsAnError) {
  ::setenv("FORKLIFT_PINNED_BUDGET", "much", 1);
  EXPECT_EQ(code_of([] { on_gpu({1}); }), Code::kInvalid);
  EXPECT_THAT(text_of([] { on_gpu({1}); }), HasSubstr("FORKLIFT_PINNED_BUDGET"));
  ::unsetenv("FORKLIFT_PINNED_BUDGET");
}

// 712: another library has registered it. 304: the limit on locked memory.
TEST_F(PinnedMemory, WhatCannotBeRegisteredIsCopiedAllTheSame) {
  if (skipped_on_real_cuda("it makes calls fail")) return;
  for (const int error : {712, 304, 2}) {
    const Tensor host = here(2 * kMiB, static_cast<float>(error));
    fake().fail_function("cuMemHostRegister", 1, error);
    const Tensor there = host.to("GPU");
    EXPECT_EQ(fake().failed_function(), "cuMemHostRegister");
    fake().fail_no_more();
    EXPECT_THAT(there.to("CPU").span<const float>(), Each(static_cast<float>(error)));
    PinnedArena::of_process().release();
  }
  EXPECT_EQ(stats().failed, 3U);
}

// Attempts become rarer while they fail, and go on.
TEST_F(PinnedMemory, FailuresAreNotRepeatedAtEachCopy) {
  if (skipped_on_real_cuda("it makes calls fail")) return;
  const Tensor host = here(kMiB);
  const Tensor target = here(kMiB).to("GPU");
  PinnedArena::of_process().release();
  void* const to = detail::StorageAccess::address(*target.storage());
  const auto copy = [&] { EXPECT_OK(gpu().copy_in(to, host.raw(), kMiB)); };
  fake().fail_function("cuMemHostRegister", 1, 304);
  copy();
  EXPECT_EQ(stats().failed, 1U);
  copy();
  EXPECT_EQ(ranges(), 0);
  copy();
  EXPECT_EQ(ranges(), 1);
}

// Pages that the driver does not let go are not punched.
TEST_F(PinnedMemory, AFailureToUnregisterKeepsThePages) {
  if (skipped_on_real_cuda("it makes calls fail")) return;
  {
    expect_round_trip(here(8 * kMiB, 1), 1);
  }
  const long before = ranges();
  node().arena().trim(UINT64_MAX);
  fake().fail_function("cuMemHostUnregister", 1, 999);
  trim();
  EXPECT_GE(ranges(), 1);
  EXPECT_LE(ranges(), before);
  fake().fail_no_more();
  trim();
  EXPECT_EQ(ranges(), 0);
  expect_round_trip(here(8 * kMiB, 2), 2);
}

TEST_F(PinnedMemory, AForkedChildTrimsWithoutTheDriver) {
  {
    expect_round_trip(here(8 * kMiB, 1), 1);
  }
  Child child([&] {
    trim();
    static_cast<void>(here(8 * kMiB));
    EXPECT_EQ(fake().forked_calls(), 0);
  });
  EXPECT_EQ(child.wait(), 0);
  expect_round_trip(here(8 * kMiB, 2), 2);
}

TEST_F(PinnedMemory, LeavingTheDeviceEndsAllRegistrations) {
  const Tensor host = here(kMiB, 1);
  const Tensor there = host.to("GPU");
  EXPECT_EQ(ranges(), 1);
  device::leave();
  EXPECT_EQ(ranges(), 0);
  EXPECT_THAT(there.to("CPU").span<const float>(), Each(1));  // and it can be used again
}

TEST_F(PinnedMemory, WhatIsKeptIsOneRangeThatNothingEnds) {
  const Tensor host = here(3 * kMiB, 1);
  const Tensor target = host.to("GPU");
  PinnedArena& pinned = PinnedArena::of_process();
  pinned.release();
  {
    const device::cuda::Current current(gpu().driver(), gpu().context());
    static_cast<void>(*pinned.begin(gpu().place(), host.raw(), kMiB));
    const auto kept = pinned.keep(gpu().place(), host.raw(), host.nbytes());
    EXPECT_TRUE(kept.is_pinned());
    EXPECT_EQ(bytes(), 3 * kMiB);
    pinned.release();
    trim();
    EXPECT_EQ(bytes(), 3 * kMiB);
    const auto twice = pinned.keep(gpu().place(), host.raw(), host.nbytes());
    EXPECT_TRUE(twice.is_pinned());
  }
  pinned.release();
  EXPECT_EQ(ranges(), 0);
}

TEST_F(PinnedMemory, ThreadsCopyWhileOthersTrim) {
  ::setenv("FORKLIFT_PINNED_BUDGET", "6M", 1);
  static_cast<void>(gpu());
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread trimmer([&] {
    while (!stop) trim();
  });
  std::vector<std::thread> copiers;
  for (int number = 1; number <= 3; ++number) {
    copiers.emplace_back([&, number] {
      for (int round = 0; round < 40; ++round) {
        const auto value = static_cast<float>(number * 1000 + round);
        const Tensor back = here(kMiB << (round % 3), value).to("GPU").to("CPU");
        const auto all = back.span<const float>();
        if (!std::all_of(all.begin(), all.end(), [&](float each) { return each == value; })) ++wrong;
      }
    });
  }
  for (std::thread& each : copiers) each.join();
  stop = true;
  trimmer.join();
  EXPECT_EQ(wrong, 0);
  ::unsetenv("FORKLIFT_PINNED_BUDGET");
}

}  // namespace
}  // namespace forklift::test
