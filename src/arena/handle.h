// The name of a block, a named segment or a piece of a memory pool, as it travels between processes.
//
// A copy that another process wrote is untrusted until Ledger::check has compared it with the rows.
#pragma once

#include <cstdint>

namespace forklift::inline abi_0_1::arena {

// What Handle::segment says.
inline constexpr std::uint32_t kDataSegment = 0;   // a block of the domain's data segment
inline constexpr std::uint32_t kNamedSegment = 1;  // a file with a name (segment/segments.h)
inline constexpr std::uint32_t kPoolPiece = 2;     // a piece of a memory pool (memory_pool/pools.h)

struct Handle {
  std::uint32_t segment = 0;     // kDataSegment, kNamedSegment or kPoolPiece
  std::uint32_t block = 0;       // row in the table of blocks, named segments or pieces
  std::uint32_t generation = 0;  // of that row when it was sent
  std::uint32_t lease = 0;       // row of the lease that travels with it
  std::uint64_t offset = 0;      // of the first byte, in the data segment or pool; 0 for a named segment
  std::uint64_t length = 0;      // bytes
};
static_assert(sizeof(Handle) == 32);

}  // namespace forklift::inline abi_0_1::arena
