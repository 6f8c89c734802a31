// A thread that looks for deaths in the place of threads that sleep in an event loop of the program's own, or that have memory
// of a GPU open and do not use Forklift: twice a second, for each domain that it was told to keep.
//
//   if (Status status = Lookout::keep(watches); !status) return status;
//
// It sleeps between two looks. It ends before a fork and starts again in the parent; a child has none until it calls
// keep(). It holds nothing of the program's (no GIL), and no lock while it sleeps.
//
// Thread safety: yes.
#pragma once

#include "forklift/status.h"

namespace forklift::inline abi_0_1::watch {

class Watches;

class Lookout {
 public:
  // Until leave(). kSystem: there is no thread.
  static Status keep(Watches& watches);
  // From here on the table is not touched any more. For its destructor.
  static void leave(Watches& watches) noexcept;
};

}  // namespace forklift::inline abi_0_1::watch
