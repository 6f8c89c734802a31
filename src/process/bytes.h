// Builds messages between processes that do not go through a channel.
#pragma once

#include <cstddef>
#include <vector>

namespace forklift::inline abi_0_1::process {

inline void append(std::vector<std::byte>& out, const void* data, std::size_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  out.insert(out.end(), bytes, bytes + size);
}

}  // namespace forklift::inline abi_0_1::process
