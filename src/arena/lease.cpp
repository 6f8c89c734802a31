// Lease objects: how the arena makes them, lets them share a row of the ledger, gives one a row of its own,
// and ends them.
#include "arena/lease.h"

#include <mutex>

#include "arena/arena.h"
#include "arena/cache/thread_cache.h"
#include "os/mapping.h"

namespace forklift::inline abi_0_1::arena {

LeasePtr Lease::make_blank() {
  // allocate_shared, which makes count and lease in one allocation, needs a public constructor. It is written
  // out, since with a defaulted one the whole object would be zeroed before its members are initialised.
  struct Made : Lease {
    Made() noexcept {}  // NOLINT(modernize-use-equals-default)
  };
  return std::allocate_shared<Made>(ThreadCache<Made>());
}

Lease::~Lease() {
  if (arena_) arena_->discard(*this);
}

LeasePtr Arena::make_lease(Object object, std::uint32_t row) {
  LeasePtr lease = Lease::make_blank();
  lease->arena_ = this;
  lease->object_ = object;
  lease->row_.store(row, std::memory_order_relaxed);
  return lease;
}

LeasePtr Arena::make_listed(Object object, std::uint32_t row) {
  LeasePtr lease = make_lease(object, row);
  const std::lock_guard<sync::SpinLock> lock(mutex_);
  leases_.add(*lease);
  return lease;
}

Result<LeasePtr> Arena::another(const LeasePtr& lease) {
  if (!domain_.attached()) return domain_.not_attached();
  LeasePtr copy = Lease::make_blank();
  {
    const std::lock_guard<sync::SpinLock> lock(mutex_);
    if (lease->held() && !lease->promised_.load(std::memory_order_relaxed)) {
      copy->arena_ = this;
      LeaseList::share_row(*lease, *copy);
      leases_.add(*copy);
      return copy;
    }
  }
  if (!lease->held()) return Status(Code::kInvalid, "the lease was passed on already");
  Result<std::uint32_t> row = ledger_.add_row(lease->object_, Holder::process(domain_.self()));
  if (!row) return row.status();
  copy->arena_ = this;
  copy->object_ = lease->object_;
  copy->kind_ = lease->kind_;
  copy->data_ = lease->data_;
  copy->size_ = lease->size_;
  copy->handle_ = lease->handle_;
  copy->mapping_ = lease->mapping_;
  copy->handle_.lease = *row;
  copy->row_.store(*row, std::memory_order_relaxed);
  const std::lock_guard<sync::SpinLock> lock(mutex_);
  leases_.add(*copy);
  return copy;
}

Status Arena::separate(const LeasePtr& lease) {
  Lease& own = *lease;
  if (own.promised_.load(std::memory_order_acquire)) return {};
  if (lease.use_count() == 1) {
    // No other thread has this pointer, so none can be taking another lease from it.
#if !defined(__SANITIZE_THREAD__)  // it does not model fences
    std::atomic_thread_fence(std::memory_order_acquire);
#endif
    if (own.alone()) {
      own.promised_.store(true, std::memory_order_relaxed);
      return {};
    }
  }
  if (own.alone()) {
    const std::lock_guard<sync::SpinLock> lock(mutex_);
    if (own.alone()) {
      own.promised_.store(true, std::memory_order_release);
      return {};
    }
  }
  Result<std::uint32_t> row = ledger_.add_row(own.object_, Holder::process(domain_.self()));
  if (!row) return row.status();
  bool used = false;
  {
    const std::lock_guard<sync::SpinLock> lock(mutex_);
    // It is in no ring any more if the others were dropped meanwhile, or if a second thread has separated the
    // same lease.
    used = LeaseList::leave_ring(own);
    if (used) {
      own.row_.store(*row, std::memory_order_relaxed);
      own.handle_.lease = *row;
    }
    own.promised_.store(true, std::memory_order_release);
  }
  if (!used) ledger_.release_row(*row, Holder::process(domain_.self()));
  return {};
}

std::uint64_t Arena::holders(const Lease& lease) noexcept {
  const std::lock_guard<sync::SpinLock> lock(mutex_);
  std::uint64_t count = ledger_.count_of(lease.object_).load(std::memory_order_acquire);
  LeaseList::for_each_sharer(lease, [&](const Lease&) { ++count; });
  return count;
}

bool Arena::sees_block(const Lease& lease) noexcept {
  return lease.view_ == nullptr || !lease.view_->is_private.load(std::memory_order_acquire);
}

// The block's last holder gives it up: it is free.
void Arena::trace_release(const Lease& lease, bool kept) const noexcept {
  if (lease.object_.kind != ObjectKind::kBlock) return;
  if (!kept && ledger_.count_of(lease.object_).load(std::memory_order_relaxed) > 1) return;
  domain_.tracer().moment(trace::Category::kMemory, trace::EventKind::kReleased, lease.object_.index,
                          lease.size_);
}

void Arena::discard(Lease& lease) {
  // Private pages are dropped before the right is given up: afterwards the block may already carry another
  // process's message.
  bool dropped = false;
  const auto drop_pages = [&] {
    if (!lease.view_ || dropped || !lease.view_->is_private) return;
    os::discard_private(lease.data_, lease.size_);
    dropped = true;
  };
  drop_pages();
  const bool ours = lease.held() && domain_.attached();
  bool last = false;  // of those that share its row
  bool kept = false;
  Batch surplus;
  {
    const std::lock_guard<sync::SpinLock> lock(mutex_);
    drop_pages();  // a fork in another thread may have made the view private since
    if (lease.view_) views_.leave(*lease.view_);
    leases_.remove(lease);
    last = !LeaseList::leave_ring(lease);
    kept = ours && last && lease.object_.kind == ObjectKind::kBlock &&
           cache_.keep(lease.object_.index, lease.row_, surplus);
  }
  if (surplus.count != 0) cache_.pass_on(surplus);
  if (ours && last && domain_.tracer().on(trace::Category::kMemory)) [[unlikely]]
    trace_release(lease, kept);
  if (ours && last && !kept) ledger_.release_row(lease.row_, Holder::process(domain_.self()));
}

}  // namespace forklift::inline abi_0_1::arena
