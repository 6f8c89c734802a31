// Transparent huge pages of shared memory: what the kernel gives, making them exist, and how many are mapped.
//
//   const os::HugePages given = os::huge_pages_of_shared_memory();
//   if (given == os::HugePages::kOnAdvice) os::make_huge_pages(file, offset, bytes, given);
//
// Pages are made through a window: a mapping of its own, which ends right after. An advice (MADV_HUGEPAGE) is a property
// of a mapping, so one for a part of a large mapping would split it, and a process may have some 65,000 mappings
// (max_map_count). A huge page that exists needs no advice: it is mapped as a whole by whoever touches it.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "os/fd.h"

namespace forklift::inline abi_0_1::os {

inline constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;

enum class HugePages : std::uint8_t {
  kNone,       // none of kHugePage bytes, or the administrator denies them
  kOnRequest,  // shmem_enabled is `never`: by MADV_COLLAPSE only, which heeds no setting but `deny`
  kOnAdvice    // advise, within_size, always
};

// What the kernel gives, as files in this folder say.
HugePages huge_pages_of_shared_memory(
    const std::string& folder = "/sys/kernel/mm/transparent_hugepage") noexcept;

// Makes the pages of [offset, offset + bytes) of a memory file exist, as huge pages where the kernel has them at hand,
// else as small ones or not at all. Both numbers are multiples of kHugePage. The contents of pages that exist stay.
void make_huge_pages(const Fd& file, std::uint64_t offset, std::uint64_t bytes, HugePages given) noexcept;

// How many bytes of the range of addresses this process has mapped by huge pages. One walk of the range's page tables
// (PAGEMAP_SCAN, Linux 6.7: 40 us for a terabyte with little in it); before 6.7 /proc/self/smaps is read, some
// milliseconds in a process with many mappings, and mappings that overlap the range count as a whole.
std::uint64_t huge_bytes_mapped(const void* begin, std::size_t bytes) noexcept;

namespace detail {
// The second way of huge_bytes_mapped(), on a file in the form of /proc/self/smaps.
std::uint64_t huge_bytes_in(const std::string& smaps, const void* begin, std::size_t bytes) noexcept;
}  // namespace detail

}  // namespace forklift::inline abi_0_1::os
