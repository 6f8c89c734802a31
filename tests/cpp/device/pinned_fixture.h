// Tests of the arena's memory that is registered with the driver: at the end of each nothing is. What the fake driver
// counts is what Forklift says; a real one counts nothing.
#pragma once

#include <gtest/gtest.h>

#include "device/cuda/pinned_arena.h"
#include "support/gpu_fixture.h"
#include "tensor/pending.h"

namespace forklift::test {

using device::cuda::PinnedArena;

inline constexpr std::size_t kMiB = std::size_t{1} << 20;

class PinnedMemory : public GpuFixture {
 protected:
  static Tensor here(std::size_t bytes, float value = 1) {
    Tensor made = Tensor::empty({static_cast<std::int64_t>(bytes / sizeof(float))}, DType::kFloat32);
    made.fill(value);
    return made;
  }
  long ranges() const {
    const auto said = static_cast<long>(stats().ranges);
    if (fake().is_loaded()) {
      EXPECT_EQ(fake().live().host_ranges, said);
    }
    return said;
  }
  std::size_t bytes() const {
    const auto said = static_cast<std::size_t>(stats().bytes);
    if (fake().is_loaded()) {
      EXPECT_EQ(static_cast<std::size_t>(fake().live().host_bytes), said);
    }
    return said;
  }
  static PinnedArena::Stats stats() { return PinnedArena::of_process().stats(); }
  // There and back, through memory of the arena both times.
  static void expect_round_trip(const Tensor& tensor, float value) {
    const Tensor back = tensor.to("GPU").to("CPU");
    EXPECT_THAT(back.span<const float>(), testing::Each(value));
  }
  // Gives all free memory of the arena back to the kernel.
  static void trim() { node().arena().trim(0); }
  void TearDown() override {
    PinnedArena::of_process().release();
    EXPECT_EQ(ranges(), 0);
    EXPECT_EQ(bytes(), 0U);
    GpuFixture::TearDown();
  }
};

}  // namespace forklift::test
