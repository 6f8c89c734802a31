#include "memory_pool/pool_rows.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace forklift::inline abi_0_1::memory_pool {

using arena::Holder;
using arena::Lease;
using arena::Object;
using arena::ObjectKind;
using sync::Transaction;

namespace {

std::uint64_t pack(PoolRef pool) noexcept { return (std::uint64_t{pool.generation} << 32) | pool.index; }
std::uint32_t pool_index(const PieceRow& piece) noexcept {
  return static_cast<std::uint32_t>(load(piece.pool));
}
std::uint32_t generation_of(const Word& meta) noexcept {
  return static_cast<std::uint32_t>(load(meta) >> 32);
}

Status no_pool(PoolRef pool) {
  return {Code::kInvalid, "memory pool " + std::to_string(pool.index) + " of generation " +
                              std::to_string(pool.generation) + " is not this process's (any more)"};
}

Status nothing_to_prepare() { return {}; }

}  // namespace

PoolRows::PoolRows(arena::Arena& arena)
    : arena_(arena),
      pools_(arena.domain(), domain::Region::kMemoryPools),
      pieces_(arena, ObjectKind::kPiece, domain::Region::kPieces) {}

void PoolRows::connect(std::function<void()> pool_gone) {
  pool_gone_ = std::move(pool_gone);
  arena_.ledger().set_object_hooks(
      ObjectKind::kPiece,
      {.count = [this](std::uint32_t index) -> Word& { return pieces_[index].count; },
       .empty = [](std::uint32_t) { return true; },
       .free = [this](Transaction& change, std::uint32_t index) { release_piece(change, index); },
       .trim = nullptr,
       .matches = [this](const arena::Handle& handle) { return matches(handle); },
       .gone =
           [this] {
             if (pool_went_.exchange(false, std::memory_order_relaxed)) pool_gone_();
           }});
  arena_.domain().on_reap(
      [this](domain::SlotRef slot, bool) { return release_owned_by(Holder::process(slot)); });
}

bool PoolRows::matches(const arena::Handle& handle) const noexcept {
  // Not the offset: a piece may have been relocated since the handle was written.
  return pieces_.exists(handle.block, handle.generation) &&
         load(pieces_[handle.block].bytes) == handle.length;
}

LeasePtr PoolRows::described(LeasePtr lease, std::uint32_t generation) const noexcept {
  const PieceRow& piece = pieces_[lease->object().index];
  arena::Arena::describe(*lease, {.segment = arena::kPoolPiece,
                                  .generation = generation,
                                  .offset = load(piece.offset),
                                  .length = load(piece.bytes)});
  return lease;
}

Result<PoolRef> PoolRows::add_pool(std::uint64_t bytes, const DeviceUuid& device,
                                   const OriginHandle& handle) {
  if (!arena_.domain().attached()) return arena_.domain().not_attached();
  PoolRef made;
  Status added = arena_.ledger().change_objects([&](Transaction& change) -> Status {
    const Result<std::uint32_t> index =
        pools_.claim(change, "memory pools", [](PoolRow&) { return nothing_to_prepare(); });
    if (!index) return index.status();
    PoolRow& pool = pools_[*index];
    made = {*index, pools_.begin_generation(change, *index)};
    std::uint64_t words[2];
    std::memcpy(words, device.data(), sizeof words);
    change.set(pool.pieces, 0);
    change.set(pool.bytes, bytes);
    change.set(pool.device[0], words[0]);
    change.set(pool.device[1], words[1]);
    change.set(pool.owner, self().word);
    change.set(pool.returned, 0);
    std::uint64_t handle_words[8];
    std::memcpy(handle_words, handle.data(), sizeof handle_words);
    for (std::size_t i = 0; i < 8; ++i) change.set(pool.handle[i], handle_words[i]);
    change.set(pools_.header().bytes, this->bytes() + bytes);
    return {};
  });
  if (!added) return added;
  return made;
}

