// Memory outside of the arena that processes share by descriptor: pools, of which tensors are pieces.
//
//   Result<PoolRef> pool = pools.enter(std::move(descriptor), bytes, device, mapping);    // the owner, once a pool
//   Result<LeasePtr> piece = pools.share(*pool, offset, length);      // a lease, as on a block
//   Outgoing message{.leases = {&*piece, 1}};                         // travels as a block does
//   ...
//   Result<Pools::Memory> memory = pools.open(*incoming.leases()[0], import);   // in the receiver
//   Result<PieceInfo> info = pools.describe(*incoming.leases()[0]);             // where in it
//   ...
//   pools.visit_returned(*pool, [&](std::uint64_t offset, std::uint64_t bytes) { reuse(offset, bytes); });
//
// A pool is one descriptor, whatever is behind it (device memory, a memory file). A process that has allocated it
// enters it and is its owner. A piece gets a row of the ledger when it is shared; processes, messages, topics and
// published names hold leases on it as on a block. Receivers send it on without asking anybody. When the last
// lease has gone the piece comes back to the owner, who may use that part of the pool for something else.
//
// Memory that has no descriptor (of torch's cudaMalloc, say) is entered with the handle by which the driver lets other processes
// open it: enter_origin(). Only its owner, the origin, keeps such memory, so the handle's pool is of use as long as the
// origin lives and has not left it: check_origin(). Before it leaves, the origin can copy what others still want
// into a pool of the first kind, and relocate() the piece: messages that carry it carry it still, and only processes that
// opened it before have to be waited for.
//
// A pool exists as long as its owner lives and has not left it, or somebody holds a piece. Until then a process of
// its own, the broker (shm_manager/pool_broker.h), has a duplicate of the descriptor; the first pool of a domain
// starts it. Processes that have a pool open hand the descriptor in again when both of the broker's processes were
// killed. Only pools that no living process has open are lost then.
//
// A process opens a pool once, however many pieces it receives. It keeps a few pools open when it has no piece of them any
// more; the memory of one whose owner has ended or left it is let go of when the process next waits, opens a pool or looks for
// deaths (Domain::check_deaths).
//
// Thread safety: all functions may be called from any thread; an Import must not call back. Fork: a
// child has its parent's leases and memory, and owns no pool; a fork waits while a pool is being opened.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "memory_pool/broker_client.h"
#include "memory_pool/pool_ref.h"
#include "memory_pool/pool_rows.h"

namespace forklift::inline abi_0_1::memory_pool {

class Pools {
 public:
  explicit Pools(arena::Arena& arena);
  ~Pools();
  Pools(const Pools&) = delete;
  Pools& operator=(const Pools&) = delete;

  // What a process sees of a pool, such as its mapping. Kept while it has the pool open.
  using Memory = std::shared_ptr<const void>;
  // Makes it of a descriptor, which stays open as long, or of the piece's handle where there is no descriptor.
  using Import = std::function<Result<Memory>(const PieceInfo& piece, const os::Fd& descriptor)>;

