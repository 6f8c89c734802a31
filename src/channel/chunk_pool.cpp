#include "channel/chunk_pool.h"

#include <string>

#include "os/mapping.h"
#include "os/memfd.h"

namespace forklift::inline abi_0_1::channel {

namespace {
// Free chunks beyond this many (32 MiB) give their pages back.
constexpr std::uint64_t kKeptWarm = 1024;
}  // namespace

Status ChunkPool::lay_out(domain::Domain& domain) {
  return reinterpret_cast<ChunkPoolState*>(domain.region(domain::Region::kChunks).data())->mutex.init();
}

ChunkPool::ChunkPool(arena::Arena& arena) : arena_(arena) {
  const std::span<std::byte> region = arena.domain().region(domain::Region::kChunks);
  state_ = reinterpret_cast<ChunkPoolState*>(region.data());
  chunks_ = reinterpret_cast<Chunk*>(region.data());
  // A position holds 24 bits of a chunk's number.
  capacity_ = std::min<std::uint64_t>(region.size() / kChunkBytes, 1U << 24);
}

sync::LockGuard ChunkPool::lock() {
  return sync::LockGuard(state_->mutex,
                         [this] { sync::Transaction::replay(state_->redo, arena_.domain().base()); });
}

Chunk* ChunkPool::chunk(std::uint64_t number) const noexcept {
  if (number == 0 || number > state_->used.load(std::memory_order_acquire)) return nullptr;
  return &chunks_[number];
}

Status ChunkPool::take_into(Word& cell) {
  sync::LockGuard guard = lock();
  if (!guard.ok()) return guard.status();
  sync::Transaction change(state_->redo, arena_.domain().base());
  std::uint64_t number = state_->warm.load(std::memory_order_relaxed);
  if (number != 0) {
    change.set(state_->warm, chunks_[number].next.load(std::memory_order_relaxed));
    change.set(state_->warm_count, state_->warm_count.load(std::memory_order_relaxed) - 1);
  } else {
    const std::uint64_t committed = arena_.ledger().state().committed.load(std::memory_order_relaxed);
    if (committed + arena_.chunk_bytes() + kChunkBytes > arena_.budget()) {
      return {Code::kOverBudget,
              "no room for a message: " + std::to_string(committed + arena_.chunk_bytes()) +
                  " bytes in use, " + std::to_string(arena_.budget()) + " allowed"};
    }
    number = state_->cold.load(std::memory_order_relaxed);
    if (number != 0) {
      change.set(state_->cold, chunks_[number].next.load(std::memory_order_relaxed));
    } else {
      number = state_->used.load(std::memory_order_relaxed) + 1;
      if (number >= capacity_)
        return {Code::kNoSpace, "all " + std::to_string(capacity_) + " chunks for messages are in use"};
      change.set(state_->used, number);
    }
    change.set(arena_.ledger().state().chunk_bytes, arena_.chunk_bytes() + kChunkBytes);
  }
  change.set(cell, number);
  change.commit();
  return {};
}

void ChunkPool::give_from(Word& cell) {
  const std::uint64_t number = cell.load(std::memory_order_relaxed);
  if (chunk(number) == nullptr) return;
  bool punched = false;
  if (state_->warm_count.load(std::memory_order_relaxed) >= kKeptWarm) {
    // Nobody reads a chunk that only a cell names, so its pages may go before it is back in the pool.
    const auto offset =
        static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(&chunks_[number]) - arena_.domain().base());
    punched = arena_.domain().descriptors_intact() &&
              os::punch_hole(arena_.domain().control_file(), offset, kChunkBytes).ok();
  }
  sync::LockGuard guard = lock();
  if (!guard.ok()) return;  // it stays in the cell, and the next owner of this end gives it back
  sync::Transaction change(state_->redo, arena_.domain().base());
  Word& list = punched ? state_->cold : state_->warm;
  change.set(chunks_[number].next, list.load(std::memory_order_relaxed));
  change.set(list, number);
  if (punched) {
    change.set(arena_.ledger().state().chunk_bytes, arena_.chunk_bytes() - kChunkBytes);
  } else {
    change.set(state_->warm_count, state_->warm_count.load(std::memory_order_relaxed) + 1);
  }
  change.set(cell, 0);
  change.commit();
}

std::uint64_t ChunkPool::trim(std::uint64_t bytes) {
  std::uint64_t freed = 0;
  while (freed < bytes && arena_.domain().descriptors_intact()) {
    sync::LockGuard guard = lock();
    if (!guard.ok()) break;
    const std::uint64_t number = state_->warm.load(std::memory_order_relaxed);
    if (number == 0) break;
    sync::Transaction change(state_->redo, arena_.domain().base());
    change.set(state_->warm, chunks_[number].next.load(std::memory_order_relaxed));
    change.set(state_->warm_count, state_->warm_count.load(std::memory_order_relaxed) - 1);
    change.set(chunks_[number].next, state_->cold.load(std::memory_order_relaxed));
    change.set(state_->cold, number);
    change.set(arena_.ledger().state().chunk_bytes, arena_.chunk_bytes() - kChunkBytes);
    change.commit();
    // With the lock held, so that nobody takes the chunk meanwhile. The first page stays: it has the list's
    // link.
    const auto offset =
        static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(&chunks_[number]) - arena_.domain().base());
    const std::uint64_t page = os::page_size();
    if (page < kChunkBytes)
      (void)os::punch_hole(arena_.domain().control_file(), offset + page, kChunkBytes - page);
    freed += kChunkBytes;
  }
  return freed;
}

}  // namespace forklift::inline abi_0_1::channel