Result<LeasePtr> PoolRows::add_piece(PoolRef ref, std::uint64_t offset, std::uint64_t bytes) {
  std::uint32_t generation = 0;
  Result<LeasePtr> lease =
      arena_.hold_new({ObjectKind::kPiece, 0}, [&](Transaction& change, Object& made) -> Status {
        if (!exists(ref) || !is_owner(ref, self())) return no_pool(ref);
        PoolRow& pool = pools_[ref.index];
        if (bytes == 0 || bytes > load(pool.bytes) || offset > load(pool.bytes) - bytes)
          return {Code::kInvalid, "[" + std::to_string(offset) + ", " + std::to_string(offset) + " + " +
                                      std::to_string(bytes) + ") is no piece of a memory pool of " +
                                      std::to_string(load(pool.bytes)) + " bytes"};
        const Result<std::uint32_t> index =
            pieces_.claim(change, "pieces of memory pools", [](PieceRow&) { return nothing_to_prepare(); });
        if (!index) return index.status();
        PieceRow& piece = pieces_[*index];
        made.index = *index;
        generation = pieces_.begin_generation(change, *index);
        change.set(piece.pool, pack(ref));
        change.set(piece.offset, offset);
        change.set(piece.bytes, bytes);
        change.set(piece.listed, 0);
        change.set(pool.pieces, load(pool.pieces) + 1);
        return {};
      });
  if (!lease) return lease.status();
  return described(*std::move(lease), generation);
}

Result<LeasePtr> PoolRows::hold_again(std::uint32_t index, std::uint32_t generation) {
  const Object object{ObjectKind::kPiece, index};
  for (;;) {
    Result<LeasePtr> lease = arena_.hold(object);
    // Nobody holds it at this moment. It stays in the list, where take_returned() passes it over.
    if (lease.code() == Code::kInvalid) {
      lease = arena_.hold_new(object, [&](Transaction&, Object&) -> Status {
        if (!pieces_.exists(index, generation)) return {Code::kInvalid, "the piece of a memory pool is gone"};
        if (load(pieces_[index].count) != 0) return {Code::kExists, "somebody holds it again"};
        return {};
      });
      if (lease.code() == Code::kExists) continue;
    }
    if (!lease) return lease.status();
    return described(*std::move(lease), generation);
  }
}

Result<LeasePtr> PoolRows::take_up(std::uint32_t index, std::uint32_t generation) {
  Result<LeasePtr> lease = pieces_.take_up(index, generation, "piece of a memory pool");
  if (!lease) return lease.status();
  return described(*std::move(lease), generation);
}

// --- the end

// The last lease of a piece goes.
void PoolRows::release_piece(Transaction& change, std::uint32_t index) {
  PieceRow& piece = pieces_[index];
  const std::uint32_t of = pool_index(piece);
  PoolRow& pool = pools_[of];
  if (load(pool.owner) != 0) {
    if (load(piece.listed) != 0) return;
    change.set(piece.listed, 1);
    change.set(piece.next, load(pool.returned));
    change.set(pool.returned, std::uint64_t{index} + 1);
    return;
  }
  pieces_.free(change, index);
  change.set(pool.pieces, load(pool.pieces) - 1);
  if (load(pool.pieces) == 1) free_pool(change, of);
}

void PoolRows::free_pool(Transaction& change, std::uint32_t index) {
  change.set(pools_.header().bytes, bytes() - load(pools_[index].bytes));
  pools_.free(change, index);
  pool_went_.store(true, std::memory_order_relaxed);
}

// Takes the first piece off the list, which is not empty. nullopt: somebody holds it again.
std::optional<PoolRows::Returned> PoolRows::pop_returned(Transaction& change, PoolRow& pool) {
  const auto index = static_cast<std::uint32_t>(load(pool.returned) - 1);
  PieceRow& piece = pieces_[index];
  change.set(pool.returned, load(piece.next));
  change.set(piece.listed, 0);
  if (load(piece.count) != 0) return std::nullopt;
  change.set(pool.pieces, load(pool.pieces) - 1);
  pieces_.free(change, index);
  return Returned{load(piece.offset), load(piece.bytes)};
}

Result<std::optional<PoolRows::Returned>> PoolRows::take_returned(PoolRef ref) {
  if (!exists(ref)) return no_pool(ref);
  std::optional<Returned> found;
  while (!found && has_returned(ref)) {
    Status taken = arena_.ledger().change_objects([&](Transaction& change) -> Status {
      if (!exists(ref) || !is_owner(ref, self())) return no_pool(ref);
      if (has_returned(ref)) found = pop_returned(change, pools_[ref.index]);
      return {};
    });
    if (!taken) return taken;
  }
  return found;
}

