// The Lease objects of this process: all in one list, and those that share a row of the ledger in a ring.
//
// Leases on one object that a process takes from each other share a row; only the last one of a ring gives
// the row up. So taking another right and dropping it touches no shared memory, and a death cannot leave it
// half done. Before a lease is passed on it gets a row of its own (Arena::separate) and leaves its ring for
// good.
//
// Not thread-safe: guarded by the arena's process-private lock.
#pragma once

#include <cstdint>

#include "arena/lease.h"

namespace forklift::inline abi_0_1::arena {

class LeaseList {
 public:
  void add(Lease& lease) noexcept;
  void remove(Lease& lease) noexcept;
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (Lease* lease = first_; lease; lease = lease->next_) visit(*lease);
  }

  // `fresh`, of the same arena, becomes a second right to the object of `with`, by the same row, and joins
  // its ring.
  static void share_row(Lease& with, Lease& fresh) noexcept;
  // Out of its ring. False when it was alone: then the row is its own, else the others keep it.
  static bool leave_ring(Lease& lease) noexcept;
  // The others in its ring.
  template <class Visit>
  static void for_each_sharer(const Lease& lease, Visit&& visit) {
    for (Lease* other = lease.next_sharer_.load(std::memory_order_relaxed); other && other != &lease;
         other = other->next_sharer_.load(std::memory_order_relaxed))
      visit(*other);
  }

 private:
  Lease* first_ = nullptr;
};

}  // namespace forklift::inline abi_0_1::arena
