// The ledger: which blocks and objects exist, and who holds a right to each. A right is a lease, one row;
// with the last row of a block the block is free, and with the last row of another room's object that object
// goes.
//
//   Shortage shortage;
//   Grant got;
//   Status status = ledger.grant(Kind::kShare, 1 << 20, got, shortage);   // a block, held by this process
//   ledger.pass(got.row, Holder::message(channel, sequence));
//   if (Status status = ledger.check(handle, message); status) ledger.take(handle);
//   ledger.release_row(handle.lease, Holder::process(self));
//
// It knows rows. The Lease objects by which this process uses its rows are the Arena's (arena/arena.h).
//
// Each change is one redo transaction, but for a lease's holder, which one store changes. So a process may
// die at any instruction: the next one at the lock completes its change, and the reaper calls
// release_held_by.
//
// Thread and process safety: all functions may be called from any thread of any process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "arena/free_blocks.h"
#include "arena/handle.h"
#include "arena/rows.h"
#include "arena/trimmer.h"

namespace forklift::inline abi_0_1::arena {

struct Stats {
  std::uint64_t committed_bytes;  // pages that exist or may exist
  std::uint64_t cached_bytes;     // of these, in blocks that nobody uses, kept warm
  std::uint64_t budget_bytes;
  std::uint64_t chunk_bytes;  // committed for messages
  std::uint64_t held_blocks;
  std::uint64_t leases;  // rows in use, all processes and messages
};

// What another room tells the ledger about its objects (locks, channels, named segments, pieces of pools).
struct ObjectHooks {
  std::function<Word&(std::uint32_t index)> count;
  // Before the last lease goes: gives back what the object holds. No lock is held. Must be idempotent. False:
  // some of it had to stay, so the lease does too.
  std::function<bool(std::uint32_t index)> empty;
  // With the last lease, in the same transaction: puts the row into its free list.
  std::function<void(sync::Transaction& change, std::uint32_t index)> free;
  // Gives memory back that is free but warm, best `bytes` of it. How much it was. No lock is held.
  std::function<std::uint64_t(std::uint64_t bytes)> trim;
  // Of objects that travel in messages: is this object there, with the generation and length of the handle?
  std::function<bool(const Handle& handle)> matches{};
  // After the last lease has gone, with no lock. A death may leave it out.
  std::function<void()> gone{};
  // Before the last holder empties the object, with the lock: from here on nobody else finds it by its generation.
  std::function<void(sync::Transaction& change, std::uint32_t index)> closing{};
};

// What a handle is a right to.
inline Object object_of(const Handle& handle) noexcept {
  switch (handle.segment) {
    case kNamedSegment: return {ObjectKind::kSegment, handle.block};
    case kPoolPiece: return {ObjectKind::kPiece, handle.block};
    default: return {ObjectKind::kBlock, handle.block};
  }
}

// A block that this process got. Whole words: a load of two neighbouring halves together, right behind the
// stores of each, would stall.
struct Grant {
  std::uint64_t row;
  std::uint64_t block;
  std::uint64_t generation;
  std::uint64_t offset;      // of its first byte, in the data segment
  std::uint64_t fresh_from;  // of its bytes, those whose pages may not exist yet: [fresh_from, fresh_to)
  std::uint64_t fresh_to;
};

// Why a block could not be granted, where the caller can do something about it.
struct Shortage {
  bool of_space = false;    // no free block of the class, nor one that could be split or merged
  std::uint64_t bytes = 0;  // beyond the budget
};

class Ledger {
 public:
  // Lays out the rows of a new domain.
  static Status lay_out(domain::Domain& domain);
  Ledger(domain::Domain& domain, Trimmer::MayPunch may_punch, Trimmer::OnPunched on_punched)
      : rows_(domain),
        free_blocks_(rows_),
        trimmer_(rows_, free_blocks_, std::move(may_punch), std::move(on_punched)) {}
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  const Rows& rows() const noexcept { return rows_; }
  ArenaState& state() const noexcept { return rows_.state(); }

  // A block of at least `bytes` (> 0) for this process; tries once. kOverBudget, kNoSpace, kStalled.
  Status grant(Kind kind, std::size_t bytes, Grant& got, Shortage& shortage);

  // The same of a whole block of this class, of which `more` bytes beyond those that exist are booked, as far as it has
  // so many: a free block becomes warm bit by bit. Nothing fresh: it had all its pages.
  Status grow(Kind kind, unsigned size_class, std::uint64_t more, Grant& got, Shortage& shortage);
  // Frees the block that grow() gave. Nothing is trimmed. False: the lock could not be had, and the block stays held.
  bool put_back(const Grant& grown);

  // --- rights to blocks, named segments and pieces of pools, as handles name them
  // Is what another process wrote a handle of a lease that `holder` has? kCorrupt.
  Status check(const Handle& handle, Holder holder) const;
  // Makes the lease of a checked handle this process's: one store.
  void take(const Handle& handle) noexcept {
    rows_.lease(handle.lease).holder.store(rows_.self().word, std::memory_order_release);
  }
  // Passes a lease of this process on: one store.
  void pass(std::uint32_t row, Holder holder) noexcept {
    rows_.lease(row).holder.store(holder.word, std::memory_order_release);
  }
  // A lease for this process beside that of a message which several processes read; its row. kCorrupt: the
  // message does not hold the object (any more).
  Result<std::uint32_t> share_row(const Handle& handle, Holder message);

