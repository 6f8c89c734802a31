#include "memory_pool/pools.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "memory_pool/open_pools.h"

namespace forklift::inline abi_0_1::memory_pool {

using arena::Lease;

namespace {

// How long a process that finds a new broker waits for it to take a descriptor, and one that is waiting for
// something else.
constexpr double kHandInSeconds = 1;
constexpr double kPassingSeconds = 0.2;

Status not_owned(PoolRef pool) {
  return {Code::kInvalid, "this process has not entered memory pool " + std::to_string(pool.index) +
                              " of generation " + std::to_string(pool.generation) + ", or has left it"};
}

}  // namespace

// Its lock is held while the ledger is asked, and not by a fork.
struct Pools::Owned {
  struct Piece {
    std::uint32_t index = 0;
    std::uint32_t generation = 0;
  };
  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    bool operator<(const Range& other) const noexcept {
      return offset != other.offset ? offset < other.offset : bytes < other.bytes;
    }
  };
  struct Pool {
    std::shared_ptr<Open> open;
    bool of_origin = false;  // its owner's allocator decides what may overlap
    std::map<Range, Piece> pieces;
    // Does it overlap a piece, other than by being the same?
    bool overlaps(const Range& range) const {
      if (of_origin || pieces.contains(range)) return false;
      const auto next = pieces.lower_bound(range);
      if (next != pieces.end() && next->first.offset - range.offset < range.bytes) return true;
      if (next == pieces.begin()) return false;
      const Range& before = std::prev(next)->first;
      return range.offset - before.offset < before.bytes;
    }
  };
  std::mutex mutex;
  std::map<PoolRef, Pool> pools;
  std::unique_ptr<Owned> inherited;  // the parent's, which keep the memory that this process has inherited
  std::vector<std::shared_ptr<Open>> kept_by_parent;
};

void Pools::Table::inherit(Pools& pools) {
  for (const auto& [pool, known] : open)
    if (const std::shared_ptr<Open> one = known.lock()) one->file.close();
  Owned* const parents = pools.owned_.load(std::memory_order_relaxed);
  if (parents == nullptr && kept.empty()) return;
  auto* const fresh = new Owned;
  fresh->kept_by_parent.swap(kept);
  fresh->inherited.reset(parents);
  pools.owned_.store(fresh, std::memory_order_relaxed);
}

Pools::Pools(arena::Arena& arena)
    : arena_(arena), rows_(arena), broker_(arena.domain()), table_(std::make_shared<Table>()) {
  rows_.connect([this] { broker_.tell_gone(); });
  arena_.domain().on_check([this] {
    hand_in_again(false);
    let_go(Idle::kUnusedHandles);
  });
  const std::lock_guard<std::mutex> lock(Table::locks().opened);
  Table::locks().all.insert(this);
}

Pools::~Pools() {
  std::vector<std::shared_ptr<Open>> kept;  // dropped outside of the lock
  {
    const std::lock_guard<std::mutex> lock(Table::locks().opened);
    Table::locks().all.erase(this);
    kept.swap(table_->kept);
  }
  kept.clear();
  delete owned_.load(std::memory_order_relaxed);
}

// --- the owner

// Made at its first use: without it a forked child has nothing to inherit.
Pools::Owned& Pools::owned() const {
  Owned* made = owned_.load(std::memory_order_acquire);
  if (made != nullptr) return *made;
  auto fresh = std::make_unique<Owned>();
  if (!owned_.compare_exchange_strong(made, fresh.get(), std::memory_order_acq_rel)) return *made;
  return *fresh.release();
}

Result<PoolRef> Pools::enter(os::Fd descriptor, std::uint64_t bytes, const DeviceUuid& device,
                             Memory memory) {
  if (bytes == 0 || !descriptor.valid())
    return Status(Code::kInvalid, "a memory pool has bytes, and a descriptor");
  const Result<PoolRef> pool = rows_.add_pool(bytes, device);
  if (!pool) return pool.status();
  std::shared_ptr<Open> open;
  {
    const std::lock_guard<std::mutex> lock(Table::locks().opening);
    if (Status kept = broker_.keep(*pool, descriptor); !kept) {
      rows_.disown(*pool, rows_.self());
      return kept;
    }
    open = Table::add(table_, *pool, std::move(descriptor), std::move(memory));
  }
  hand_in_again(true);
  return own(*pool, std::move(open));
}

Result<PoolRef> Pools::enter_origin(const OriginHandle& handle, std::uint64_t bytes, const DeviceUuid& device,
                                    Memory memory) {
  if (bytes == 0 || handle == kNoHandle)
    return Status(Code::kInvalid, "memory of an origin has bytes, and a handle");
  const Result<PoolRef> pool = rows_.add_pool(bytes, device, handle);
  if (!pool) return pool.status();
  const std::lock_guard<std::mutex> lock(Table::locks().opening);
  return own(*pool, Table::add(table_, *pool, os::Fd(), std::move(memory)));
}

