// A table of another room's objects (channels, topics) in a region of the control segment: a header, then
// rows.
//
//   ObjectTable<ChannelTable, ChannelRow> rows(arena, ObjectKind::kChannel, domain::Region::kChannels);
//   rows.connect([this](std::uint32_t index) { return empty(index); });
//   ...
//   Result<std::uint32_t> index = rows.claim(change, "channels", prepare);      // in Arena::hold_new
//   Result<LeasePtr> hold = rows.take_up(id.index, id.generation, "channel");   // in another process
//
// Rights to an object are leases in the ledger, so forked children inherit them, spawned ones are offered
// them, and the row is free when the last one has gone.
//
// Header has the words rows_used and rows_free. Row has meta {generation:32, in use:1}, count (of lease rows)
// and next (in the free list: index + 1).
//
// Thread and process safety: all functions but connect may be called from any thread of any process.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "arena/arena.h"

namespace forklift::arena {

template <class Header, class Row>
class ObjectTable {
 public:
  ObjectTable(Arena& arena, ObjectKind kind, domain::Region region) : arena_(arena), kind_(kind) {
    const std::span<std::byte> bytes = arena.domain().region(region);
    header_ = reinterpret_cast<Header*>(bytes.data());
    rows_ = reinterpret_cast<Row*>(bytes.data() + sizeof(Header));
    capacity_ = (bytes.size() - sizeof(Header)) / sizeof(Row);
  }
  ObjectTable(const ObjectTable&) = delete;
  ObjectTable& operator=(const ObjectTable&) = delete;

  // Tells the ledger how it counts, empties and frees the objects; see ObjectHooks. Once, before anybody else
  // uses the arena; the table must live as long as the arena.
  void connect(std::function<bool(std::uint32_t)> empty,
               std::function<std::uint64_t(std::uint64_t)> trim = nullptr) {
    arena_.ledger().set_object_hooks(
        kind_, {[this](std::uint32_t index) -> Word& { return rows_[index].count; }, std::move(empty),
                [this](sync::Transaction& change, std::uint32_t index) { free(change, index); },
                std::move(trim), [](const Handle&) { return false; }});
  }
  // The same for objects that travel in messages. `free_more` adds words to the transaction that frees a row.
  void connect_travelling(std::function<bool(std::uint32_t)> empty,
                          std::function<bool(const Handle&)> matches,
                          std::function<void(sync::Transaction&, std::uint32_t)> free_more) {
    const auto free_row = [this, free_more = std::move(free_more)](sync::Transaction& change,
                                                                   std::uint32_t index) {
      free_more(change, index);
      free(change, index);
    };
    arena_.ledger().set_object_hooks(
        kind_, {[this](std::uint32_t index) -> Word& { return rows_[index].count; }, std::move(empty),
                free_row, nullptr, std::move(matches)});
  }

  Row& operator[](std::uint64_t index) const noexcept { return rows_[index]; }
  // Rows that were ever in use. Other processes write the word, so the table's end bounds it.
  std::uint64_t used() const noexcept {
    return std::min(header_->rows_used.load(std::memory_order_acquire), capacity_);
  }
  std::uint64_t capacity() const noexcept { return capacity_; }
  // Rows in use.
  std::uint64_t live() const noexcept {
    return static_cast<std::uint64_t>(std::count_if(rows_, rows_ + used(), [](const Row& row) {
      return row.count.load(std::memory_order_relaxed) != 0;
    }));
  }

  // Part of the ledger's transaction that makes an object: a free row, which stays free until the commit.
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
  // Also part of it: the row's next generation, which the new object gets.
  std::uint32_t begin_generation(sync::Transaction& change, std::uint32_t index) {
    Word& meta = rows_[index].meta;
    const auto generation = static_cast<std::uint32_t>(meta.load(std::memory_order_relaxed) >> 32) + 1;
    change.set(meta, in_use(generation));
    return generation;
  }

  bool exists(std::uint32_t index, std::uint32_t generation) const noexcept {
    return index < used() && rows_[index].meta.load(std::memory_order_acquire) == in_use(generation);
  }
  // A lease on an existing object: the one that a parent entered for this process, or, where this process has
  // the object already, another one. kInvalid: it does not exist (any more), in words `what`.
  Result<LeasePtr> take_up(std::uint32_t index, std::uint32_t generation, std::string_view what) {
    if (!exists(index, generation)) return gone(index, generation, what);
    const Object object{kind_, index};
    Result<LeasePtr> hold = arena_.claim_row_for_self(object);
    if (!hold && hold.code() == Code::kInvalid) hold = arena_.hold(object);
    if (!hold) return hold.status();
    // In between, the last holder may have left and another process may have made a new object in this row.
    if (!exists(index, generation)) return gone(index, generation, what);
    return hold;
  }
  // Enters a child as a holder, so that the object lives until the child has taken it up.
  Status offer(std::uint32_t index, domain::SlotRef child) {
    if (Status status = arena_.check_child(); !status) return status;
    return arena_.ledger().hold_for({kind_, index}, Holder::process(child));
  }

 private:
  static constexpr std::uint64_t kInUse = 1;
  static constexpr std::uint64_t in_use(std::uint32_t generation) noexcept {
    return (std::uint64_t{generation} << 32) | kInUse;
  }
  void free(sync::Transaction& change, std::uint32_t index) {
    Row& row = rows_[index];
    change.set(row.meta, row.meta.load(std::memory_order_relaxed) & ~kInUse);
    change.set(row.next, header_->rows_free.load(std::memory_order_relaxed));
    change.set(header_->rows_free, std::uint64_t{index} + 1);
  }
  static Status gone(std::uint32_t index, std::uint32_t generation, std::string_view what) {
    return {Code::kInvalid, std::string(what) + " " + std::to_string(index) + " of generation " +
                                std::to_string(generation) + " does not exist (any more)"};
  }

  Arena& arena_;
  ObjectKind kind_;
  Header* header_;
  Row* rows_;
  std::uint64_t capacity_;
};

}  // namespace forklift::arena
