// Copying what another process will read, or what no cache holds.
//
//   sync::copy_large(block->data(), bytes.data(), bytes.size());     // before the message is put: it is written then
//
//   sync::copy_bytes(out, record, bytes);                            // memory that is anywhere
//
// Source and destination do not overlap. Thread safety: as memcpy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace forklift::inline abi_0_1::sync {

// copy_bytes() where the destination lies 1 to 31 bytes further within its page than the source.
void copy_nearby(void* dst, const void* src, std::size_t bytes) noexcept;

// memcpy, but for a destination that lies 1 to 31 bytes further within its page than the source: `rep movsb`, which glibc
// takes from 2112 bytes on, does 1.7 GB/s there on AMD's processors in place of 30 to 40 (decisions/0343). What malloc()
// maps begins 16 bytes behind a page's beginning, and what it is copied from, a block of shared memory, there.
inline void copy_bytes(void* dst, const void* src, std::size_t bytes) noexcept {
  constexpr std::size_t kBriefly = 2048;
  constexpr std::uintptr_t kPage = 4096, kNear = 32;
  if (bytes > kBriefly) {
    const std::uintptr_t behind =
        (reinterpret_cast<std::uintptr_t>(dst) - reinterpret_cast<std::uintptr_t>(src)) % kPage;
    if (behind != 0 && behind < kNear) return copy_nearby(dst, src, bytes);
  }
  std::memcpy(dst, src, bytes);
}

// memcpy that does not bring the destination into the caches: its lines need not be read first, which saves a third of the
// traffic to memory. What it wrote is ordered before all later stores.
void copy_past_caches(void* dst, const void* src, std::size_t bytes) noexcept;

// From how many bytes on a message's copies (the sender's own, the one in shared memory, the receiver's) would drive one
// another out of the processor's last cache (decisions/0313).
std::size_t past_caches_from() noexcept;

// memcpy for what is not near: long copies fetch their pages ahead (decisions/0336), which Intel's processors do not need
// (decisions/0350), and go past the caches from past_caches_from() on.
void copy_large(void* dst, const void* src, std::size_t bytes) noexcept;

// Is memory of so many bytes, which the cache of the processor that reads it has, better written past the caches? Where it
// costs more to take the lines from there than to have them read from memory (decisions/0331).
bool taken_lines_cost(std::size_t bytes) noexcept;

}  // namespace forklift::inline abi_0_1::sync
