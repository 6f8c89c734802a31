// How a record lies in a chunk: what one message and several have in common (put.cpp, get.cpp, batch.cpp, audit.cpp).
//
//   write_header(unit_address(chunk, place.unit()), record);
//
//   std::memcpy(&header, in, sizeof header);
//   std::size_t offset = 0;
//   if (header.spilled == kPacked && !pick(header, head, offset)) return bad_record(...);
//   use(header, in + sizeof header + offset);
//
// Thread and process safety: none of its own. Whoever writes holds the tail's lock, whoever reads the head's.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "channel/tables.h"

namespace forklift::inline abi_0_1::channel {

constexpr std::uint32_t units_for(std::size_t bytes) {
  return static_cast<std::uint32_t>((bytes + kUnitBytes - 1) / kUnitBytes);
}

inline std::byte* unit_address(Chunk& chunk, std::uint32_t unit) noexcept {
  return chunk.units + (unit - 1) * std::size_t{kUnitBytes};
}
inline const std::byte* unit_address(const Chunk& chunk, std::uint32_t unit) noexcept {
  return chunk.units + (unit - 1) * std::size_t{kUnitBytes};
}

// Writes a RecordHeader in whole words, from a record with its fields. Filled in field by field on the stack, it would
// be copied by loads that are wider than the stores right before them, which stalls the processor.
void write_header(std::byte* out, const auto& record) noexcept {
  static_assert(std::endian::native == std::endian::little);
  static_assert(offsetof(RecordHeader, sequence) == 4 && offsetof(RecordHeader, bytes) == 8 &&
                offsetof(RecordHeader, handles) == 12 && offsetof(RecordHeader, codec) == 14 &&
                offsetof(RecordHeader, spilled) == 15 && offsetof(RecordHeader, weight) == 16 &&
                offsetof(RecordHeader, tag) == 24 && sizeof(RecordHeader) == 32);
  const auto write = [out](std::size_t at, std::uint64_t word) { std::memcpy(out + at, &word, sizeof word); };
  write(0, record.units | std::uint64_t{record.sequence} << 32);
  write(8, record.bytes | record.handles << 32 | std::uint64_t{record.message.codec} << 48 |
               record.spilled << 56);
  write(16, record.weight);
  write(24, record.message.tag);
}

// How far apart the messages of a packed record are: whole words, so that each can be copied by them.
constexpr std::size_t packed_stride(std::size_t bytes) noexcept {
  return bytes == 0 ? sizeof(std::uint64_t) : (bytes + 7) & ~std::size_t{7};
}

// Makes the header of a packed record that of the message at the head: it has the message's sequence, no handles, and
// no units unless the message is the record's last. `offset`: where the message lies behind the header. False: the
// record is wrong, and its header is as it was.
inline bool pick(RecordHeader& header, Position head, std::size_t& offset) noexcept {
  const std::uint32_t index = (head.sequence() - header.sequence) & kSequenceMask;
  const std::size_t stride = packed_stride(header.bytes);
  if (header.units == 0 || header.units > kChunkUnits - head.unit() || header.handles < 2 ||
      index >= header.handles ||
      sizeof header + header.handles * stride > std::size_t{header.units} * kUnitBytes)
    return false;
  offset = index * stride;
  if (index + 1 != header.handles) header.units = 0;
  header.sequence = head.sequence();
  header.handles = 0;
  header.spilled = 0;
  return true;
}

}  // namespace forklift::inline abi_0_1::channel
