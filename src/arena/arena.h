// The arena as one process sees it: memory in blocks, and the rights to them in leases.
//
//   Result<LeasePtr> block = arena.allocate(Kind::kShare, 1 << 20);
//   if (!block) return block.status();               // kOverBudget, kNoSpace, kStalled
//   std::memcpy((*block)->data(), source, 1 << 20);
//
// A Lease is this process's right to one object; inside the process it is shared by pointer and counted
// privately, and those that were taken from each other share one row of the ledger. That counts rows: with
// the last one of a block, the block is reused. A process that dies loses its leases to the reaper; a forked
// child is entered as a second holder of each.
//
// Thread safety: all functions may be called from any thread. The arena's lock is never held while memory is
// copied, populated or punched.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "arena/cache/magazine.h"
#include "arena/residency.h"
#include "arena/tables.h"
#include "arena/views.h"
#include "domain/domain.h"
#include "domain/fork.h"
#include "sync/spin_lock.h"

namespace forklift::arena {

class Arena;

// The name of a block as it travels. A copy from another process is untrusted until Arena::check has seen it.
struct Handle {
  std::uint32_t segment = 0;     // only 0 exists so far
  std::uint32_t block = 0;       // row in the block table
  std::uint32_t generation = 0;  // of the block when it was sent
  std::uint32_t lease = 0;       // row of the lease that travels with it
  std::uint64_t offset = 0;      // of the first byte, in the segment
  std::uint64_t length = 0;      // bytes
};
static_assert(sizeof(Handle) == 32);

class Lease {
 public:
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  Object object() const noexcept { return object_; }
  Kind kind() const noexcept { return kind_; }
  // The block's bytes as this process should use them; nullptr for objects without memory.
  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  const Handle& handle() const noexcept { return handle_; }
  Arena& arena() const noexcept { return *arena_; }
  // False once the right was passed on, or in a child that could not be entered as a holder.
  bool held() const noexcept { return row_ != kNoRow; }

 private:
  friend class Arena;
  friend class Ledger;
  static constexpr std::uint32_t kNoRow = 0xffffffffU;
  Lease() = default;

  Arena* arena_ = nullptr;
  Object object_{};
  Kind kind_ = Kind::kShare;
  // Atomic since a fork in another thread looks at every lease.
  std::atomic<std::uint32_t> row_{kNoRow};
  std::uint32_t child_row_ = kNoRow;  // between prepare and child of a fork
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  Handle handle_;
  View* view_ = nullptr;  // where a received private payload is seen
  // The ring of those that share its row (lease.cpp), under the arena's private lock; nullptr: alone.
  bool alone() const noexcept { return next_sharer_.load(std::memory_order_acquire) == nullptr; }
  std::atomic<Lease*> next_sharer_{nullptr};
  Lease* previous_sharer_ = nullptr;
  std::atomic<bool> promised_{false};  // its row is its own and is not shared any more
  Lease* previous_ = nullptr;
  Lease* next_ = nullptr;
};
using LeasePtr = std::shared_ptr<Lease>;

struct Stats {
  std::uint64_t committed_bytes;  // pages that exist or may exist
  std::uint64_t cached_bytes;     // of these, in blocks that nobody uses, kept warm
  std::uint64_t budget_bytes;
  std::uint64_t chunk_bytes;  // committed for messages
  std::uint64_t held_blocks;
  std::uint64_t leases;  // rows in use, all processes and messages
};

// What another layer tells the ledger about its objects (locks, channels).
struct ObjectHooks {
  std::function<Word&(std::uint32_t index)> count;
  // Before the last lease goes: give back what the object holds. No lock is held. Must be idempotent. False:
  // some of it had to stay, so the lease does too.
  std::function<bool(std::uint32_t index)> empty;
  // With the last lease, in the same transaction: put the row into its free list.
  std::function<void(sync::Transaction& change, std::uint32_t index)> free;
  // Gives memory back that is free but warm, best `bytes` of it. How much it was. No lock is held.
  std::function<std::uint64_t(std::uint64_t bytes)> trim;
};

class Arena {
 public:
  // Lays out the arena's regions of a new domain.
  static Status lay_out(domain::Domain& domain);
  static Result<std::unique_ptr<Arena>> open(domain::Domain& domain);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  domain::Domain& domain() const noexcept { return domain_; }

  // A block of at least `bytes` (> 0), aligned to 64 bytes (to a page from 4 KiB up), its pages populated.
  // Contents are undefined unless `zeroed`. Holder: this process.
  Result<LeasePtr> allocate(Kind kind, std::size_t bytes, bool zeroed = false);

  // A second right to the same object, for a message to come while this process keeps its own. Costs no
  // transaction: that comes when it is separated.
  Result<LeasePtr> another(const LeasePtr& lease);

  // How many rights there are to its object just now, this lease and those that share its row included. Other
  // processes', and this one's that were received or made apart, count by their rows.
  std::uint64_t holders(const Lease& lease) noexcept;

