// Lease objects: this process's rights, what fork does to them.
//
// Leases on one object that one process took from each other share a row of the ledger: they form a ring, and
// only the last one of it that goes gives the row up. So taking another right and dropping it is this
// process's own affair, and nothing that a death could leave half done. Before a lease is passed on it gets a
// row of its own (separate), and stays by itself from then on.
#include <unistd.h>

#include "arena/arena.h"
#include "arena/cache/thread_cache.h"
#include "os/mapping.h"

namespace forklift::arena {

// Of no arena yet: dropping it gives nothing up.
LeasePtr Arena::blank_lease() {
  // What allocate_shared may construct: count and lease in one allocation. Its constructor is written out,
  // since a defaulted one would have all of it zeroed before its members are.
  struct Made : Lease {
    Made() noexcept {}  // NOLINT(modernize-use-equals-default)
  };
  return std::allocate_shared<Made>(ThreadCache<Made>());
}

LeasePtr Arena::make_lease(Object object, std::uint32_t row) {
  LeasePtr lease = blank_lease();
  lease->arena_ = this;
  lease->object_ = object;
  lease->row_.store(row, std::memory_order_relaxed);
  return lease;
}

void Arena::enlist(Lease& lease) {
  const std::lock_guard<sync::SpinLock> lock(mutex_);
  link(lease);
}

void Arena::link(Lease& lease) noexcept {
  lease.next_ = first_;
  if (first_) first_->previous_ = &lease;
  first_ = &lease;
}

// Private lock held.
void Arena::share_right(Lease& with, Lease& fresh) noexcept {
  fresh.arena_ = this;
  fresh.object_ = with.object_;
  fresh.kind_ = with.kind_;
  fresh.data_ = with.data_;
  fresh.size_ = with.size_;
  fresh.handle_ = with.handle_;
  fresh.row_.store(with.row_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  Lease* const next = with.alone() ? &with : with.next_sharer_.load(std::memory_order_relaxed);
  fresh.next_sharer_.store(next, std::memory_order_relaxed);
  fresh.previous_sharer_ = &with;
  next->previous_sharer_ = &fresh;
  with.next_sharer_.store(&fresh, std::memory_order_release);
}

// Private lock held. Out of its ring; whether others stay in it, whose the row is then.
bool Arena::leave_sharers(Lease& lease) noexcept {
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

Result<LeasePtr> Arena::another(const LeasePtr& lease) {
  if (!domain_.attached()) return domain_.not_attached();
  LeasePtr copy = blank_lease();
  {
    const std::lock_guard<sync::SpinLock> lock(mutex_);
    if (lease->held() && !lease->promised_.load(std::memory_order_relaxed)) {
      share_right(*lease, *copy);
      link(*copy);
      return copy;
    }
  }
  if (!lease->held()) return Status(Code::kInvalid, "the lease was passed on already");
  Result<std::uint32_t> row = add_row(lease->object_, Holder::process(domain_.self()));
  if (!row) return row.status();
  copy->arena_ = this;
  copy->object_ = lease->object_;
  copy->kind_ = lease->kind_;
  copy->data_ = lease->data_;
  copy->size_ = lease->size_;
  copy->handle_ = lease->handle_;
  copy->handle_.lease = *row;
  copy->row_.store(*row, std::memory_order_relaxed);
  enlist(*copy);
  return copy;
}

Status Arena::separate(const LeasePtr& lease) {
  Lease& own = *lease;
  if (own.promised_.load(std::memory_order_acquire)) return {};
  if (lease.use_count() == 1) {
    // Nobody else has it, so nobody can be taking another one from it.
#if !defined(__SANITIZE_THREAD__)  // which knows of no fences
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
  Result<std::uint32_t> row = add_row(own.object_, Holder::process(domain_.self()));
  if (!row) return row.status();
  bool used = false;
  {
    const std::lock_guard<sync::SpinLock> lock(mutex_);
    // Unless the others have gone meanwhile, or a second thread was here for the same lease.
    used = leave_sharers(own);
    if (used) {
      own.row_.store(*row, std::memory_order_relaxed);
      own.handle_.lease = *row;
    }
    own.promised_.store(true, std::memory_order_release);
  }
  if (!used) release_row(*row, Holder::process(domain_.self()));
  return {};
}

std::uint64_t Arena::holders(const Lease& lease) noexcept {
  const std::lock_guard<sync::SpinLock> lock(mutex_);
  std::uint64_t count = count_of(lease.object_).load(std::memory_order_acquire);
  for (const Lease* other = lease.next_sharer_.load(std::memory_order_relaxed); other && other != &lease;
       other = other->next_sharer_.load(std::memory_order_relaxed))
    ++count;
  return count;
}

Lease::~Lease() {
  if (arena_) arena_->discard(*this);
}

void Arena::discard(Lease& lease) {
  // Private pages go before the right does: afterwards the block may already be somebody else's message.
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
    if (first_ == &lease) first_ = lease.next_;
    if (lease.previous_) lease.previous_->next_ = lease.next_;
    if (lease.next_) lease.next_->previous_ = lease.previous_;
    last = !leave_sharers(lease);
    kept = ours && last && keep(lease, surplus);
  }
  if (surplus.count != 0) pass_on(surplus);
  if (ours && last && !kept) release_row(lease.row_, Holder::process(domain_.self()));
}

void Arena::before_fork(const domain::SlotRef* child) {
  mutex_.lock();
  std::uint64_t low = ~std::uint64_t{0};
  std::uint64_t high = 0;
  bool stuck = false;
  for (Lease* lease = first_; lease; lease = lease->next_) lease->child_row_ = Lease::kNoRow;
  for (Lease* lease = first_; lease; lease = lease->next_) {
    if (lease->view_ && lease->view_ == views_.open_view()) {
      const std::uint64_t mask = os::page_size() - 1;
      low = std::min(low, lease->handle_.offset);
      high = std::max(high, (lease->handle_.offset + lease->size_ + mask) & ~mask);
    }
    // Those that share a row share the child's, too.
    if (!child || !lease->held() || lease->child_row_ != Lease::kNoRow || stuck) continue;
    Result<std::uint32_t> row = add_row(lease->object_, Holder::process(*child));
    if (row) {
      lease->child_row_ = *row;
      for (Lease* other = lease->next_sharer_.load(std::memory_order_relaxed); other && other != lease;
           other = other->next_sharer_.load(std::memory_order_relaxed))
        other->child_row_ = *row;
    }
    stuck = row.code() == Code::kStalled;  // waiting seconds for each of many leases would not help
  }
  if (low < high && !views_.isolate(low, high)) {
    // Without address space or commit charge for a private mapping (vm.overcommit_memory=2) the child would
    // see the parent's writes. Nothing here can stop the fork; say it where somebody may read it.
    static constexpr char kWarning[] =
        "forklift: fork without isolation: no private mapping for received arrays could be made; "
        "parent and child share their pages\n";
    (void)!::write(STDERR_FILENO, kWarning, sizeof kWarning - 1);
  }
}

// In a process made behind fork's back: the rows are its parent's.
void Arena::forget_leases() {
  const std::lock_guard<sync::SpinLock> lock(mutex_);
  for (Lease* lease = first_; lease; lease = lease->next_) lease->row_ = Lease::kNoRow;
  magazine_.forget();
}

void Arena::after_fork_in_child(bool attached) {
  for (Lease* lease = first_; lease; lease = lease->next_) {
    lease->row_.store(attached && lease->held() ? lease->child_row_ : Lease::kNoRow);
    lease->handle_.lease = lease->row_.load();
  }
  magazine_.forget();
  views_.forget_residency();
  resident_.forget();
  mutex_.unlock();
}

}  // namespace forklift::arena
