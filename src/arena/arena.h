// The arena as one process sees it: memory in blocks, and the rights to them in leases.
//
//   Result<LeasePtr> block = arena.allocate(Kind::kShare, 1 << 20);
//   if (!block) return block.status();               // kOverBudget, kNoSpace, kStalled
//   std::memcpy((*block)->data(), source, 1 << 20);
//
// What it is made of:
//   Ledger      the rows in shared memory: which blocks there are, and who has a lease on them
//   BlockCache  the blocks that this process keeps for its next allocations
//   LeaseList   the Lease objects of this process
//   Views       where this process sees the private payloads that it received
// The arena makes and ends Lease objects. A process that dies loses its leases to the reaper; a forked child
// is entered in the ledger as a second holder of each.
//
// Thread safety: all functions may be called from any thread. The ledger's lock is never held while memory is
// copied, populated or punched.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "arena/cache/block_cache.h"
#include "arena/handle.h"
#include "arena/lease.h"
#include "arena/lease_list.h"
#include "arena/ledger.h"
#include "arena/page_nodes.h"
#include "arena/pages.h"
#include "arena/prefault.h"
#include "arena/punch_log.h"
#include "arena/residency.h"
#include "arena/views.h"
#include "domain/domain.h"
#include "domain/fork.h"
#include "os/mapping.h"
#include "sync/spin_lock.h"

namespace forklift::inline abi_0_1::arena {

class Arena {
 public:
  // Lays out the arena's regions of a new domain.
  static Status lay_out(domain::Domain& domain);
  static Result<std::unique_ptr<Arena>> open(domain::Domain& domain);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  domain::Domain& domain() const noexcept { return domain_; }
  Ledger& ledger() noexcept { return ledger_; }
  const Ledger& ledger() const noexcept { return ledger_; }

  // --- blocks
  // A block of at least `bytes` (> 0), aligned to 64 bytes (to a page from 4 KiB up), its pages populated.
  // Contents are undefined unless `zeroed`. Holder: this process. `node`: where pages are to lie that do not exist yet.
  Result<LeasePtr> allocate(Kind kind, std::size_t bytes, bool zeroed = false, int node = kAnyNode);
  // A second right to the same object, for a message to come while this process keeps its own. Costs no
  // transaction: that comes when it is separated.
  Result<LeasePtr> another(const LeasePtr& lease);
  // How many rights there are to its object at this moment: this lease, each one that shares its row, and
  // each other row of the ledger.
  std::uint64_t holders(const Lease& lease) noexcept;
  // Is what this process sees at lease.data() the block's own bytes? False for a received payload that a fork has made
  // this process's copy.
  static bool sees_block(const Lease& lease) noexcept;
  // Lets [range, range + bytes) of this process's own memory show the block's bytes from `begin` on. All numbers
  // must be page-aligned. The caller keeps the lease while the overlay lasts.
  Result<os::Overlay> overlay(const Lease& lease, std::size_t begin, void* range, std::size_t bytes) const;
  std::byte* shared_data(const Handle& handle) const noexcept { return data_.data() + handle.offset; }

  // --- sending and receiving blocks
  // Before a lease is passed on: gives it a row of its own, which its handle names from then on. kStalled,
  // kNoSpace (the ledger is full).
  Status separate(const LeasePtr& lease);
  // Passes the right of a separated lease on to a message. The Lease object is empty afterwards.
  void give(Lease& lease, Holder message) noexcept;
  // A Lease object for a block, segment or piece of a pool that this process holds (Ledger::take). It shows the
  // memory that all processes share; a segment's or a pool's has to be opened first (open_memory,
  // memory_pool::Pools::open).
  LeasePtr materialise(const Handle& handle);
  // Turns a received payload of the private kind into this process's own: from here on its writes are seen by
  // no process forked later. kSystem when no address space for it can be had; the lease is as before then.
  Status privatise(Lease& lease);
  // A second right, for this process, to a block that a message keeps and several processes read. kCorrupt:
  // the message does not hold it (any more).
  Result<LeasePtr> share(const Handle& handle, Holder message);
  // Enters a child that is being started as a holder of a block: the handle by which it claims its right,
  // once.
  Result<Handle> offer(const LeasePtr& lease, domain::SlotRef child);
  // kCorrupt: no block of that name was offered to this process. kInvalid: it was claimed already.
  Result<LeasePtr> claim(const Handle& handle);

  // --- named segments (segment/segments.h)
  // Maps the memory of a received lease on a named segment, so that it has data(). Nothing for any other
  // lease. Before another thread uses the lease. kSystem, kCorrupt; the lease is as before then.
  Status open_memory(Lease& lease);
  // How open_memory does that. Before anybody else uses the arena.
  void on_open_segment(std::function<Status(Lease& lease)> open) { open_segment_ = std::move(open); }
  // For the rooms that make leases on segments and pieces of pools: what the handle says (kNamedSegment or
  // kPoolPiece, generation, offset, length; the rest is the lease's own), and where the memory is.
  static void describe(Lease& lease, const Handle& says) noexcept;
  static void set_memory(Lease& lease, std::byte* data, std::shared_ptr<const void> mapping) noexcept;

