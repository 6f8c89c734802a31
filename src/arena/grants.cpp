// Granting blocks: the ledger's part that finds one, books its pages and makes this process its holder.
#include <algorithm>
#include <string>

#include "arena/ledger.h"

namespace forklift::inline abi_0_1::arena {

namespace {

Status too_large(std::size_t bytes, std::uint64_t most) {
  return {Code::kNoSpace,
          std::to_string(bytes) + " bytes asked, but a block can have at most " + std::to_string(most) +
              " (what RLIMIT_AS, RLIMIT_FSIZE and FORKLIFT_SEGMENT_SIZE left when the domain was made)"};
}

Status over_budget(std::size_t bytes, std::uint64_t in_use, std::uint64_t allowed) {
  return {Code::kOverBudget, std::to_string(bytes) + " bytes asked; " + std::to_string(in_use) + " in use, " +
                                 std::to_string(allowed) + " allowed (forklift.set_budget raises it)"};
}

}  // namespace

Status Ledger::grant(Kind kind, std::size_t bytes, Grant& got, Shortage& shortage) {
  const unsigned size_class = bytes > rows_.half() ? kClasses : class_for(kind, bytes);
  if (size_class > rows_.largest_class()) return too_large(bytes, rows_.half());
  if (const unsigned roomy = roomy_class(kind, bytes, size_class); roomy > size_class) {
    Status status = grant_block(kind, roomy, bytes, 0, got, shortage);
    if (!shortage.of_space) return status;
    shortage = {};
  }
  return grant_block(kind, size_class, bytes, 0, got, shortage);
}

// The class that has room for the stagger, where this is wanted and there is address space for it: all blocks together
// take twice the budget at most.
unsigned Ledger::roomy_class(Kind kind, std::size_t bytes, unsigned size_class) const {
  if (size_class < kAlwaysStaggeredClass || size_class == rows_.largest_class()) return size_class;
  if (rows_.half() / 4 < budget()) return size_class;
  return class_for(kind, bytes + kMostStagger);
}

Status Ledger::grow(Kind kind, unsigned size_class, std::uint64_t more, Grant& got, Shortage& shortage) {
  return grant_block(kind, size_class, std::size_t{1} << size_class, more, got, shortage);
}

// `more`: as grow() says; 0: the pages of `bytes`.
Status Ledger::grant_block(Kind kind, unsigned size_class, std::size_t bytes, std::uint64_t more, Grant& got,
                           Shortage& shortage) {
  sync::LockGuard guard = rows_.lock();
  if (!guard.ok()) return guard.status();
  const std::uint32_t index = free_blocks_.find(kind, size_class);
  if (index == rows_.block_capacity()) {
    guard.unlock();
    shortage.of_space = true;
    return {Code::kNoSpace,
            "no address space left in the data segment for " + std::to_string(bytes) + " bytes"};
  }
  BlockRow& row = rows_.block(index);
  BlockMeta meta = BlockMeta::unpack(row.meta.load(std::memory_order_relaxed));
  const std::uint64_t offset = row.offset.load(std::memory_order_relaxed);
  const std::uint64_t had = row.committed.load(std::memory_order_relaxed);
  const std::uint64_t room = (std::uint64_t{1} << size_class) - bytes;
  const std::uint64_t start = size_class >= kStaggeredClass && room >= kMostStagger ? stagger_of(offset) : 0;
  const std::uint64_t wanted = start + pages_for(bytes, size_class);
  const std::uint64_t has = std::max(had, more != 0 ? std::min(had + more, wanted) : wanted);
  const std::uint64_t committed = state().committed.load(std::memory_order_relaxed);
  if (has > had && committed + chunk_bytes() + (has - had) > rows_.domain().budget(committed)) {
    guard.unlock();
    shortage.bytes = has - had;
    return over_budget(bytes, committed + chunk_bytes(), rows_.domain().budget(committed));
  }

  sync::Transaction change = rows_.begin();
  const std::uint32_t right = rows_.take_lease(change);
  if (right >= rows_.lease_capacity()) return {Code::kNoSpace, "the lease table is full"};
  free_blocks_.unlink(change, index, meta);
  meta.state = BlockState::kHeld;
  meta.cold = false;
  change.set(row.meta, meta.pack());
  change.set(row.count, 1);
  change.set(row.length, bytes);
  if (start != row.start.load(std::memory_order_relaxed)) change.set(row.start, start);
  if (has != had) {
    change.set(row.committed, has);
    change.set(state().committed, committed + (has - had));
  }
  if (had) change.set(state().cached, state().cached.load(std::memory_order_relaxed) - had);
  rows_.enter(change, right, {ObjectKind::kBlock, index}, rows_.self());
  change.commit();
  got = {right, index, meta.generation, offset + start, std::max(had, start) - start, has - start};
  return {};
}

bool Ledger::put_back(const Grant& grown) {
  sync::LockGuard guard = rows_.lock();
  if (guard.ok())
    free_blocks_.drop_lease(static_cast<std::uint32_t>(grown.row), static_cast<std::uint32_t>(grown.block));
  return guard.ok();
}

}  // namespace forklift::inline abi_0_1::arena
