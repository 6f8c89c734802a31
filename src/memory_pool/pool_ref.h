// What names a memory pool and a piece of it, and what is known of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace forklift::inline abi_0_1::memory_pool {

// A row of the table of pools, and the row's generation.
struct PoolRef {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  bool operator==(const PoolRef&) const = default;
  bool operator<(const PoolRef& other) const noexcept {
    return index != other.index ? index < other.index : generation < other.generation;
  }
};

// As the driver gives it. Forklift compares it, and no more.
using DeviceUuid = std::array<std::byte, 16>;

// By which other processes open memory that only its owner's process keeps, as the driver gives it.
using OriginHandle = std::array<std::byte, 64>;
inline constexpr OriginHandle kNoHandle{};

struct PieceInfo {
  PoolRef pool;
  std::uint64_t offset = 0;  // of the first byte, in the pool
  std::uint64_t bytes = 0;
  std::uint64_t pool_bytes = 0;
  DeviceUuid device{};
  OriginHandle handle{};  // kNoHandle: the pool is behind a descriptor
  bool by_handle() const noexcept { return handle != kNoHandle; }
};

}  // namespace forklift::inline abi_0_1::memory_pool