  // --- objects of other rooms
  // A first lease on a new object, see Ledger::add_new.
  Result<LeasePtr> hold_new(Object object, const Ledger::Fill& fill);
  // A lease on an existing object.
  Result<LeasePtr> hold(Object object);
  // The lease by which `holder` holds an object becomes this process's own, see Ledger::take_over.
  Result<LeasePtr> take_over(Holder holder, const Ledger::ChooseRow& choose);
  // Takes up the right that a parent entered for this process. kInvalid when there is none.
  Result<LeasePtr> claim_row_for_self(Object object);
  // Before something is offered: kInvalid if this process's children are of another domain.
  Status check_child() const;
  // Part of a transaction that makes an object: passes a right of this process on to it. Call forget() once
  // the transaction has committed.
  void give_within(sync::Transaction& change, const Lease& lease, Holder object) noexcept {
    change.set(ledger_.rows().lease(lease.row_).holder, object.word);
  }
  void forget(Lease& lease) noexcept { lease.row_ = Lease::kNoRow; }

  // --- memory
  // Punches free blocks until at most `keep` cached bytes are left, this process's own magazine and the
  // depots among them. How many bytes went back.
  std::uint64_t trim(std::uint64_t keep);
  // Sets the budget (0: derived), and makes so many bytes of free memory warm in the background, half of them for each
  // kind (arena/prefault.h). They stay warm beside what stays anyway, whoever of the domain frees blocks, until the next
  // call. kInvalid: more than the budget. kSystem: there is no thread.
  Status set_budget(std::uint64_t bytes, std::uint64_t prefault);
  // Somebody needs `bytes` beyond the budget: was anything given back, by trimming or by reaping the dead?
  bool relieve(std::uint64_t bytes);
  std::uint64_t budget() const noexcept { return ledger_.budget(); }
  std::uint64_t chunk_bytes() const noexcept { return ledger_.chunk_bytes(); }
  std::size_t private_views() const noexcept { return views_.count(); }
  Stats stats() const { return ledger_.stats(); }
  // How much of the data segment this process has mapped by huge pages; see os::huge_bytes_mapped() for the cost. 0 at no
  // cost where there can be none.
  std::uint64_t huge_bytes();
  // Who keeps pages of the data segment, for the rest of the process; one at most. A forked child has none.
  void watch_punches(PunchWatcher* watcher) noexcept { watcher_.store(watcher, std::memory_order_release); }
  // For those who know who will read a block.
  PageNodes& page_nodes() noexcept { return pages_.page_nodes(); }
  const PageNodes& page_nodes() const noexcept { return pages_.page_nodes(); }
  PunchLog punch_log() const noexcept { return PunchLog(ledger_.rows().state()); }
  // The half of the data segment with the blocks of the share kind, as this process has it mapped.
  std::span<std::byte> share_half() const noexcept { return {data_.data(), ledger_.rows().half()}; }
  // Every violated invariant in words; empty when all is well.
  std::vector<std::string> audit();

 private:
  friend class Lease;
  explicit Arena(domain::Domain& domain);

  Status grant(Kind kind, std::size_t bytes, Grant& got);
  bool make_room(const Shortage& shortage, int attempt);
  bool enter_block(Lease& lease, Kind kind, std::size_t bytes, const Grant& got);
  void populate(const Lease& lease, const Grant& got, int node) const;
  LeasePtr make_lease(Object object, std::uint32_t row);
  LeasePtr make_listed(Object object, std::uint32_t row);
  LeasePtr materialise_unopened(const Handle& handle);
  void discard(Lease& lease);
  void trace_release(const Lease& lease, bool kept) const noexcept;
  void notice_punches() noexcept {
    if (PunchWatcher* const watcher = watcher_.load(std::memory_order_acquire)) [[unlikely]]
      watcher->catch_up();
  }

  void before_fork(const domain::SlotRef* child);
  void enter_child(domain::SlotRef child);
  void isolate_received();
  void after_fork_in_parent();
  void after_fork_in_child(bool attached);
  void forget_leases();

  domain::Domain& domain_;
  std::atomic<PunchWatcher*> watcher_{nullptr};
  Ledger ledger_;
  Pages pages_;
  Prefault prefault_;
  os::Mapping data_;  // the data segment, shared by all processes

  // The process-private lock guards the rest. It is held across a fork.
  sync::SpinLock mutex_;
  LeaseList leases_;
  BlockCache cache_;
  Residency resident_;
  Views views_;
  std::function<Status(Lease& lease)> open_segment_;
  std::unique_ptr<domain::ForkRegistration> fork_;
};

}  // namespace forklift::inline abi_0_1::arena
