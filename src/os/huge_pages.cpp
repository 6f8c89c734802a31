#include "os/huge_pages.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>

#include "os/mapping.h"
#include "os/proc.h"

namespace forklift::inline abi_0_1::os {

namespace {

#ifdef MADV_COLLAPSE
constexpr int kCollapse = MADV_COLLAPSE;
#else
constexpr int kCollapse = 25;  // linux/mman.h since 6.1
#endif

// A window is not larger, so that it is found where address space is short.
constexpr std::uint64_t kWindow = std::uint64_t{64} << 20;

// The word in brackets: "always within_size [advise] never deny force".
std::string chosen_in(const std::string& path) {
  const std::optional<std::string> text = read_proc(path);
  if (!text) return {};
  const std::size_t open = text->find('[');
  const std::size_t close = text->find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return text->substr(open + 1, close - open - 1);
}

// linux/fs.h has both since 6.7.
struct PageRegion {
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t categories;
};
struct PagemapScan {
  std::uint64_t size;
  std::uint64_t flags;
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t walk_end;
  std::uint64_t regions;
  std::uint64_t region_count;
  std::uint64_t most_pages;
  std::uint64_t inverted;
  std::uint64_t wanted;  // all of these categories
  std::uint64_t any_of;
  std::uint64_t returned;
};
constexpr std::uint64_t kIsHuge = std::uint64_t{1} << 6;
constexpr unsigned long kPagemapScan = _IOWR('f', 16, PagemapScan);

std::optional<std::uint64_t> scan_pagemap(const void* begin, std::size_t bytes) noexcept {
  const Fd file(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return std::nullopt;
  std::array<PageRegion, 64> regions{};
  PagemapScan scan{};
  scan.size = sizeof scan;
  scan.start = reinterpret_cast<std::uintptr_t>(begin);
  scan.end = scan.start + bytes;
  scan.regions = reinterpret_cast<std::uintptr_t>(regions.data());
  scan.region_count = regions.size();
  scan.wanted = kIsHuge;
  scan.returned = kIsHuge;
  std::uint64_t huge = 0;
  const std::uint64_t end = scan.end;
  while (scan.start < end) {
    const int found = ::ioctl(file.get(), kPagemapScan, &scan);
    if (found < 0) return std::nullopt;
    for (int i = 0; i < found; ++i)
      huge += regions[static_cast<std::size_t>(i)].end - regions[static_cast<std::size_t>(i)].start;
    if (scan.walk_end <= scan.start) break;
    scan.start = scan.walk_end;
  }
  return huge;
}

}  // namespace

HugePages huge_pages_of_shared_memory(const std::string& folder) noexcept {
  const std::optional<std::string> size = read_proc(folder + "/hpage_pmd_size");
  if (!size || std::strtoull(size->c_str(), nullptr, 10) != kHugePage) return HugePages::kNone;
  const std::string all = chosen_in(folder + "/shmem_enabled");
  if (all.empty() || all == "deny") return HugePages::kNone;
  std::string ours = chosen_in(folder + "/hugepages-2048kB/shmem_enabled");  // since 6.11
  if (ours.empty() || ours == "inherit" || all == "force") ours = all;
  return ours == "never" ? HugePages::kOnRequest : HugePages::kOnAdvice;
}

void make_huge_pages(const Fd& file, std::uint64_t offset, std::uint64_t bytes, HugePages given) noexcept {
  for (const std::uint64_t end = offset + bytes; given != HugePages::kNone && offset < end;) {
    const std::uint64_t piece = std::min(end - offset, kWindow);
    const Result<Mapping> window = Mapping::shared(file, offset, piece);
    if (!window) return;
    if (given == HugePages::kOnAdvice) {
      (void)::madvise(window->data(), piece, MADV_HUGEPAGE);
      populate_write(window->data(), piece);
    } else {
      // The kernel collapses only where a page exists: a read makes one.
      for (std::uint64_t at = 0; at < piece; at += kHugePage)
        (void)*static_cast<const volatile std::byte*>(window->data() + at);
      (void)::madvise(window->data(), piece, kCollapse);
    }
    offset += piece;
  }
}

std::uint64_t huge_bytes_mapped(const void* begin, std::size_t bytes) noexcept {
  if (const std::optional<std::uint64_t> scanned = scan_pagemap(begin, bytes)) return *scanned;
  return detail::huge_bytes_in("/proc/self/smaps", begin, bytes);
}

std::uint64_t detail::huge_bytes_in(const std::string& smaps, const void* begin, std::size_t bytes) noexcept {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(smaps.c_str(), "re"), std::fclose);
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  bool inside = false;
  std::uint64_t huge = 0;
  char line[512];
  while (file && std::fgets(line, sizeof line, file.get())) {
    unsigned long low = 0;
    unsigned long high = 0;
    unsigned long long kib = 0;
    if (std::sscanf(line, "%lx-%lx ", &low, &high) == 2) inside = low < first + bytes && first < high;
    if (inside && std::sscanf(line, "ShmemPmdMapped: %llu kB", &kib) == 1) huge += std::uint64_t{kib} << 10;
  }
  return huge;
}

}  // namespace forklift::inline abi_0_1::os
