// What of a breakdown matters, in sentences with the numbers that were measured and what to do. A part of breakdown_of().
//
// Each rule has a threshold, below which it says nothing, and the share of time that it is about, by which the rules' sentences
// are put in order.
#pragma once

#include "inspect/breakdown.h"

namespace forklift::inline abi_0_1::inspect {

std::vector<std::string> sentences_of(const Timeline& timeline, const Breakdown& breakdown);

}  // namespace forklift::inline abi_0_1::inspect
