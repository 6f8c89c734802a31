// The name of a block as it travels between processes.
//
// A copy that another process wrote is untrusted until Ledger::check has compared it with the rows.
#pragma once

#include <cstdint>

namespace forklift::arena {

struct Handle {
  std::uint32_t segment = 0;     // only 0 exists so far
  std::uint32_t block = 0;       // row in the block table
  std::uint32_t generation = 0;  // of the block when it was sent
  std::uint32_t lease = 0;       // row of the lease that travels with it
  std::uint64_t offset = 0;      // of the first byte, in the segment
  std::uint64_t length = 0;      // bytes
};
static_assert(sizeof(Handle) == 32);

}  // namespace forklift::arena
