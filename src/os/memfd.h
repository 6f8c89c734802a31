// Anonymous shared memory: there is no name that could leak, and the size of /dev/shm does not matter.
#pragma once

#include <cstdint>

#include "os/fd.h"

namespace forklift::inline abi_0_1::os {

// A sparse memory file of `bytes`, sealed against growing, shrinking and further seals, not executable where
// the kernel can say so (MFD_NOEXEC_SEAL, Linux 6.3), close-on-exec. `name` shows in /proc/PID/maps only.
Result<Fd> create_memfd(const char* name, std::uint64_t bytes);

// Gives the pages of [offset, offset + bytes) back to the system; they read as zero afterwards.
// Both must be multiples of the page size.
Status punch_hole(const Fd& file, std::uint64_t offset, std::uint64_t bytes);

// Makes the pages of the range exist. Cheaper than touching them one by one. It does not fail when memory is
// short (the kernel kills a process instead), hence the budget in the layers above.
Status allocate_range(const Fd& file, std::uint64_t offset, std::uint64_t bytes);

}  // namespace forklift::inline abi_0_1::os
