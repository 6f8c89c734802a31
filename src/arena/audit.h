// The audit: invariants A1..A6 of arena/tables.h, checked over every row.
#pragma once

#include <string>
#include <vector>

#include "arena/cache/depots.h"
#include "arena/ledger.h"

namespace forklift::inline abi_0_1::arena {

// Every violated invariant in words; empty when all is well. Takes the ledger's lock.
std::vector<std::string> audit(const Ledger& ledger, Depots& depots);

}  // namespace forklift::inline abi_0_1::arena
