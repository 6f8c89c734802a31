#include "sync/past_caches.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "os/limits.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace forklift::inline abi_0_1::sync {

namespace {

// Shorter messages stay in the caches between the two; longer ones have left the reader's own cache when they come again.
constexpr std::size_t kFromReader = std::size_t{32} << 10;
constexpr std::size_t kToReader = std::size_t{512} << 10;

// AMD's processors store some 9 GB/s into lines that another core's cache has, and past the caches three times as many.
// Intel's take the lines faster than they write memory.
bool takes_lines_slowly() noexcept {
#if defined(__x86_64__)
  static const bool is_amd = __builtin_cpu_is("amd") != 0;
  return is_amd;
#else
  return false;
#endif
}

}  // namespace

void copy_past_caches(void* dst, const void* src, std::size_t bytes) noexcept {
#ifdef __SSE2__
  constexpr std::size_t kLine = 64;
  auto* to = static_cast<std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(src);
  const std::size_t head = std::min(bytes, (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine);
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; bytes - at >= kLine; at += kLine) {
    const auto* in = reinterpret_cast<const __m128i*>(from + at);
    auto* out = reinterpret_cast<__m128i*>(to + at);
    const __m128i line[] = {_mm_loadu_si128(in), _mm_loadu_si128(in + 1), _mm_loadu_si128(in + 2),
                            _mm_loadu_si128(in + 3)};
    for (int i = 0; i < 4; ++i) _mm_stream_si128(out + i, line[i]);
  }
  std::memcpy(to + at, from + at, bytes - at);
  _mm_sfence();  // streaming stores are not ordered otherwise, and what follows tells another process of them
#else
  std::memcpy(dst, src, bytes);
#endif
}

std::size_t past_caches_from() noexcept { return os::last_level_cache() / 4; }

void copy_large(void* dst, const void* src, std::size_t bytes) noexcept {
  // Below a mebibyte the question is not worth its answer: no processor's last cache is that small.
  constexpr std::size_t kNeverBelow = std::size_t{1} << 20;
  if (bytes < kNeverBelow || bytes < past_caches_from()) {
    std::memcpy(dst, src, bytes);
  } else {
    copy_past_caches(dst, src, bytes);
  }
}

bool taken_lines_cost(std::size_t bytes) noexcept {
  return bytes >= kFromReader && bytes <= kToReader && takes_lines_slowly();
}

}  // namespace forklift::inline abi_0_1::sync
