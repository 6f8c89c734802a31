// Memory of the arena that another library copies to GPUs by itself: it stays until the GPUs are done.
#include "device/cuda/pinned_leases.h"

#include <stdlib.h>

#include <algorithm>
#include <cstring>

#include "device/pinned_fixture.h"

namespace forklift::test {
namespace {

using device::cuda::PinnedLeases;

class PinnedForOthers : public PinnedMemory {
 protected:
  static arena::LeasePtr block(std::size_t bytes) {
    return *node().arena().allocate(arena::Kind::kShare, bytes);
  }
  static bool pin(const arena::LeasePtr& lease) {
    return PinnedLeases::of_process().pin(gpu().place(), lease);
  }
  void TearDown() override {
    node().domain().reap();  // what a child held
    PinnedLeases::of_process().collect(true);
    EXPECT_EQ(PinnedLeases::of_process().count(), 0U);
    PinnedMemory::TearDown();
  }
};

TEST_F(PinnedForOthers, ABlockIsOneRangeOfItsSize) {
  const arena::LeasePtr large = block(3 * kMiB);
  const arena::LeasePtr small = block(5000);  // kSmallest is for Forklift's own copies
  EXPECT_TRUE(pin(large));
  EXPECT_TRUE(pin(small));
  EXPECT_TRUE(pin(large));
  EXPECT_EQ(ranges(), 2);
  EXPECT_EQ(bytes(), 3 * kMiB + 8192);
  EXPECT_EQ(PinnedLeases::of_process().count(), 2U);
  EXPECT_FALSE(pin(block(100)));  // it shares its page with others
  EXPECT_FALSE(pin(*node().arena().allocate(arena::Kind::kPrivate, kMiB)));
}

// Its users are gone, but the GPU may still read it.
TEST_F(PinnedForOthers, ABlockIsNotUsedAgainBeforeTheGpusAreDone) {
  const Tensor target = here(kMiB, 0).to("GPU");
  PinnedArena::of_process().release();
  std::byte* memory = nullptr;
  {
    const arena::LeasePtr lease = block(kMiB);
    memory = lease->data();
    std::memset(memory, 7, kMiB);
    ASSERT_TRUE(pin(lease));
    const device::cuda::Current current(gpu().driver(), gpu().context());
    ASSERT_OK(gpu().driver().call(
        "cuMemcpyHtoDAsync", gpu().driver().functions().memcpy_htod_async,
        reinterpret_cast<device::cuda::Pointer>(detail::StorageAccess::address(*target.storage())), memory,
        kMiB, gpu().stream()));
  }
  EXPECT_EQ(PinnedLeases::of_process().collect(false), 0U);
  {
    const arena::LeasePtr next = block(kMiB);
    EXPECT_NE(next->data(), memory);
    trim();
    std::memset(next->data(), 9, kMiB);
  }
  EXPECT_EQ(bytes(), kMiB);
  EXPECT_EQ(PinnedLeases::of_process().collect(true), 1U);
  EXPECT_EQ(fake().live().pending, 0);
  const Tensor back = target.to("CPU");
  const auto* const first = reinterpret_cast<const unsigned char*>(back.raw());
  EXPECT_TRUE(std::all_of(first, first + kMiB, [](unsigned char each) { return each == 7; }));
}

TEST_F(PinnedForOthers, SeveralAreGivenBackAtOnce) {
  static_cast<void>(gpu());
  for (std::size_t i = 0; i < PinnedLeases::kMostIdle; ++i) {
    EXPECT_TRUE(pin(block(kMiB)));
    EXPECT_EQ(PinnedLeases::of_process().count(), i + 1);
  }
  const auto registered = stats().registered;
  EXPECT_TRUE(pin(block(kMiB)));
  EXPECT_EQ(PinnedLeases::of_process().count(), 1U);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(pin(block(kMiB)));
  EXPECT_LE(stats().registered, registered + PinnedLeases::kMostIdle);  // their memory is registered already
}

TEST_F(PinnedForOthers, WithoutAnAnswerOfTheGpusNothingIsGivenBack) {
  if (skipped_on_real_cuda("it makes calls fail")) return;
  static_cast<void>(gpu());
  EXPECT_TRUE(pin(block(kMiB)));
  fake().fail_function("cuCtxSynchronize", 1, 999);
  EXPECT_EQ(PinnedLeases::of_process().collect(true), 0U);
  EXPECT_EQ(PinnedLeases::of_process().count(), 1U);
  fake().fail_no_more();
  EXPECT_EQ(PinnedLeases::of_process().collect(true), 1U);
}

TEST_F(PinnedForOthers, BlocksInUseAreNotEvicted) {
  ::setenv("FORKLIFT_PINNED_BUDGET", "4M", 1);
  static_cast<void>(gpu());
  const arena::LeasePtr a = block(2 * kMiB);
  const arena::LeasePtr b = block(2 * kMiB);
  EXPECT_TRUE(pin(a));
  EXPECT_TRUE(pin(b));
  EXPECT_FALSE(pin(block(2 * kMiB)));
  EXPECT_EQ(stats().evicted, 0U);
  EXPECT_EQ(bytes(), 4 * kMiB);
  ::unsetenv("FORKLIFT_PINNED_BUDGET");
}

TEST_F(PinnedForOthers, AForkedChildPinsNothing) {
  const arena::LeasePtr lease = block(kMiB);
  EXPECT_TRUE(pin(lease));
  const device::cuda::MemoryPlace place = gpu().place();
  Child child([&] {
    EXPECT_FALSE(PinnedLeases::of_process().pin(place, lease));
    EXPECT_EQ(PinnedLeases::of_process().collect(true), 0U);
    EXPECT_EQ(fake().forked_calls(), 0);
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace forklift::test
