// What a request means for this rank: the call to post, whether it is refused, how much is exchanged.
//
// Thread safety: pure functions.
#pragma once

#include <cstddef>

#include "collective/communicator.h"

namespace forklift::inline abi_0_1::collective {

struct Communicator::Plan {
  Call call;
  Status refused;          // why this rank cannot take part
  std::size_t count = 0;   // Exchange::count
  std::size_t posted = 0;  // bytes of the largest post of any rank
  bool posts = false;      // does this rank contribute memory?
  bool receives = false;   // does it get a result?
  bool small = false;
  Posted memory;             // what is posted
  bool in_place = false;     // the result is computed in the posted memory
  std::byte* out = nullptr;  // where the result is computed
  Tensor gathered;           // what is copied to Request::out at the end, if that has gaps
};

}  // namespace forklift::inline abi_0_1::collective
