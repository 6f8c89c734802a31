// Which events of a recording belong together: a get and its put, a lock's release and its acquisition.
//
// Thread safety: none needed; parts of timeline_of().
#pragma once

#include "inspect/timeline.h"

namespace forklift::inline abi_0_1::inspect {

// Fills Timeline::links, and Slice::link of puts and gets. A get takes the last put of its {row, sequence} that began before
// the get ended: sequences wrap and rows are used again. Without such a put it has no link.
void link_messages(Timeline& timeline);

// Fills Timeline::holds. A lock may be released by another thread than the one that acquired it.
void find_holds(Timeline& timeline);

}  // namespace forklift::inline abi_0_1::inspect
