// How much this process may take: address space, memory (of its control groups and of the machine).
#pragma once

#include <sys/resource.h>

#include <cstdint>

namespace forklift::os {

// Soft RLIMIT_AS in bytes; UINT64_MAX when unlimited.
std::uint64_t address_space_limit() noexcept;

// RLIMIT_FSIZE, as far up as this process may set it, for as long as the object lives: making a file in
// memory larger than the limit fails, and raises SIGXFSZ. The limit is the whole process's, so this is for
// moments.
class LiftedFileSizeLimit {
 public:
  LiftedFileSizeLimit() noexcept;
  ~LiftedFileSizeLimit();
  LiftedFileSizeLimit(const LiftedFileSizeLimit&) = delete;
  LiftedFileSizeLimit& operator=(const LiftedFileSizeLimit&) = delete;

  // In force now; UINT64_MAX when unlimited.
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  rlimit before_{};
  bool lifted_ = false;
  std::uint64_t bytes_;
};

// Bytes that could still be used without swapping or being killed: the least of the machine's MemAvailable
// and of (limit - usage) of every memory control group above this process (v2 and v1). Best effort.
std::uint64_t available_memory() noexcept;

// Bytes that are resident for this process alone, without files and memory that it shares; 0 if that cannot
// be learnt.
std::uint64_t own_memory() noexcept;

}  // namespace forklift::os
