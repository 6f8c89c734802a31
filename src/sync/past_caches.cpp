#include "sync/past_caches.h"

#include <cstdint>
#include <cstring>

#include "os/limits.h"
#include "sync/copy_loops.h"

namespace forklift::inline abi_0_1::sync {

namespace {

// Shorter messages stay in the caches between the two; longer ones have left the reader's own cache when they come again.
constexpr std::size_t kFromReader = std::size_t{32} << 10;
constexpr std::size_t kToReader = std::size_t{512} << 10;

// Both sides of a shorter copy fit into a core's own cache (1 MiB), where memcpy is faster than a loop.
constexpr std::size_t kByPageFrom = std::size_t{768} << 10;

// What copies are chosen by; other processors have what AMD's have, but for taken_lines_cost().
bool is_amd() noexcept {
#if defined(__x86_64__)
  static const bool is = __builtin_cpu_is("amd") != 0;
  return is;
#else
  return false;
#endif
}
bool is_intel() noexcept {
#if defined(__x86_64__)
  static const bool is = __builtin_cpu_is("intel") != 0;
  return is;
#else
  return false;
#endif
}

}  // namespace

// On Intel's processors memcpy is at least as fast as the loops, but for what streams (decisions/0350).

void copy_nearby(void* dst, const void* src, std::size_t bytes) noexcept {
  if (is_intel()) {
    std::memcpy(dst, src, bytes);
  } else {
    copy_by_lines(dst, src, bytes);
  }
}

std::size_t past_caches_from() noexcept { return os::last_level_cache() / 4; }

void copy_past_caches(void* dst, const void* src, std::size_t bytes) noexcept {
  // From 3/4 of a processor's share of the last cache on, glibc goes past the caches itself, by several pages at a time. Two
  // or more processors share it.
  if (is_intel() && bytes >= 2 * past_caches_from()) {
    std::memcpy(dst, src, bytes);
  } else {
    copy_by_streaming(dst, src, bytes);
  }
}

void copy_large(void* dst, const void* src, std::size_t bytes) noexcept {
  // Below a mebibyte the question is not worth its answer: no processor's last cache is that small.
  constexpr std::size_t kNeverBelow = std::size_t{1} << 20;
  if (bytes >= kNeverBelow && bytes >= past_caches_from()) {
    copy_past_caches(dst, src, bytes);
  } else if (is_intel()) {
    std::memcpy(dst, src, bytes);
  } else if (bytes < kByPageFrom) {
    copy_bytes(dst, src, bytes);
  } else {
    copy_pages_ahead(dst, src, bytes);
  }
}

// AMD's processors store some 9 GB/s into lines that another core's cache has, and past the caches three times as many.
// Intel's take the lines faster than they write memory.
bool taken_lines_cost(std::size_t bytes) noexcept {
  return bytes >= kFromReader && bytes <= kToReader && is_amd();
}

}  // namespace forklift::inline abi_0_1::sync
