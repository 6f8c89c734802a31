// The limits of this process: address space, file size, and memory (of its control groups and of the
// machine).
#pragma once

#include <sys/resource.h>

#include <cstddef>
#include <cstdint>

#include "forklift/status.h"

namespace forklift::inline abi_0_1::os {

// How many processors' time this process may use: those that it may run on, and not more than the quota of its control
// groups (rounded up). At least 1.
int usable_cpus() noexcept;

// Bytes of the largest cache that a processor has for itself or shares with its neighbours; 32 MiB if unknown.
std::size_t last_level_cache() noexcept;

// The number of bytes that a variable of the environment says, such as 4096, 64M or 8G. UINT64_MAX: it is not set.
// kInvalid: it says something else, or 0.
Result<std::uint64_t> bytes_in_environment(const char* name);
// Is the variable there, and neither empty nor "0"?
bool set_in_environment(const char* name) noexcept;

// Soft RLIMIT_AS in bytes; UINT64_MAX when unlimited.
std::uint64_t address_space_limit() noexcept;

// Raises RLIMIT_FSIZE as far as this process may, for as long as the object lives: making a memory file that
// is larger than the limit fails and raises SIGXFSZ. The limit applies to the whole process, so the object
// should live only for a moment.
class LiftedFileSizeLimit {
 public:
  LiftedFileSizeLimit() noexcept;
  ~LiftedFileSizeLimit();
  LiftedFileSizeLimit(const LiftedFileSizeLimit&) = delete;
  LiftedFileSizeLimit& operator=(const LiftedFileSizeLimit&) = delete;

  // The limit in force now; UINT64_MAX when unlimited.
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  rlimit before_{};
  bool lifted_ = false;
  std::uint64_t bytes_;
};

// Bytes that this process could still use without swapping or being killed: the minimum of the machine's
// MemAvailable and of (limit - usage) of every memory control group above this process (v2 and v1). Best
// effort.
std::uint64_t available_memory() noexcept;

// Resident bytes of this process alone, without files and shared memory; 0 if the number is unknown.
std::uint64_t own_memory() noexcept;

}  // namespace forklift::inline abi_0_1::os