// The two pieces exchange their places in one transaction, so the counts of both pools stay right.
Status PoolRows::relocate(std::uint32_t index, std::uint32_t generation, const Lease& to) {
  return arena_.ledger().change_objects([&](Transaction& change) -> Status {
    if (!pieces_.exists(index, generation) || !matches(to.handle()))
      return {Code::kInvalid, "the piece of a memory pool is gone"};
    PieceRow& piece = pieces_[index];
    PieceRow& other = pieces_[to.handle().block];
    if (load(piece.listed) != 0 || load(piece.bytes) != load(other.bytes))
      return {Code::kInvalid, "nobody holds the piece of a memory pool, or it is of another size"};
    const std::uint64_t from = load(piece.pool);
    const std::uint64_t into = load(other.pool);
    const std::uint64_t offset = load(piece.offset);
    change.set(piece.pool, into);
    change.set(piece.offset, load(other.offset));
    change.set(other.pool, from);
    change.set(other.offset, offset);
    return {};
  });
}

std::vector<domain::SlotRef> PoolRows::holders(std::uint32_t index) const {
  return arena_.ledger().processes_with({ObjectKind::kPiece, index});
}

bool PoolRows::disown(PoolRef ref, Holder owner) {
  for (bool done = false; !done;) {
    const Status changed = arena_.ledger().change_objects([&](Transaction& change) -> Status {
      done = !exists(ref) || !is_owner(ref, owner);
      if (done) return {};
      PoolRow& pool = pools_[ref.index];
      if (load(pool.returned) != 0) {
        pop_returned(change, pool);
        return {};
      }
      done = true;
      change.set(pool.owner, 0);
      if (load(pool.pieces) == 0) free_pool(change, ref.index);
      return {};
    });
    if (!changed) return false;
  }
  if (pool_went_.exchange(false, std::memory_order_relaxed)) pool_gone_();
  return true;
}

bool PoolRows::release_owned_by(Holder owner) {
  for (std::uint32_t index = 0; index < pools_.used(); ++index) {
    const PoolRef pool{index, generation_of(pools_[index].meta)};
    if (exists(pool) && is_owner(pool, owner) && !disown(pool, owner)) return false;
  }
  return true;
}

// --- looking

// Rows that others are changing count as they were or as they will be.
std::uint64_t PoolRows::bytes_on(const DeviceUuid& device) const noexcept {
  std::uint64_t words[2];
  std::memcpy(words, device.data(), sizeof words);
  std::uint64_t sum = 0;
  for (std::uint32_t index = 0; index < pools_.used(); ++index) {
    const PoolRow& pool = pools_[index];
    const bool of_origin = std::any_of(std::begin(pool.handle), std::end(pool.handle),
                                       [](const Word& word) { return load(word) != 0; });
    if (!of_origin && (load(pool.meta) & 1) != 0 && load(pool.device[0]) == words[0] &&
        load(pool.device[1]) == words[1])
      sum += load(pool.bytes);
  }
  return sum;
}

Result<PieceInfo> PoolRows::describe(const Lease& lease) const {
  const arena::Handle& handle = lease.handle();
  if (lease.object().kind != ObjectKind::kPiece || !lease.held() || !matches(handle))
    return Status(Code::kInvalid, "no lease on a piece of a memory pool");
  const PieceRow& piece = pieces_[handle.block];
  const std::uint64_t of = load(piece.pool);
  PieceInfo info{.pool = {static_cast<std::uint32_t>(of), static_cast<std::uint32_t>(of >> 32)},
                 .offset = load(piece.offset),
                 .bytes = handle.length};
  if (!exists(info.pool)) return Status(Code::kCorrupt, "the memory pool of a piece is gone");
  const PoolRow& pool = pools_[info.pool.index];
  const std::uint64_t words[2] = {load(pool.device[0]), load(pool.device[1])};
  std::memcpy(info.device.data(), words, sizeof words);
  info.pool_bytes = load(pool.bytes);
  std::uint64_t handle_words[8];
  for (std::size_t i = 0; i < 8; ++i) handle_words[i] = load(pool.handle[i]);
  std::memcpy(info.handle.data(), handle_words, sizeof handle_words);
  return info;
}

}  // namespace forklift::inline abi_0_1::memory_pool
