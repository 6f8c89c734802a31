// Making, freeing and reaping: what happens to locks outside of their operations.
#include "locks/table.h"

#include <algorithm>
#include <climits>
#include <string>

#include "locks/barrier.h"
#include "locks/condition.h"

namespace forklift::inline abi_0_1::locks {

namespace {

std::uint64_t meta_word(std::uint32_t generation, Kind kind) {
  return (std::uint64_t{generation} << 32) | (static_cast<std::uint64_t>(kind) << 8) | kInUse;
}
std::uint32_t generation_of(std::uint64_t meta) { return static_cast<std::uint32_t>(meta >> 32); }

}  // namespace

Table::Table(arena::Arena& arena) : arena_(arena), domain_(arena.domain()) {
  const std::span<std::byte> region = domain_.region(domain::Region::kLocks);
  cell_capacity_ = cells_in(region.size());
  capacity_ = rows_in(region.size());
  table_ = reinterpret_cast<LockTable*>(region.data());
  cells_ = reinterpret_cast<Cell*>(region.data() + sizeof(LockTable));
  rows_ = reinterpret_cast<LockRow*>(region.data() + sizeof(LockTable) + cell_capacity_ * sizeof(Cell));
  arena_.ledger().set_object_hooks(
      arena::ObjectKind::kLock,
      {[this](std::uint32_t index) -> Word& { return rows_[index].count; },
       [this](std::uint32_t index) { return empty(index); },
       [this](sync::Transaction& change, std::uint32_t index) {
         change.set(rows_[index].meta, rows_[index].meta.load(std::memory_order_relaxed) & ~kInUse);
         change.set(rows_[index].next, table_->rows_free.load(std::memory_order_relaxed));
         change.set(table_->rows_free, std::uint64_t{index} + 1);
       },
       nullptr});
  domain_.on_reap([this](domain::SlotRef slot, bool clean) { return reap(slot, clean); });
}

Result<std::uint32_t> Table::claim_row(sync::Transaction& change) {
  if (const std::uint64_t free = table_->rows_free.load(std::memory_order_relaxed)) {
    change.set(table_->rows_free, rows_[free - 1].next.load(std::memory_order_relaxed));
    return static_cast<std::uint32_t>(free - 1);
  }
  const std::uint64_t used = table_->rows_used.load(std::memory_order_relaxed);
  if (used >= capacity_)
    return Status(Code::kNoSpace, "all " + std::to_string(capacity_) + " locks are in use");
  change.set(table_->rows_used, used + 1);
  return static_cast<std::uint32_t>(used);
}

Result<Right> Table::make(Kind kind, std::uint64_t most, std::uint64_t state, std::uint64_t depth) {
  Right right;
  const auto fill = [&](sync::Transaction& change, arena::Object& made) -> Status {
    Result<std::uint32_t> index = claim_row(change);
    if (!index) return index.status();
    made.index = *index;
    LockRow& fresh = rows_[*index];
    right.id = {*index, generation_of(fresh.meta.load(std::memory_order_relaxed)) + 1};
    change.set(fresh.meta, meta_word(right.id.generation, kind));
    change.set(fresh.most, most);
    change.set(fresh.state, state);
    change.set(fresh.depth, depth);
    change.set(fresh.strayed, 0);
    change.set(fresh.inside, 0);
    fresh.label.clear();
    return {};
  };
  Result<arena::LeasePtr> hold = arena_.hold_new({arena::ObjectKind::kLock, 0}, fill);
  if (!hold) return hold.status();
  right.hold = *std::move(hold);
  return right;
}

Kind Table::kind_of(LockId id) const noexcept {
  if (id.index >= capacity_ || id.index >= table_->rows_used.load(std::memory_order_acquire))
    return Kind::kNone;
  const std::uint64_t meta = rows_[id.index].meta.load(std::memory_order_acquire);
  return generation_of(meta) == id.generation ? kind_in(meta) : Kind::kNone;
}

Result<Right> Table::take_up(Kind kind, LockId id) {
  const auto gone = [&] {
    return Status(Code::kInvalid, "lock " + std::to_string(id.index) + " of generation " +
                                      std::to_string(id.generation) + " and kind " +
                                      std::to_string(static_cast<int>(kind)) + " does not exist (any more)");
  };
  if (kind_of(id) != kind) return gone();
  const arena::Object object{arena::ObjectKind::kLock, id.index};
  Result<arena::LeasePtr> hold = arena_.claim_row_for_self(object);
  if (!hold && hold.code() == Code::kInvalid) hold = arena_.hold(object);
  if (!hold) return hold.status();
  // Between the check and the hold the last holder may have left, and a new object may have been made in this
  // row.
  if (kind_of(id) != kind) return gone();
  return Right{id, *std::move(hold)};
}

std::uint32_t Table::cells_used() const noexcept {
  return static_cast<std::uint32_t>(
      std::min(table_->cells_used.load(std::memory_order_acquire), cell_capacity_));
}

LockRow* Table::row_of(const Cell& cell) const noexcept {
  const std::uint64_t word = cell.object.load(std::memory_order_acquire);
  const LockId id{static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)};
  return kind_of(id) == Kind::kNone ? nullptr : &rows_[id.index];
}

