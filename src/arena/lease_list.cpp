#include "arena/lease_list.h"

namespace forklift::inline abi_0_1::arena {

void LeaseList::add(Lease& lease) noexcept {
  lease.next_ = first_;
  if (first_) first_->previous_ = &lease;
  first_ = &lease;
}

void LeaseList::remove(Lease& lease) noexcept {
  if (first_ == &lease) first_ = lease.next_;
  if (lease.previous_) lease.previous_->next_ = lease.next_;
  if (lease.next_) lease.next_->previous_ = lease.previous_;
}

void LeaseList::share_row(Lease& with, Lease& fresh) noexcept {
  fresh.object_ = with.object_;
  fresh.kind_ = with.kind_;
  fresh.data_ = with.data_;
  fresh.size_ = with.size_;
  fresh.handle_ = with.handle_;
  fresh.mapping_ = with.mapping_;
  fresh.row_.store(with.row_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  Lease* const next = with.alone() ? &with : with.next_sharer_.load(std::memory_order_relaxed);
  fresh.next_sharer_.store(next, std::memory_order_relaxed);
  fresh.previous_sharer_ = &with;
  next->previous_sharer_ = &fresh;
  with.next_sharer_.store(&fresh, std::memory_order_release);
}

bool LeaseList::leave_ring(Lease& lease) noexcept {
  if (lease.alone()) return false;
  Lease* const next = lease.next_sharer_.load(std::memory_order_relaxed);
  Lease* const previous = lease.previous_sharer_;
  // Of a ring of two the other one is alone afterwards.
  previous->next_sharer_.store(next == previous ? nullptr : next, std::memory_order_release);
  next->previous_sharer_ = next == previous ? nullptr : previous;
  lease.next_sharer_.store(nullptr, std::memory_order_relaxed);
  lease.previous_sharer_ = nullptr;
  return true;
}

}  // namespace forklift::inline abi_0_1::arena