  // --- the owner
  // A pool of `bytes` (> 0); `memory` is what open() answers in this process. kNoSpace, kInvalid, kNotAttached, or
  // why the broker does not have the descriptor; nothing has changed then.
  Result<PoolRef> enter(os::Fd descriptor, std::uint64_t bytes, const DeviceUuid& device, Memory memory);
  // Memory that only this process keeps; others open it by `handle`. kNoSpace, kInvalid, kNotAttached.
  Result<PoolRef> enter_origin(const OriginHandle& handle, std::uint64_t bytes, const DeviceUuid& device,
                               Memory memory);
  // A lease on [offset, offset + bytes) of a pool of this process; another one when it is shared already. kInvalid:
  // it overlaps another piece (which those of an origin may), does not lie within the pool, or the pool is not this process's; kNoSpace, kStalled.
  Result<LeasePtr> share(PoolRef pool, std::uint64_t offset, std::uint64_t bytes);
  // Has a piece come back? One load.
  bool has_returned(PoolRef pool) const noexcept { return rows_.has_returned(pool); }
  // Calls `visit` for each piece that nobody holds any more: it is no piece from then on. How many there were.
  using Visit = std::function<void(std::uint64_t offset, std::uint64_t bytes)>;
  Result<std::size_t> visit_returned(PoolRef pool, const Visit& visit);
  // The other processes that hold a piece of this process's.
  std::vector<domain::SlotRef> holders(PoolRef pool, std::uint64_t offset, std::uint64_t bytes) const;
  // What others hold of a piece lies from now on where `copy` lies, which gets the old place. Both pools are this
  // process's, the pieces of one size. kInvalid: there is no such piece, or nobody holds it.
  Status relocate(PoolRef pool, std::uint64_t offset, std::uint64_t bytes, const arena::Lease& copy);
  // Gives the pool up. What others hold of it stays; nothing comes back. kInvalid, kStalled.
  Status leave(PoolRef pool);

  // --- any process, of a lease on a piece
  Result<PieceInfo> describe(const arena::Lease& lease) const { return rows_.describe(lease); }
  // kPeerDied: the piece's memory went with the process that it belonged to, or it gave it up.
  Status check_origin(const arena::Lease& lease) const;
  // The pool's descriptor, a duplicate. kPeerDied: it is lost with the broker; otherwise as BrokerClient says.
  Result<os::Fd> descriptor(const arena::Lease& lease);
  // The pool's memory in this process, imported the first time. Before another thread uses the lease. As
  // descriptor(), or what `import` says; the lease is as before then.
  Result<Memory> open(arena::Lease& lease, const Import& import);
  // Closes pools that are open without a piece in this process, by what they are kept for:
  enum class Idle : std::uint8_t {
    kAllButTheLast,  // those whose owner has ended or left them, and all but a few of the others
    kUnusedHandles,  // these, and memory by handle that was idle at the last such look, too: its origin may want to free it
    kAll
  };
  void let_go(Idle which);
  // A lease on a piece that was found by name or offered by a parent: row and generation of its handle.
  Result<LeasePtr> take_up(std::uint32_t index, std::uint32_t generation) {
    return rows_.take_up(index, generation);
  }

  // --- the broker
  bool exists(PoolRef pool) const noexcept { return rows_.exists(pool); }
  // A new broker begins, which has no descriptors.
  void begin_broker() noexcept { rows_.broker().fetch_add(1, std::memory_order_acq_rel); }

  std::uint64_t live_pools() const noexcept { return rows_.live_pools(); }
  std::uint64_t live_pieces() const noexcept { return rows_.live_pieces(); }
  // Of all pools.
  std::uint64_t bytes() const noexcept { return rows_.bytes(); }
  // Of one device's pools behind descriptors. Looks at every row.
  std::uint64_t bytes_on(const DeviceUuid& device) const noexcept { return rows_.bytes_on(device); }
  std::vector<std::string> audit() { return rows_.audit(); }

 private:
  struct Open;   // a pool that this process has open
  struct Table;  // all of them
  struct Owned;  // the pools of this process and their pieces

  std::shared_ptr<Open> find(PoolRef pool) const;
  Status check_origin(const PieceInfo& piece) const;
  Owned& owned() const;
  PoolRef own(PoolRef pool, std::shared_ptr<Open> open);
  Result<os::Fd> ask_for(PoolRef pool) const;
  Status lost(PoolRef pool) const;
  // Hands in again what this process has open, if there is another broker since.
  void hand_in_again(bool waiting);

  arena::Arena& arena_;
  PoolRows rows_;
  BrokerClient broker_;
  std::atomic<std::uint64_t> known_broker_{0};  // which one has what this process has open
  std::shared_ptr<Table> table_;
  // Null until it is used. Replaced in a forked child: another thread may have been using the parent's.
  mutable std::atomic<Owned*> owned_{nullptr};
};

}  // namespace forklift::inline abi_0_1::memory_pool
