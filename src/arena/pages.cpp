#include "arena/pages.h"

#include <atomic>

#include "os/memfd.h"

namespace forklift::inline abi_0_1::arena {

os::HugePages Pages::huge() const noexcept {
  const domain::HugePageUse use = domain_.huge_pages();
  if (use == domain::HugePageUse::kNever) return os::HugePages::kNone;
  // No static object with a guard: another thread may hold that at a fork.
  constexpr int kUnknown = -1;
  static std::atomic<int> known{kUnknown};
  int found = known.load(std::memory_order_relaxed);
  if (found == kUnknown) {
    found = static_cast<int>(os::huge_pages_of_shared_memory());
    known.store(found, std::memory_order_relaxed);
  }
  const auto given = static_cast<os::HugePages>(found);
  // `never` is what most machines say. Only a program that asks by name gets around it.
  if (given == os::HugePages::kOnRequest && use != domain::HugePageUse::kAlways) return os::HugePages::kNone;
  return given;
}

void Pages::make_exist(std::uint64_t from, std::uint64_t to, int node) const {
  if (from >= to || !domain_.descriptors_intact()) return;
  const os::Fd& file = domain_.data_file();
  const PageNodes::Preference preference(page_nodes_, file, from, to, node);
  const std::uint64_t first = (from + os::kHugePage - 1) & ~(os::kHugePage - 1);
  const std::uint64_t last = to & ~(os::kHugePage - 1);
  // Before the rest: fallocate makes small pages, since it knows of no advice, and leaves those that are there.
  if (first < last) os::make_huge_pages(file, first, last - first, huge());
  (void)os::allocate_range(file, from, to - from);
}

}  // namespace forklift::inline abi_0_1::arena
