#include "sync/copy_loops.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace forklift::inline abi_0_1::sync {

namespace {

constexpr std::size_t kPage = 4096;
// Long copies fetch a line of each page before they come to it, by as many bytes as they copy in the time that this takes: the
// page's address is translated by then, for which a virtual machine walks through two tables, and the processor's own
// fetching ahead, which ends with each page, has begun (decisions/0336).
constexpr std::size_t kAhead = std::size_t{64} << 10;
// Shorter copies past the caches are over before it helps.
constexpr std::size_t kAheadFrom = std::size_t{256} << 10;

// Begins to fetch the pages of `piece` bytes from `at` on, of a copy of so many bytes.
void fetch_pages(const std::byte* to, const std::byte* from, std::size_t at, std::size_t piece,
                 std::size_t bytes) noexcept {
  for (const std::size_t end = std::min(bytes, at + piece); at < end; at += kPage) {
    __builtin_prefetch(from + at);
    __builtin_prefetch(to + at);
  }
}

constexpr std::size_t kLine = 64;

// How many bytes lie before the first line that begins at or behind `to`.
std::size_t before_line(const std::byte* to) noexcept {
  return (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
}

#ifdef __SSE2__

struct Line {
  __m128i parts[kLine / sizeof(__m128i)];
};

Line line_at(const std::byte* from) noexcept {
  const auto* in = reinterpret_cast<const __m128i*>(from);
  return {{_mm_loadu_si128(in), _mm_loadu_si128(in + 1), _mm_loadu_si128(in + 2), _mm_loadu_si128(in + 3)}};
}

// Copies whole lines past the caches; `to` is aligned to a line.
void stream_lines(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  for (std::size_t at = 0; at < bytes; at += kLine) {
    const Line line = line_at(from + at);
    auto* out = reinterpret_cast<__m128i*>(to + at);
    for (const __m128i& part : line.parts) _mm_stream_si128(out++, part);
  }
}

__attribute__((target("avx"))) void copy_lines_avx(std::byte* to, const std::byte* from,
                                                   std::size_t bytes) noexcept {
  for (std::size_t at = 0; at < bytes; at += kLine) {
    const auto* in = reinterpret_cast<const __m256i*>(from + at);
    auto* out = reinterpret_cast<__m256i*>(to + at);
    const __m256i first = _mm256_loadu_si256(in);
    const __m256i second = _mm256_loadu_si256(in + 1);
    _mm256_store_si256(out, first);
    _mm256_store_si256(out + 1, second);
  }
}

#endif

// Copies whole lines; `to` is aligned to a line, since stores across lines cost more than loads do (decisions/0346). For
// a page memcpy is `rep movsb`, with which a flow between two processes took twice as long at times; processors that
// have no AVX have no such memcpy either.
void copy_lines(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
#ifdef __SSE2__
  static const bool has_avx = __builtin_cpu_supports("avx") != 0;
  if (has_avx) return copy_lines_avx(to, from, bytes);
#endif
  std::memcpy(to, from, bytes);
}

}  // namespace

void copy_by_lines(void* dst, const void* src, std::size_t bytes) noexcept {
  auto* to = static_cast<std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(src);
  const std::size_t head = std::min(bytes, before_line(to));
  const std::size_t end = bytes - (bytes - head) % kLine;
  std::memcpy(to, from, head);
  copy_lines(to + head, from + head, end - head);
  std::memcpy(to + end, from + end, bytes - end);
}

void copy_pages_ahead(void* dst, const void* src, std::size_t bytes) noexcept {
  auto* to = static_cast<std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(src);
  fetch_pages(to, from, 0, kAhead, bytes);
  std::size_t at = std::min(bytes, before_line(to));
  std::memcpy(to, from, at);
  for (; bytes - at >= kPage; at += kPage) {
    fetch_pages(to, from, at + kAhead, kPage, bytes);
    copy_lines(to + at, from + at, kPage);
  }
  copy_by_lines(to + at, from + at, bytes - at);
}

void copy_by_streaming(void* dst, const void* src, std::size_t bytes) noexcept {
#ifdef __SSE2__
  auto* to = static_cast<std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(src);
  const std::size_t head = std::min(bytes, before_line(to));
  const std::size_t end = bytes - (bytes - head) % kLine;
  std::memcpy(to, from, head);
  const bool ahead = bytes >= kAheadFrom;
  if (ahead) fetch_pages(to, from, head, kAhead, end);
  for (std::size_t at = head; at < end; at += kPage) {
    if (ahead) fetch_pages(to, from, at + kAhead, kPage, end);
    stream_lines(to + at, from + at, std::min(kPage, end - at));
  }
  std::memcpy(to + end, from + end, bytes - end);
  _mm_sfence();  // streaming stores are not ordered otherwise, and what follows tells another process of them
#else
  std::memcpy(dst, src, bytes);
#endif
}

}  // namespace forklift::inline abi_0_1::sync
