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

// Elements are mostly of whole words: of what is less, functions of their own keep the loops short.
[[gnu::noinline]] inline void copy_part_out(std::byte* to, std::byte* shared, std::size_t bytes) noexcept {
  const std::uint64_t word = word_at(shared)->load(std::memory_order_relaxed);
  std::memcpy(to, &word, bytes);
}
[[gnu::noinline]] inline std::uint64_t part_of_word(const std::byte* own, std::size_t bytes) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, own, bytes);
  return word;
}

inline void copy_out(void* to, std::byte* shared, std::size_t bytes) noexcept {
  auto* const out = static_cast<std::byte*>(to);
  std::size_t at = 0;
  for (; bytes - at >= sizeof(Word); at += sizeof(Word)) {
    const std::uint64_t word = word_at(shared + at)->load(std::memory_order_relaxed);
    std::memcpy(out + at, &word, sizeof word);
  }
  if (at != bytes) copy_part_out(out + at, shared + at, bytes - at);
}

// Of a process's own memory, the word at `at`; where `bytes` end in it, its rest is zeros.
inline std::uint64_t own_word(const std::byte* own, std::size_t at, std::size_t bytes) noexcept {
  if (bytes - at < sizeof(Word)) [[unlikely]]
    return part_of_word(own + at, bytes - at);
  std::uint64_t word = 0;
  std::memcpy(&word, own + at, sizeof word);
  return word;
}

inline void copy_in(std::byte* shared, const void* from, std::size_t bytes) noexcept {
  const auto* const in = static_cast<const std::byte*>(from);
  for (std::size_t at = 0; at < bytes; at += sizeof(Word))
    word_at(shared + at)->store(own_word(in, at, bytes), std::memory_order_relaxed);
}

inline void copy_within(std::byte* to, std::byte* from, std::size_t bytes) noexcept {
  for (std::size_t at = 0; at < padded(bytes); at += sizeof(Word))
    word_at(to + at)->store(word_at(from + at)->load(std::memory_order_relaxed), std::memory_order_relaxed);
}

// What copy_in() wrote, padding included.
inline bool equals(std::byte* shared, const void* own, std::size_t bytes) noexcept {
  const auto* in = static_cast<const std::byte*>(own);
  for (std::size_t at = 0; at < bytes; at += sizeof(Word)) {
    if (word_at(shared + at)->load(std::memory_order_relaxed) != own_word(in, at, bytes)) return false;
  }
  return true;
}

}  // namespace forklift::inline abi_0_1::container
