// The arena's tables (arena/tables.h) as this process sees them: where the rows are, their lock, and the free
// list of lease rows.
//
//   sync::LockGuard guard = rows.lock();
//   if (!guard.ok()) return guard.status();          // kStalled
//   sync::Transaction change = rows.begin();
//   const std::uint32_t row = rows.take_lease(change);
//   if (row >= rows.lease_capacity()) return full;   // nothing has changed
//   rows.enter(change, row, object, holder);
//   change.commit();
//
// A value like std::span: it refers to the rows, and each class that works on them has a copy.
//
// Thread and process safety: whatever takes a Transaction needs the lock.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "arena/tables.h"
#include "domain/domain.h"

namespace forklift::inline abi_0_1::arena {

class Rows {
 public:
  explicit Rows(domain::Domain& domain)
      : domain_(domain),
        state_(reinterpret_cast<ArenaState*>(domain.region(domain::Region::kArena).data())),
        blocks_(reinterpret_cast<BlockRow*>(domain.region(domain::Region::kBlocks).data())),
        leases_(reinterpret_cast<LeaseRow*>(domain.region(domain::Region::kLeases).data())),
        block_capacity_(domain.region(domain::Region::kBlocks).size() / sizeof(BlockRow)),
        lease_capacity_(domain.region(domain::Region::kLeases).size() / sizeof(LeaseRow)),
        half_(domain.data_bytes() / 2) {}

  domain::Domain& domain() const noexcept { return domain_; }
  ArenaState& state() const noexcept { return *state_; }
  BlockRow& block(std::uint32_t index) const noexcept { return blocks_[index]; }
  LeaseRow& lease(std::uint32_t index) const noexcept { return leases_[index]; }
  std::uint64_t block_capacity() const noexcept { return block_capacity_; }
  std::uint64_t lease_capacity() const noexcept { return lease_capacity_; }
  // Rows that were ever in use. Other processes write these words, so the table's end bounds them.
  std::uint64_t blocks_used() const noexcept {
    return std::min(state_->blocks_used.load(std::memory_order_acquire), block_capacity_);
  }
  std::uint64_t leases_used() const noexcept {
    return std::min(state_->leases_used.load(std::memory_order_acquire), lease_capacity_);
  }
  // Each kind of block has one half of the data segment, which is also the largest block.
  std::uint64_t half() const noexcept { return half_; }
  unsigned largest_class() const noexcept { return static_cast<unsigned>(std::countr_zero(half_)); }
  Holder self() const noexcept { return Holder::process(domain_.self()); }

  // The lock of all words that change through the redo record. Completes what a dead owner had committed.
  sync::LockGuard lock() const {
    return sync::LockGuard(state_->mutex, [this] {
      for (sync::RedoRecord& record : state_->redo) sync::Transaction::replay(record, domain_.base());
    });
  }
  sync::Transaction begin() const noexcept {
    return {state_->redo[domain_.self().index % kRedoRecords], domain_.base()};
  }

  // A free lease row; lease_capacity() or more when there is none.
  std::uint32_t take_lease(sync::Transaction& change) const noexcept {
    if (const std::uint64_t free = state_->lease_rows_free.load(std::memory_order_relaxed)) {
      const auto row = static_cast<std::uint32_t>(free - 1);
      change.set(state_->lease_rows_free, lease(row).next.load(std::memory_order_relaxed));
      return row;
    }
    const std::uint64_t used = state_->leases_used.load(std::memory_order_relaxed);
    if (used < lease_capacity_) change.set(state_->leases_used, used + 1);
    return static_cast<std::uint32_t>(used);
  }
  void enter(sync::Transaction& change, std::uint32_t row, Object object, Holder holder) const noexcept {
    change.set(lease(row).object, object.pack());
    change.set(lease(row).holder, holder.word);
  }
  void put_lease(sync::Transaction& change, std::uint32_t row) const noexcept {
    change.set(lease(row).object, 0);
    change.set(lease(row).holder, 0);
    if (lease(row).offered.load(std::memory_order_relaxed) != 0) change.set(lease(row).offered, 0);
    change.set(lease(row).next, state_->lease_rows_free.load(std::memory_order_relaxed));
    change.set(state_->lease_rows_free, std::uint64_t{row} + 1);
  }

 private:
  domain::Domain& domain_;
  ArenaState* state_;
  BlockRow* blocks_;
  LeaseRow* leases_;
  std::uint64_t block_capacity_;
  std::uint64_t lease_capacity_;
  std::uint64_t half_;
};

}  // namespace forklift::inline abi_0_1::arena
