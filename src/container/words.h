// Copies between a process's own memory and shared memory that another process may change meanwhile: word by word,
// each an atomic access, so that what is read is old or new in each word and no access is undefined. Whether it is
// consistent as a whole, the reader checks afterwards (container/block.h).
//
// Shared memory is aligned to words and padded to whole ones; a process's own may be anywhere.
#pragma once

#include <cstddef>
#include <cstring>

#include "sync/word.h"

namespace forklift::inline abi_0_1::container {

using sync::Word;

constexpr std::uint64_t padded(std::uint64_t bytes) noexcept { return (bytes + 7) / 8 * 8; }

inline Word* word_at(std::byte* shared) noexcept { return reinterpret_cast<Word*>(shared); }

inline void copy_out(void* to, std::byte* shared, std::size_t bytes) noexcept {
  auto* out = static_cast<std::byte*>(to);
  for (std::size_t at = 0; at < bytes; at += sizeof(Word)) {
    const std::uint64_t word = word_at(shared + at)->load(std::memory_order_relaxed);
    std::memcpy(out + at, &word, bytes - at < sizeof word ? bytes - at : sizeof word);
  }
}

inline void copy_in(std::byte* shared, const void* from, std::size_t bytes) noexcept {
  const auto* in = static_cast<const std::byte*>(from);
  for (std::size_t at = 0; at < bytes; at += sizeof(Word)) {
    std::uint64_t word = 0;
    std::memcpy(&word, in + at, bytes - at < sizeof word ? bytes - at : sizeof word);
    word_at(shared + at)->store(word, std::memory_order_relaxed);
  }
}

inline void copy_within(std::byte* to, std::byte* from, std::size_t bytes) noexcept {
  for (std::size_t at = 0; at < padded(bytes); at += sizeof(Word))
    word_at(to + at)->store(word_at(from + at)->load(std::memory_order_relaxed), std::memory_order_relaxed);
}

inline bool equals(std::byte* shared, const void* own, std::size_t bytes) noexcept {
  const auto* in = static_cast<const std::byte*>(own);
  for (std::size_t at = 0; at < bytes; at += sizeof(Word)) {
    const std::uint64_t word = word_at(shared + at)->load(std::memory_order_relaxed);
    if (std::memcmp(&word, in + at, bytes - at < sizeof word ? bytes - at : sizeof word) != 0) return false;
  }
  return true;
}

}  // namespace forklift::inline abi_0_1::container
