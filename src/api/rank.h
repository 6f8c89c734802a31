// This process's part in the group that spawn() made: how the parent hands it over, and where the child keeps it.
//
//   std::function<Result<std::string>(domain::SlotRef)> offer = offer_rank(handle, rank);   // parent: process::Order
//   become_rank(handle, rank);                                                               // forked child
//
// Thread safety: yes.
#pragma once

#include <functional>
#include <string>

#include "domain/domain.h"
#include "forklift/collectives.h"

namespace forklift::inline abi_0_1::detail {

// A fresh process finds the group by the text.
std::function<Result<std::string>(domain::SlotRef child)> offer_rank(const GroupHandle& handle, int rank);
// Joins; Group::world() of this process from then on.
void become_rank(const GroupHandle& handle, int rank);

}  // namespace forklift::inline abi_0_1::detail
