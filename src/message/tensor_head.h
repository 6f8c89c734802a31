// What stands before a tensor's description (wire.h) in MessagePack.
#pragma once

#include <cstddef>

#include "message/codec.h"
#include "message/wire.h"

namespace forklift::inline abi_0_1::message {

// MessagePack's extension heads. A description of up to 14 dimensions fits into ext 8.
inline constexpr std::byte kExt8{0xc7};
inline constexpr std::byte kExt16{0xc8};

// A tensor's description with its head.
inline constexpr std::size_t kMostTensorBytes = wire::kMaxMetaBytes + 4;

// Writes the head of a description of that rank; how long the head is.
inline std::size_t write_tensor_head(std::size_t ndim, std::byte* out) noexcept {
  const std::size_t size = wire::meta_bytes(ndim);
  std::size_t at = 0;
  if (size <= 0xff) {
    out[at++] = kExt8;
  } else {
    out[at++] = kExt16;
    out[at++] = static_cast<std::byte>(size >> 8);
  }
  out[at++] = static_cast<std::byte>(size & 0xff);
  out[at++] = static_cast<std::byte>(kTensorExtension);
  return at;
}

}  // namespace forklift::inline abi_0_1::message
