// The rows of pools and pieces (memory_pool/tables.h), and each change of them: one transaction under the
// ledger's lock, so that a process may be killed at any instruction.
//
//   Result<PoolRef> pool = rows.add_pool(bytes, device);              // owned by this process
//   Result<LeasePtr> piece = rows.add_piece(*pool, offset, length);   // its first lease
//   piece->reset();                                                   // the last one: listed for the owner
//   Result<std::optional<Returned>> back = rows.take_returned(*pool);
//   rows.disown(*pool, rows.self());                                  // goes with its last piece
//
// A piece whose last lease goes returns to its pool's list while the pool has an owner; otherwise its row is free
// at once, and with the last piece the pool's.
//
// Thread and process safety: all functions may be called from any thread of any process, but connect(): once,
// before anybody else uses the arena.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "arena/object_table.h"
#include "memory_pool/pool_ref.h"
#include "memory_pool/tables.h"

namespace forklift::inline abi_0_1::memory_pool {

using arena::LeasePtr;

class PoolRows {
 public:
  explicit PoolRows(arena::Arena& arena);

  // Tells the ledger about pieces, and the domain what the dead owned. `pool_gone` is called after a pool's row
  // has become free, with no lock.
  void connect(std::function<void()> pool_gone);

  arena::Holder self() const noexcept { return arena::Holder::process(arena_.domain().self()); }
  bool exists(PoolRef pool) const noexcept { return pools_.exists(pool.index, pool.generation); }
  // Of a pool that exists.
  bool is_owner(PoolRef pool, arena::Holder process) const noexcept {
    return pools_[pool.index].owner.load(std::memory_order_relaxed) == process.word;
  }
  arena::Holder owner_of(PoolRef pool) const noexcept {
    return {pools_[pool.index].owner.load(std::memory_order_relaxed)};
  }
  bool has_returned(PoolRef pool) const noexcept {
    return pools_[pool.index].returned.load(std::memory_order_acquire) != 0;
  }

  // kNoSpace, kStalled, kNotAttached.
  Result<PoolRef> add_pool(std::uint64_t bytes, const DeviceUuid& device,
                           const OriginHandle& handle = kNoHandle);
  // A new piece of a pool of this process. kInvalid: the pool is gone or another process's; kNoSpace, kStalled.
  Result<LeasePtr> add_piece(PoolRef pool, std::uint64_t offset, std::uint64_t bytes);
  // Another lease on a piece that has leases, or on one in the list, which stays in it. Its owner only.
  Result<LeasePtr> hold_again(std::uint32_t index, std::uint32_t generation);
  // A lease on a piece that exists: the one that was offered to this process, or another one.
  Result<LeasePtr> take_up(std::uint32_t index, std::uint32_t generation);

  // The next one of the list that nobody holds; its row is free then. nullopt: there is none.
  struct Returned {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  Result<std::optional<Returned>> take_returned(PoolRef pool);
  // Moves a piece, with all that hold it, to where another piece of the same size lies, to which its memory was copied;
  // that one lies where the first one was. kInvalid: the piece is gone, or nobody holds it; kStalled.
  Status relocate(std::uint32_t index, std::uint32_t generation, const arena::Lease& to);
  // The processes but this one that hold a piece.
  std::vector<domain::SlotRef> holders(std::uint32_t index) const;

  // `owner` does not keep the pool any more. False: the ledger's lock could not be had. May be repeated.
  bool disown(PoolRef pool, arena::Holder owner);

  // kInvalid: no lease on a piece that exists.
  Result<PieceInfo> describe(const arena::Lease& lease) const;

  Word& broker() const noexcept { return pools_.header().broker; }
  std::uint64_t live_pools() const noexcept { return pools_.live(); }
  std::uint64_t live_pieces() const noexcept { return pieces_.live(); }
  std::uint64_t bytes() const noexcept { return pools_.header().bytes.load(std::memory_order_relaxed); }
  // Of pools behind descriptors.
  std::uint64_t bytes_on(const DeviceUuid& device) const noexcept;
  std::vector<std::string> audit();

 private:
  bool release_owned_by(arena::Holder owner);
  // Parts of transactions.
  bool matches(const arena::Handle& handle) const noexcept;
  void release_piece(sync::Transaction& change, std::uint32_t index);
  void free_pool(sync::Transaction& change, std::uint32_t index);
  std::optional<Returned> pop_returned(sync::Transaction& change, PoolRow& pool);
  void look(std::vector<std::string>& wrong) const;
  LeasePtr described(LeasePtr lease, std::uint32_t generation) const noexcept;

  arena::Arena& arena_;
  arena::RowTable<PoolTable, PoolRow> pools_;
  arena::ObjectTable<PieceTable, PieceRow> pieces_;
  std::function<void()> pool_gone_;
  std::atomic<bool> pool_went_{false};  // told to pool_gone_ when the transaction is over
};

}  // namespace forklift::inline abi_0_1::memory_pool