  // --- for channels
  // -------------------------------------------------------------------------------------------
  // Before a lease is passed on: a row of its own, of which its handle tells from then on. kStalled, kNoSpace
  // (the ledger is full).
  Status separate(const LeasePtr& lease);
  // Passes the right of a separated lease on to a message: one store. The Lease object is empty afterwards.
  void give(Lease& lease, Holder message) noexcept;
  // Takes the right of a message for this process: one store. The handle must have been checked.
  void take(const Handle& handle) noexcept;
  // Is what another process wrote a handle that this message may pass on?
  Status check(const Handle& handle, Holder message) const;
  // A Lease object for a right that this process holds (after take). It shows the memory that all processes
  // share.
  LeasePtr materialise(const Handle& handle);
  // Turns a received payload of the private kind into this process's own: from here on its writes are seen by
  // no process forked later. kSystem when no address space for it can be had; the lease is as before then.
  Status privatise(Lease& lease);
  // A second right, for this process, to a block that a message keeps: what several processes read. kCorrupt:
  // the message does not hold it (any more).
  Result<LeasePtr> share(const Handle& handle, Holder message);
  // Part of a transaction that makes an object: passes a right of this process on to it. The Lease object is
  // to be forgotten once the transaction has committed.
  void give_within(sync::Transaction& change, const Lease& lease, Holder object) noexcept {
    change.set(leases_[lease.row_].holder, object.word);
  }
  void forget(Lease& lease) noexcept { lease.row_ = Lease::kNoRow; }
  // Gives up a row that no Lease object stands for (orphans of a recovery, messages that nobody will take).
  // No effect when `holder` does not hold it. False: the ledger's lock could not be had, the row is as it
  // was.
  bool release_row(std::uint32_t row, Holder holder);
  // Releases all rows whose holder is `holder`; false if some had to stay.
  bool release_held_by(Holder holder);
  // As for each of the `count` messages of a channel from this sequence on, in one pass.
  bool release_messages(std::uint32_t channel, std::uint32_t sequence, std::uint32_t count);

  // Releases what a topic's messages hold outside of the `count` from `sequence` on. False as above.
  bool release_strays(std::uint32_t topic, std::uint64_t sequence, std::uint64_t count);
  // Sequences of a topic's messages, one for each lease that they hold. For audits.
  std::vector<std::uint32_t> sequences_of(std::uint32_t topic) const;

  // For the objects of one kind. Before anybody else uses this arena.
  void set_object_hooks(ObjectKind kind, ObjectHooks hooks) { hooks_of(kind) = std::move(hooks); }
  // A first lease on a new object of another layer: `fill` adds the layer's own words to the transaction and
  // says which index the object got.
  using Fill = std::function<Status(sync::Transaction& change, Object& made)>;
  Result<LeasePtr> hold_new(Object object, const Fill& fill);
  // Changes words of another layer's objects that change under the ledger's lock only, all or none of them:
  // `fill` looks at them and adds what is to change. kStalled, or what `fill` says.
  template <class FillChange>
  Status change_objects(FillChange&& fill) {
    sync::LockGuard guard = lock();
    if (!guard.ok()) return guard.status();
    sync::Transaction change(redo(), domain_.base());
    Status status = fill(change);
    if (status.ok() && change.size() != 0) change.commit();
    return status;
  }
  // A lease on an existing object, for this process or (handed to a child that will adopt it) another holder.
  Result<LeasePtr> hold(Object object);
  Status hold_for(Object object, Holder holder);
  // The same together with other words that change under the ledger's lock, all or nothing: `fill` is told
  // the row.
  using FillRow = std::function<Status(sync::Transaction& change, std::uint32_t row)>;
  Status hold_for(Object object, Holder holder, const FillRow& fill);
  // The reverse: `fill` says which row of `holder` becomes this process's own.
  using TakeRow = std::function<Result<std::uint32_t>(sync::Transaction& change)>;
  Result<LeasePtr> take_over(Holder holder, const TakeRow& fill);
  // Before something is offered: kInvalid if this process's children are of another domain.
  Status check_child() const;
  // Takes over a row that a parent entered for this process's slot. kInvalid when there is none.
  Result<LeasePtr> claim_row_for_self(Object object);
  // Enters a child that is being started as a holder of a block: the handle by which it claims its right,
  // once.
  Result<Handle> offer(const LeasePtr& lease, domain::SlotRef child);
  // kCorrupt: no block of that name was offered to this process. kInvalid: it was claimed already.
  Result<LeasePtr> claim(const Handle& handle);
  // Rows on objects of `kind` held by `holder`: (row, object).
  std::vector<std::pair<std::uint32_t, Object>> rows_of(Holder holder, ObjectKind kind) const;