PoolRef Pools::own(PoolRef pool, std::shared_ptr<Open> open) {
  Owned& owned = this->owned();
  const std::lock_guard<std::mutex> lock(owned.mutex);
  owned.pools[pool].of_origin = !open->file.valid();
  owned.pools[pool].open = std::move(open);
  return pool;
}

Result<LeasePtr> Pools::share(PoolRef pool, std::uint64_t offset, std::uint64_t bytes) {
  hand_in_again(true);
  Owned& owned = this->owned();
  const std::lock_guard<std::mutex> lock(owned.mutex);
  const auto mine = owned.pools.find(pool);
  if (mine == owned.pools.end()) return not_owned(pool);
  const Owned::Range range{offset, bytes};
  if (mine->second.overlaps(range))
    return Status(Code::kInvalid, "[" + std::to_string(offset) + ", " + std::to_string(offset) + " + " +
                                      std::to_string(bytes) + ") overlaps another piece of its memory pool");
  std::map<Owned::Range, Owned::Piece>& pieces = mine->second.pieces;
  const auto known = pieces.find(range);
  Result<LeasePtr> lease = known == pieces.end()
                               ? rows_.add_piece(pool, offset, bytes)
                               : rows_.hold_again(known->second.index, known->second.generation);
  if (!lease) return lease;
  arena::Arena::set_memory(**lease, nullptr, mine->second.open);
  pieces[range] = {(*lease)->handle().block, (*lease)->handle().generation};
  return lease;
}

Result<std::size_t> Pools::visit_returned(PoolRef pool, const Visit& visit) {
  if (!rows_.exists(pool) || !rows_.is_owner(pool, rows_.self())) return not_owned(pool);
  if (!rows_.has_returned(pool)) return std::size_t{0};
  std::vector<PoolRows::Returned> found;
  {
    Owned& owned = this->owned();
    const std::lock_guard<std::mutex> lock(owned.mutex);
    const auto mine = owned.pools.find(pool);
    if (mine == owned.pools.end()) return not_owned(pool);
    for (;;) {
      Result<std::optional<PoolRows::Returned>> next = rows_.take_returned(pool);
      // What was taken before a failure is told; the rest comes with the next visit.
      if (!next && found.empty()) return next.status();
      if (!next || !*next) break;
      mine->second.pieces.erase({(*next)->offset, (*next)->bytes});
      found.push_back(**next);
    }
  }
  for (const PoolRows::Returned& piece : found) visit(piece.offset, piece.bytes);
  return found.size();
}

std::vector<domain::SlotRef> Pools::holders(PoolRef pool, std::uint64_t offset, std::uint64_t bytes) const {
  Owned& owned = this->owned();
  const std::lock_guard<std::mutex> lock(owned.mutex);
  const auto mine = owned.pools.find(pool);
  if (mine == owned.pools.end()) return {};
  const auto piece = mine->second.pieces.find({offset, bytes});
  return piece == mine->second.pieces.end() ? std::vector<domain::SlotRef>()
                                            : rows_.holders(piece->second.index);
}

Status Pools::relocate(PoolRef pool, std::uint64_t offset, std::uint64_t bytes, const Lease& copy) {
  const Result<PieceInfo> there = describe(copy);
  if (!there) return there.status();
  Owned& owned = this->owned();
  const std::lock_guard<std::mutex> lock(owned.mutex);
  const auto mine = owned.pools.find(pool);
  const auto other = owned.pools.find(there->pool);
  if (mine == owned.pools.end()) return not_owned(pool);
  if (other == owned.pools.end()) return not_owned(there->pool);
  const auto piece = mine->second.pieces.find({offset, bytes});
  const auto target = other->second.pieces.find({there->offset, there->bytes});
  if (piece == mine->second.pieces.end() || target == other->second.pieces.end())
    return {Code::kInvalid, "no piece of the memory pool begins there"};
  if (Status moved = rows_.relocate(piece->second.index, piece->second.generation, copy); !moved)
    return moved;
  std::swap(piece->second, target->second);
  return {};
}

Status Pools::leave(PoolRef pool) {
  Owned::Pool dropped;  // outside of the lock
  Owned& owned = this->owned();
  const std::lock_guard<std::mutex> lock(owned.mutex);
  const auto mine = owned.pools.find(pool);
  if (mine == owned.pools.end()) return not_owned(pool);
  if (!rows_.disown(pool, rows_.self())) return {Code::kStalled, "the ledger's lock could not be had"};
  dropped = std::move(mine->second);
  owned.pools.erase(mine);
  return {};
}

// --- any process

