// A table of rows in a region of the control segment that come and go: a header, then rows.
//
//   RowTable<PoolTable, PoolRow> rows(domain, domain::Region::kMemoryPools);
//   Result<std::uint32_t> index = rows.claim(change, "memory pools", prepare);   // within a transaction
//   rows.begin_generation(change, *index);
//   ...
//   rows.free(change, *index);
//
// Header has the words rows_used and rows_free. Row has meta {generation:32, in use:1} and next (in the free
// list: index + 1).
//
// Thread and process safety: what takes a Transaction needs the ledger's lock; the rest may be called from any
// thread of any process. One transaction claims or frees one row of a table at most.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "domain/domain.h"
#include "sync/redo.h"

namespace forklift::inline abi_0_1::arena {

template <class Header, class Row>
class RowTable {
 public:
  RowTable(const domain::Domain& domain, domain::Region region) {
    const std::span<std::byte> bytes = domain.region(region);
    header_ = reinterpret_cast<Header*>(bytes.data());
    rows_ = reinterpret_cast<Row*>(bytes.data() + sizeof(Header));
    capacity_ = (bytes.size() - sizeof(Header)) / sizeof(Row);
  }
  RowTable(const RowTable&) = delete;
  RowTable& operator=(const RowTable&) = delete;

  Header& header() const noexcept { return *header_; }
  Row& operator[](std::uint64_t index) const noexcept { return rows_[index]; }
  // Rows that were ever in use. Other processes write the word, so the table's end bounds it.
  std::uint64_t used() const noexcept {
    return std::min(header_->rows_used.load(std::memory_order_acquire), capacity_);
  }
  std::uint64_t capacity() const noexcept { return capacity_; }
  // Rows in use.
  std::uint64_t live() const noexcept {
    return static_cast<std::uint64_t>(std::count_if(rows_, rows_ + used(), [](const Row& row) {
      return (row.meta.load(std::memory_order_relaxed) & kInUse) != 0;
    }));
  }

  // Part of the transaction that makes an object: a free row, which stays free until the commit.
  // `prepare(row)` is called when the row was never in use; what it sets up, such as locks, stays for all
  // later objects in this row. kNoSpace: all are in use, in words `of_what`.
  template <class Prepare>
  Result<std::uint32_t> claim(sync::Transaction& change, std::string_view of_what, Prepare&& prepare) {
    if (const std::uint64_t free = header_->rows_free.load(std::memory_order_relaxed)) {
      change.set(header_->rows_free, rows_[free - 1].next.load(std::memory_order_relaxed));
      return static_cast<std::uint32_t>(free - 1);
    }
    const std::uint64_t used = header_->rows_used.load(std::memory_order_relaxed);
    if (used >= capacity_)
      return Status(Code::kNoSpace,
                    "all " + std::to_string(capacity_) + " " + std::string(of_what) + " are in use");
    if (Status status = prepare(rows_[used]); !status) return status;
    change.set(header_->rows_used, used + 1);
    return static_cast<std::uint32_t>(used);
  }
  // Also part of it: the row's next generation, which the new object gets; and how an object that is about to be emptied
  // is taken from those that look for it.
  std::uint32_t begin_generation(sync::Transaction& change, std::uint32_t index) {
    sync::Word& meta = rows_[index].meta;
    const auto generation = static_cast<std::uint32_t>(meta.load(std::memory_order_relaxed) >> 32) + 1;
    change.set(meta, in_use(generation));
    return generation;
  }

  bool exists(std::uint32_t index, std::uint32_t generation) const noexcept {
    return index < used() && rows_[index].meta.load(std::memory_order_acquire) == in_use(generation);
  }
  // Part of the transaction that ends an object: its row goes into the free list.
  void free(sync::Transaction& change, std::uint32_t index) {
    Row& row = rows_[index];
    change.set(row.meta, row.meta.load(std::memory_order_relaxed) & ~kInUse);
    change.set(row.next, header_->rows_free.load(std::memory_order_relaxed));
    change.set(header_->rows_free, std::uint64_t{index} + 1);
  }

 private:
  static constexpr std::uint64_t kInUse = 1;
  static constexpr std::uint64_t in_use(std::uint32_t generation) noexcept {
    return (std::uint64_t{generation} << 32) | kInUse;
  }

  Header* header_;
  Row* rows_;
  std::uint64_t capacity_;
};

}  // namespace forklift::inline abi_0_1::arena