Result<std::uint32_t> Table::take_cell(sync::Transaction& change, std::uint64_t owner, LockId object,
                                       std::uint64_t units) {
  std::uint64_t index = table_->cells_free.load(std::memory_order_relaxed);
  if (index != 0) {
    change.set(table_->cells_free, cells_[--index].next.load(std::memory_order_relaxed));
  } else {
    index = table_->cells_used.load(std::memory_order_relaxed);
    if (index >= cell_capacity_)
      return Status(Code::kNoSpace, "all " + std::to_string(cell_capacity_) +
                                        " records of waiting threads and held units are in use");
    change.set(table_->cells_used, index + 1);
  }
  change.set(cells_[index].owner, owner);
  change.set(cells_[index].object, object.word());
  change.set(cells_[index].units, units);
  return static_cast<std::uint32_t>(index);
}

void Table::put_cell(sync::Transaction& change, std::uint32_t index) {
  change.set(cells_[index].owner, 0);
  change.set(cells_[index].object, 0);
  change.set(cells_[index].next, table_->cells_free.load(std::memory_order_relaxed));
  change.set(table_->cells_free, std::uint64_t{index} + 1);
}

void Table::look_after(std::uint64_t owner) {
  if (Owner::is_free(owner)) return;
  const domain::SlotRef slot = domain_.occupant(Owner::slot(owner));
  // Another generation: the holder was reaped, and the lock was left held (a clean exit, or a lock used as a
  // signal).
  if (Owner::process(slot) != Owner::process_of(owner) || !domain_.is_dead(slot)) return;
  domain_.try_reap();
}

void Table::look_after_all(LockId object) {
  const std::uint32_t used = cells_used();
  for (std::uint32_t index = 0; index < used; ++index) {
    if (cells_[index].object.load(std::memory_order_acquire) == object.word())
      look_after(cells_[index].owner.load(std::memory_order_acquire));
  }
}

// Called before the last right goes: frees the records that a process leaves when it drops a semaphore while
// it holds units.
bool Table::empty(std::uint32_t index) {
  const LockId id{index, generation_of(rows_[index].meta.load(std::memory_order_acquire))};
  const std::uint32_t used = cells_used();
  for (std::uint32_t at = 0; at < used; ++at) {
    if (cells_[at].object.load(std::memory_order_acquire) != id.word()) continue;
    const Status freed = arena_.ledger().change_objects([&](sync::Transaction& change) -> Status {
      if (cells_[at].object.load(std::memory_order_relaxed) == id.word()) put_cell(change, at);
      return {};
    });
    if (!freed) return false;
  }
  return true;
}

bool Table::reap(domain::SlotRef slot, bool clean) {
  const std::uint64_t dead = Owner::process(slot);
  const std::uint64_t rows = std::min(table_->rows_used.load(std::memory_order_acquire), capacity_);
  for (std::uint64_t index = 0; index < rows; ++index) {
    LockRow& row = rows_[index];
    const Kind kind = kind_in(row.meta.load(std::memory_order_acquire));
    if (kind == Kind::kNone) continue;
    if (has_owner(kind) && !(clean && outlives_exits(kind))) {
      std::uint64_t owner = row.state.load(std::memory_order_acquire);
      if (!Owner::is_free(owner) && Owner::process_of(owner) == dead &&
          row.strayed.load(std::memory_order_acquire) == 0)
        row.state.compare_exchange_strong(owner, Owner::kAbandoned);
    }
    // The waiter that was woken last may have died before it took the lock. Of a read-write lock's waiters one
    // alone might be a reader where a writer could go on.
    row.event.notify(kind == Kind::kReadWrite ? INT_MAX : 1);
  }
  bool all = true;
  const std::uint32_t used = cells_used();
  for (std::uint32_t index = 0; index < used; ++index) {
    const std::uint64_t owner = cells_[index].owner.load(std::memory_order_acquire);
    if (owner != 0 && Owner::process_of(owner) == dead) all &= reap_cell(index, owner, clean);
  }
  return all;
}

bool Table::reap_cell(std::uint32_t index, std::uint64_t owner, bool clean) {
  Cell& cell = cells_[index];
  LockRow* row = row_of(cell);
  const Kind kind = row ? kind_in(row->meta.load(std::memory_order_acquire)) : Kind::kNone;
  if (kind == Kind::kCondition) Condition::pass_on(*this, index);
  const Status done = arena_.ledger().change_objects([&](sync::Transaction& change) -> Status {
    if (cell.owner.load(std::memory_order_relaxed) != owner) return {};
    put_cell(change, index);
    if (kind == Kind::kBarrier)
      Barrier::party_died(change, *row, cell.units.load(std::memory_order_relaxed), clean);
    if (kind == Kind::kRecovering) {
      // A clean exit is no death: the units stay taken, as in the standard library. And no more units come
      // back than the maximum allows, since other processes may have released what this one had taken.
      const std::uint64_t units = cell.units.load(std::memory_order_relaxed);
      const std::uint64_t value = row->state.load(std::memory_order_relaxed);
      const std::uint64_t room = row->most.load(std::memory_order_relaxed) - value;
      const std::uint64_t back = clean ? 0 : std::min(units, room);
      change.set(row->state, value + back);
      change.set(row->depth, row->depth.load(std::memory_order_relaxed) - (units - back));
    }
    return {};
  });
  if (row != nullptr) row->event.notify(INT_MAX);
  if (kind == Kind::kReadWrite) row->drained.notify(INT_MAX);
  return done.ok();
}

Status Object::offer(domain::SlotRef child) {
  if (Status status = table_.arena().check_child(); !status) return status;
  return table_.arena().ledger().hold_for({arena::ObjectKind::kLock, id_.index},
                                          arena::Holder::process(child));
}

void Object::wake_all() noexcept { row_.event.notify(INT_MAX); }

}  // namespace forklift::inline abi_0_1::locks