// What is dropped calls its driver, and the table when it is gone.
void Pools::let_go(Idle which) {
  const std::vector<PoolRef> idle = table_->idle();
  if (idle.empty()) return;
  std::set<PoolRef> ended;
  for (const PoolRef pool : idle) {
    const arena::Holder owner = rows_.owner_of(pool);
    if (!rows_.exists(pool) || !owner.is_process() || arena_.domain().is_dead(owner.slot()))
      ended.insert(pool);
  }
  const std::vector<std::shared_ptr<Open>> dropped = table_->take_idle(which, ended);
}

std::shared_ptr<Pools::Open> Pools::find(PoolRef pool) const { return table_->find(pool); }

Status Pools::check_origin(const Lease& lease) const {
  const Result<PieceInfo> piece = describe(lease);
  return piece ? check_origin(*piece) : piece.status();
}

Status Pools::check_origin(const PieceInfo& piece) const {
  if (!piece.by_handle()) return {};
  const arena::Holder owner = rows_.owner_of(piece.pool);
  if (owner == rows_.self()) return {};
  const domain::Domain& domain = arena_.domain();
  if (owner.is_process() && !domain.is_dead(owner.slot())) return {};
  return {Code::kPeerDied,
          "the memory belonged to a process that has ended or has freed it, and is gone; a tensor "
          "in Forklift's own device memory would have stayed"};
}

Result<os::Fd> Pools::descriptor(const Lease& lease) {
  hand_in_again(true);
  const Result<PieceInfo> piece = describe(lease);
  if (!piece) return piece.status();
  if (piece->by_handle())
    return Status(Code::kUnsupported, "memory that belongs to another process has no descriptor");
  const std::lock_guard<std::mutex> lock(Table::locks().opening);
  if (const std::shared_ptr<Open> open = find(piece->pool); open && open->file.valid())
    return open->file.duplicate();
  return ask_for(piece->pool);
}

Result<Pools::Memory> Pools::open(Lease& lease, const Import& import) {
  const Result<PieceInfo> piece = describe(lease);
  if (!piece) return piece.status();
  if (Status status = check_origin(*piece); !status) return status;
  std::shared_ptr<Open> open = find(piece->pool);
  if (!open) {
    hand_in_again(true);
    let_go(Idle::kAllButTheLast);
    const std::lock_guard<std::mutex> lock(Table::locks().opening);
    open = find(piece->pool);  // another thread may have been faster
    if (!open) {
      Result<os::Fd> file = piece->by_handle() ? os::Fd() : ask_for(piece->pool);
      if (!file) return file.status();
      Result<Memory> memory = import(*piece, *file);
      if (!memory) return memory;
      open = Table::add(table_, piece->pool, *std::move(file), *std::move(memory));
      table_->keep(open);
    }
  }
  arena::Arena::set_memory(lease, nullptr, open);
  return open->memory;
}

Result<os::Fd> Pools::ask_for(PoolRef pool) const {
  Result<os::Fd> file = broker_.give(pool);
  return file.code() == Code::kNotFound ? lost(pool) : std::move(file);
}

Status Pools::lost(PoolRef pool) const {
  const domain::Domain& domain = arena_.domain();
  std::string owner = "its owner is gone";
  for (std::uint32_t index = 0; index < domain::kSlotCount; ++index) {
    const domain::SlotRef slot = domain.occupant(index);
    if (!rows_.is_owner(pool, arena::Holder::process(slot))) continue;
    owner = "its owner, process " + std::to_string(domain.pid_of(slot)) +
            (domain.is_dead(slot) ? ", is dead" : ", lives and may do so when it uses Forklift next");
  }
  return {Code::kPeerDied,
          "the descriptor of memory pool " + std::to_string(pool.index) +
              " is lost: the broker that had it was killed, and no process that has the pool "
              "open has handed it in again; " +
              owner};
}

// A broker that does not take a descriptor now is asked again at the next use.
void Pools::hand_in_again(bool waiting) {
  const std::uint64_t broker = rows_.broker().load(std::memory_order_acquire);
  if (known_broker_.load(std::memory_order_relaxed) == broker || !arena_.domain().attached()) return;
  std::unique_lock<std::mutex> lock(Table::locks().opening, std::defer_lock);
  if (waiting)
    lock.lock();
  else if (!lock.try_lock())
    return;
  for (const std::shared_ptr<Open>& open : table_->list()) {
    if (!open->file.valid()) continue;
    const Status kept =
        broker_.keep_if_there(open->pool, open->file, waiting ? kHandInSeconds : kPassingSeconds);
    if (!kept && kept.code() != Code::kInvalid) return;
  }
  known_broker_.store(broker, std::memory_order_relaxed);
}

}  // namespace forklift::inline abi_0_1::memory_pool
