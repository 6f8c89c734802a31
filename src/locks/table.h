// The table of users' locks as one process sees it, and the base of all kinds of locks.
//
// A lock lives as long as there is a right to it, as a channel does. Rights are leases in the arena's ledger:
// forked children inherit them, spawned children are offered them, and the row is free when the last right is
// gone.
//
// Thread and process safety: all functions may be called from any thread of any process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "arena/arena.h"
#include "domain/waiting.h"
#include "locks/tables.h"
#include "os/thread.h"

namespace forklift::inline abi_0_1::locks {

using domain::WaitHooks;

// Identifies a lock within its domain.
struct LockId {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  bool operator==(const LockId&) const = default;
  std::uint64_t word() const noexcept { return (std::uint64_t{generation} << 32) | index; }
};

struct Right {
  LockId id;
  arena::LeasePtr hold;
};

class Table {
 public:
  explicit Table(arena::Arena& arena);
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  arena::Arena& arena() const noexcept { return arena_; }
  domain::Domain& domain() const noexcept { return domain_; }

  // A new object of this kind. kNoSpace, kStalled, kNotAttached.
  Result<Right> make(Kind kind, std::uint64_t most, std::uint64_t state, std::uint64_t depth);
  // Takes up a right that a parent entered for this process or, if this process has the object already, makes
  // another right. kInvalid: there is no such object of this kind (any more).
  Result<Right> take_up(Kind kind, LockId id);
  // The object's kind; kNone: it does not exist.
  Kind kind_of(LockId id) const noexcept;

  LockRow& row(std::uint32_t index) const noexcept { return rows_[index]; }
  Cell& cell(std::uint32_t index) const noexcept { return cells_[index]; }
  std::uint32_t cells_used() const noexcept;
  // The row of a cell's object; nullptr if that is gone.
  LockRow* row_of(const Cell& cell) const noexcept;

  // Owner words of this process and of this thread.
  std::uint64_t process() const noexcept { return Owner::process(domain_.self()); }
  std::uint64_t thread() const noexcept { return process() | os::thread_id(); }
  // Checks whether a holder has died; if so, reaps it.
  void look_after(std::uint64_t owner);
  // The same for every process that has a record of this object, so that waiters need not wait for the
  // regular check for deaths.
  void look_after_all(LockId object);

  // Parts of ledger transactions.
  Result<std::uint32_t> take_cell(sync::Transaction& change, std::uint64_t owner, LockId object,
                                  std::uint64_t units = 0);
  void put_cell(sync::Transaction& change, std::uint32_t index);
  std::uint64_t next_ticket() noexcept {
    return table_->sequence.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  std::vector<std::string> audit() const;
  std::uint64_t live_locks() const noexcept;
  std::uint64_t live_cells() const noexcept;
  std::uint64_t capacity() const noexcept { return capacity_; }

 private:
  Result<std::uint32_t> claim_row(sync::Transaction& change);
  bool empty(std::uint32_t index);
  bool reap(domain::SlotRef slot, bool clean);
  bool reap_cell(std::uint32_t index, std::uint64_t owner, bool clean);

  arena::Arena& arena_;
  domain::Domain& domain_;
  LockTable* table_;
  Cell* cells_;
  LockRow* rows_;
  std::uint64_t cell_capacity_;
  std::uint64_t capacity_;
};

// The base of all kinds of locks: a right to a row.
class Object {
 public:
  LockId id() const noexcept { return id_; }
  sync::Label& label() const noexcept { return row_.label; }
  arena::Arena& arena() const noexcept { return table_.arena(); }
  Table& table() const noexcept { return table_; }
  // Enters a child as a holder, so that the object lives until the child has opened it.
  Status offer(domain::SlotRef child);
  // Wakes all waiters, which then check again.
  void wake_all() noexcept;

 protected:
  Object(Table& table, Right right)
      : table_(table), id_(right.id), row_(table.row(right.id.index)), hold_(std::move(right.hold)) {}
  ~Object() = default;

  domain::Domain& domain() const noexcept { return table_.domain(); }
  bool attached() const noexcept { return table_.domain().attached(); }
  void trace(trace::EventKind kind, std::uint64_t value) const noexcept {
    domain().tracer().moment(trace::Category::kLocks, kind, id_.index, value);
  }

  Table& table_;
  LockId id_;
  LockRow& row_;
  domain::SpinPolicy spin_policy_;  // of this process
  arena::LeasePtr hold_;
};

}  // namespace forklift::inline abi_0_1::locks
