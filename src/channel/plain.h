// Taking plain messages that lie behind each other in a chunk (batch.cpp, claim_many.cpp).
//
//   Walk walk{head, head};
//   walk_plain(walk, *chunk, most, end, [&](const RecordHeader& header, const std::byte* in, std::size_t count) {
//     return take(header, in, count);
//   });
//
// Thread and process safety: none of its own; the head's lock is held.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "channel/channel.h"
#include "channel/record.h"

namespace forklift::inline abi_0_1::channel {

// Is the record that of the message at the head, right in all its parts, and plain? Any other one is left to get(). The
// header becomes the message's, and `more` says how many follow in the same record.
inline bool find_plain(RecordHeader& header, Position head, std::size_t& offset, std::size_t& more) noexcept {
  offset = 0;
  more = 0;
  if (header.spilled == kPacked) {
    const std::uint32_t behind = header.sequence + header.handles;
    if (!pick(header, head, offset)) return false;
    more = (behind - header.sequence - 1) & kSequenceMask;
    return true;
  }
  return header.sequence == head.sequence() && header.units != 0 &&
         header.units <= kChunkUnits - head.unit() && header.handles == 0 && header.spilled == 0 &&
         sizeof header + std::size_t{header.bytes} <= std::size_t{header.units} * kUnitBytes;
}

// Head lock held. Takes what lies at `walk.head` and behind it in one chunk, up to `limit` messages and to the unit
// `end`; fewer where one is not plain or not for `take`.
template <class Take>
void Channel::walk_plain(Walk& walk, const Chunk& chunk, std::size_t limit, std::uint64_t end, Take&& take) {
  while (walk.count < limit && walk.head.unit() < kChunkUnits && walk.head.unit() != end) {
    const std::byte* in = unit_address(chunk, walk.head.unit());
    RecordHeader header;
    std::memcpy(&header, in, sizeof header);
    const std::uint32_t units = header.units;
    std::size_t offset = 0;
    std::size_t more = 0;
    if (!find_plain(header, walk.head, offset, more)) break;
    const std::size_t now = std::min(more + 1, limit - walk.count);
    if (!take(header, in + sizeof header + offset, now)) break;
    walk.last = walk.head.past(0, now - 1);
    walk.head = walk.head.past(now == more + 1 ? units : 0, now);
    walk.last_weight = header.weight;
    walk.weight += header.weight * now;
    walk.count += now;
  }
}

}  // namespace forklift::inline abi_0_1::channel
