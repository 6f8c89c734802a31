// The hash of a key's bytes, the same in every process.
#pragma once

#include <cstddef>
#include <cstdint>

#include "container/words.h"

namespace forklift::inline abi_0_1::container {

// Words, each mixed in by a multiplication of 128 bits (as wyhash does). The last multiplication spreads keys of which only a
// few bits differ, as those of 0, 16, 32 ..., over the low bits, by which a bucket is chosen.
inline std::uint64_t hash_of(const void* key, std::size_t bytes) noexcept {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15, kOther = 0xe7037ed1a0b428db;
  const auto* const in = static_cast<const std::byte*>(key);
  std::uint64_t hash = bytes * kOdd;
  for (std::size_t at = 0; at < bytes; at += sizeof(Word)) {
    const std::uint64_t word = own_word(in, at, bytes);
    const unsigned __int128 product = static_cast<unsigned __int128>(word ^ hash ^ kOther) * (hash | kOdd);
    hash = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }
  hash = (hash ^ (hash >> 32)) * kOdd;
  return hash ^ (hash >> 32);
}

}  // namespace forklift::inline abi_0_1::container
