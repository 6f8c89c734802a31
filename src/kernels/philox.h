// Philox4x32-10: random bits by number (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). Block number n of a key does not depend on the blocks before it, so any thread computes any of them.
//
//   PhiloxBlock bits = philox({0, 0, 0, 0}, {0, 0});        // {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}
//
// Thread safety: a pure function.
#pragma once

#include <array>
#include <cstdint>

namespace forklift::inline abi_0_1::kernels {

using PhiloxBlock = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(second),
        static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

}  // namespace forklift::inline abi_0_1::kernels