  // --- rights to objects of any kind
  // Another lease on an existing object; its row. `offered`: the holder does not know of it yet and will call
  // accept_row. kInvalid, kNoSpace, kStalled.
  Result<std::uint32_t> add_row(Object object, Holder holder, bool offered = false);
  // Takes up an offered row. False when another thread of this process was faster.
  Result<bool> accept_row(std::uint32_t row, Object object);
  // A first lease on a new object of another room, for this process; its row. `fill` adds the room's own
  // words to the transaction and sets the index that the object got.
  using Fill = std::function<Status(sync::Transaction& change, Object& made)>;
  Result<std::uint32_t> add_new(Object& object, const Fill& fill);
  // An offered lease.
  Status hold_for(Object object, Holder holder);
  // A lease together with other words that change under the ledger's lock, all or nothing: `fill` gets the
  // row.
  using FillRow = std::function<Status(sync::Transaction& change, std::uint32_t row)>;
  Status hold_for(Object object, Holder holder, const FillRow& fill);
  // The reverse: `choose` says which row of `holder` becomes this process's own. That row, and its object.
  using ChooseRow = std::function<Result<std::uint32_t>(sync::Transaction& change)>;
  Result<std::pair<std::uint32_t, Object>> take_over(Holder holder, const ChooseRow& choose);

  // The other processes that hold it.
  std::vector<domain::SlotRef> processes_with(Object object) const;

  // --- giving up. False: the ledger's lock could not be had, or an object could not be emptied; what is left
  // stays with its holder.

  // No effect when `holder` does not hold the row.
  bool release_row(std::uint32_t row, Holder holder);
  bool release_held_by(Holder holder);
  // What each of the `count` messages of a channel from this sequence on holds, in one pass.
  bool release_messages(std::uint32_t channel, std::uint32_t sequence, std::uint32_t count);
  // What the receipts of a channel hold, and the channel for them.
  bool release_receipts(std::uint32_t channel);
  // What a topic's messages hold outside of the `count` from `sequence` on.
  bool release_strays(std::uint32_t topic, std::uint64_t sequence, std::uint64_t count);

  // What a dead process left with one holder becomes another's, of whose rows no live process knows. Idempotent.
  // False: as above.
  bool pass_held_by(Holder from, Holder to);

  // --- looking
  // Rows on objects of `kind` held by `holder`: (row, object).
  std::vector<std::pair<std::uint32_t, Object>> rows_of(Holder holder, ObjectKind kind) const;
  // Places of a channel's receipts, one for each lease that they hold, but for what the channel holds for all. For audits.
  std::vector<std::uint32_t> places_of(std::uint32_t channel) const;
  // Sequences of a topic's messages, one for each lease that they hold. For audits.
  std::vector<std::uint32_t> sequences_of(std::uint32_t topic) const;
  // How many leases there are on an object.
  Word& count_of(Object object) const {
    return object.kind == ObjectKind::kBlock ? rows_.block(object.index).count
                                             : hooks_of(object.kind).count(object.index);
  }
  Stats stats() const;

  // --- other rooms' objects
  // Before anybody else uses the arena.
  void set_object_hooks(ObjectKind kind, ObjectHooks hooks) {
    hooks_[static_cast<std::size_t>(kind)] = std::move(hooks);
  }
  const ObjectHooks& hooks_of(ObjectKind kind) const { return hooks_[static_cast<std::size_t>(kind)]; }
  // Changes words of another room's objects that change under the ledger's lock only, all or none of them:
  // `fill` looks at them and adds what is to change. kStalled, or what `fill` says.
  template <class FillChange>
  Status change_objects(FillChange&& fill) {
    sync::LockGuard guard = rows_.lock();
    if (!guard.ok()) return guard.status();
    sync::Transaction change = rows_.begin();
    Status status = fill(change);
    if (status.ok() && change.size() != 0) change.commit();
    return status;
  }

  // --- memory
  std::uint64_t budget() const noexcept {
    return rows_.domain().budget(state().committed.load(std::memory_order_relaxed));
  }
  std::uint64_t chunk_bytes() const noexcept { return state().chunk_bytes.load(std::memory_order_relaxed); }
  // Punches free blocks until at most `keep` bytes of them are committed. How many bytes went back.
  std::uint64_t trim_to(std::uint64_t keep) { return trimmer_.trim_to(keep); }
  // Gives `bytes` back that are free but warm: of blocks, or else of another room. False when there are none.
  bool trim_by(std::uint64_t bytes);

 private:
  unsigned roomy_class(Kind kind, std::size_t bytes, unsigned size_class) const;
  Status grant_block(Kind kind, unsigned size_class, std::size_t bytes, std::uint64_t more, Grant& got,
                     Shortage& shortage);
  std::uint64_t kept() const noexcept;
  const char* problem_of(const Handle& handle) const;
  // `also(change, row)` adds words of its own to the transaction; its failure undoes the lease.
  template <class Also>
  Result<std::uint32_t> add_row_with(Object object, Holder holder, Also&& also);
  bool release_object_row(std::uint32_t row, Object object);
  template <class Chosen>
  bool release_rows(Chosen&& chosen);

  Rows rows_;
  FreeBlocks free_blocks_;
  Trimmer trimmer_;
  std::array<ObjectHooks, kObjectKinds> hooks_;
};

}  // namespace forklift::inline abi_0_1::arena