  // --- care
  // -----------------------------------------------------------------------------------------------------
  // Punches free blocks until at most `keep` cached bytes are left, this process's own magazine and the depots
  // among them. How many bytes went back.
  std::uint64_t trim(std::uint64_t keep);
  // Somebody needs `bytes` beyond the budget: was anything given back, by trimming or by reaping the dead?
  bool relieve(std::uint64_t bytes);
  Stats stats();
  // Every violated invariant in words; empty when all is well. Takes the arena lock.
  std::vector<std::string> audit();
  std::byte* shared_data(const Handle& handle) const noexcept { return data_.data() + handle.offset; }
  ArenaState& state() const noexcept { return *state_; }
  std::uint64_t budget() noexcept;
  std::uint64_t chunk_bytes() const noexcept { return state_->chunk_bytes.load(std::memory_order_relaxed); }
  std::size_t private_views() { return views_.count(); }

 private:
  friend class Lease;
  // Whole words: two neighbouring halves would be loaded together, right behind their being stored apart.
  struct Grant {
    std::uint64_t row;
    std::uint64_t block;
    std::uint64_t generation;
    std::uint64_t offset;
    std::uint64_t fresh_from;  // bytes of the block whose pages may not exist yet: [fresh_from, fresh_to)
    std::uint64_t fresh_to;
  };
  explicit Arena(domain::Domain& domain);

  // ledger.cpp: all with the lock held, except the first
  sync::LockGuard lock();
  sync::RedoRecord& redo() const noexcept { return state_->redo[domain_.self().index % kRedoRecords]; }
  Result<Grant> grant(Kind kind, std::size_t bytes);
  std::uint32_t find_block(Kind kind, unsigned size_class);
  std::uint32_t take_lease_row(sync::Transaction& change);
  void put_lease_row(sync::Transaction& change, std::uint32_t row);
  void unlink_block(sync::Transaction& change, std::uint32_t block, BlockMeta meta);
  void link_block(sync::Transaction& change, std::uint32_t block, BlockMeta meta);
  void drop_block_row(std::uint32_t row, std::uint32_t block);
  bool release_object_row(std::uint32_t row, Object object);
  template <class Chosen>
  bool release_rows(Chosen&& chosen);
  Result<std::uint32_t> add_row(Object object, Holder holder, bool offered = false);
  Result<std::uint32_t> share_row(const Handle& handle, Holder message);
  Result<bool> accept_row(std::uint32_t row, Object object);
  Word& count_of(Object object) const;
  ObjectHooks& hooks_of(ObjectKind kind) { return hooks_[static_cast<std::size_t>(kind)]; }
  const ObjectHooks& hooks_of(ObjectKind kind) const { return hooks_[static_cast<std::size_t>(kind)]; }

  // space.cpp
  bool split_to(Kind kind, unsigned size_class);
  bool merge_up_to(Kind kind, unsigned size_class);
  void split_once(std::uint32_t index);
  void merge_pair(std::uint32_t lower, std::uint32_t upper);
  std::uint32_t block_to_punch() const;
  std::uint64_t punch_one();
  std::uint64_t punch_until(std::uint64_t keep);

  // depot.cpp
  Depot& depot(Kind kind, unsigned size_class) const noexcept;
  sync::LockGuard lock_depot(Kind kind, unsigned size_class);
  bool keep(const Lease& given_up, Batch& surplus) noexcept;
  Grant reopen(const CachedBlock& kept, Kind kind, unsigned size_class, std::size_t bytes) noexcept;
  void fetch(Kind kind, unsigned size_class, Batch& out);
  Status obtain(Kind kind, std::size_t bytes, Grant& got);
  void pass_on(const Batch& batch);
  void give_up_kept();
  const char* wrong_in_depot(std::uint32_t row, Holder there);  // audit.cpp

  LeasePtr blank_lease();
  LeasePtr make_lease(Object object, std::uint32_t row);
  void enlist(Lease& lease);
  void link(Lease& lease) noexcept;
  void share_right(Lease& with, Lease& fresh) noexcept;
  static bool leave_sharers(Lease& lease) noexcept;
  bool enter_block(Lease& lease, Kind kind, std::size_t bytes, const Grant& got);
  void discard(Lease& lease);
  void before_fork(const domain::SlotRef* child);
  void after_fork_in_child(bool attached);
  void forget_leases();

  BlockRow& block(std::uint32_t index) const noexcept { return blocks_[index]; }
  LeaseRow& lease(std::uint32_t index) const noexcept { return leases_[index]; }
  std::uint64_t range_begin(Kind kind) const noexcept { return kind == Kind::kPrivate ? half_ : 0; }
  unsigned largest_class() const noexcept;

  domain::Domain& domain_;
  ArenaState* state_;
  BlockRow* blocks_;
  LeaseRow* leases_;
  std::uint64_t block_capacity_;
  std::uint64_t lease_capacity_;
  std::uint64_t half_;
  os::Mapping data_;
  Residency resident_;  // guarded by mutex_
  ObjectHooks hooks_[kObjectKinds];

  // Process-private: the list of Lease objects, the magazine, the views, what is mapped; frozen across a fork.
  sync::SpinLock mutex_;
  Lease* first_ = nullptr;
  Magazine magazine_;
  std::uint64_t most_kept_ = 0;
  Views views_;
  std::unique_ptr<domain::ForkRegistration> fork_;
};

}  // namespace forklift::arena
