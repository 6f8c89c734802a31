#include "domain/layout.h"

#include <algorithm>
#include <bit>

namespace forklift::inline abi_0_1::domain {

namespace {
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kTiB = std::uint64_t{1} << 40;

#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kLargest = 16 * kGiB;  // the sanitizer's shadow multiplies what we reserve
#elif defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kLargest = 256 * kGiB;
#else
constexpr std::uint64_t kLargest = kTiB;
#endif
}  // namespace

Plan make_plan(const PlanLimits& limits) {
  // A power of two, so that size classes tile the two halves exactly. At most a quarter of the address space:
  // the segment is mapped once and its private half a second time.
  const std::uint64_t most = std::clamp(limits.address_space / 4, 64 * kMiB, kLargest);
  const std::uint64_t wanted = std::min(limits.file_size, limits.segment);
  Plan plan = plan_for(std::bit_floor(std::clamp(wanted, kSmallestSegment, most)));
  while (plan.control_bytes > limits.file_size && plan.data_bytes > kSmallestSegment)
    plan = plan_for(plan.data_bytes / 2);
  return plan;
}

Plan plan_for(std::uint64_t data_bytes) {
  Plan plan{};
  plan.data_bytes = data_bytes;
  // A segment below 64 MiB is made only where a limit allows no more; then all parts shrink with it.
  const bool small = plan.data_bytes < 64 * kMiB;
  const std::uint64_t blocks = std::clamp(plan.data_bytes / 4096, std::uint64_t{512}, std::uint64_t{1} << 22);
  const std::uint64_t chunks = small ? std::max(plan.data_bytes / 4, kMiB / 4)
                                     : std::clamp(plan.data_bytes / 16, 16 * kMiB, 32 * kGiB);
  const auto size_of = [&](Region region) -> std::uint64_t {
    switch (region) {
      case Region::kSlots: return kSlotCount * sizeof(Slot);
      case Region::kLocks: return std::min(plan.data_bytes / 64, 96 * kMiB);
      case Region::kArena: return 64 * 1024;
      case Region::kBlocks: return blocks * 64;
      case Region::kLeases: return blocks * 2 * 32;
      case Region::kChannels: return std::min(plan.data_bytes / 64, 32 * kMiB);
      case Region::kChunks: return chunks;
      case Region::kTopics: return std::min(plan.data_bytes / 64, 32 * kMiB);
      case Region::kNames: return 128 * 1024;
      case Region::kSegments: return std::min(plan.data_bytes / 64, 32 * kMiB);
      case Region::kMemoryPools: return std::min(plan.data_bytes / 64, kMiB / 2);
      case Region::kPieces: return std::min(plan.data_bytes / 64, 32 * kMiB);
      case Region::kWaitSets: return std::min(plan.data_bytes / 64, 16 * kMiB);
      case Region::kWatches: return std::clamp(plan.data_bytes / 64, kMiB / 16, 32 * kMiB);
      case Region::kServices: return std::min(plan.data_bytes / 64, 4 * kMiB);
      case Region::kWaits: return std::min(plan.data_bytes / 64, 2 * kMiB);
      case Region::kTraces: return std::clamp(plan.data_bytes / 16, kMiB / 32, kGiB);
      case Region::kCount: break;
    }
    return 0;
  };

  std::uint64_t offset = 4096;
  for (std::size_t i = 0; i < kRegions; ++i) {
    const std::uint64_t bytes = (size_of(static_cast<Region>(i)) + 4095) & ~std::uint64_t{4095};
    plan.regions[i] = {offset, bytes};
    offset += bytes;
  }
  plan.control_bytes = offset;
  return plan;
}

}  // namespace forklift::inline abi_0_1::domain
