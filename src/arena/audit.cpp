// The audit: invariants A1..A6 of arena/tables.h, checked over every row with the lock held.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "arena/arena.h"

namespace forklift::arena {

namespace {

class Findings {
 public:
  template <class... Parts>
  void add(const Parts&... parts) {
    if (lines_.size() < 100) lines_.push_back((to_text(parts) + ...));
  }
  std::vector<std::string> take() { return std::move(lines_); }

 private:
  static std::string to_text(const char* text) { return text; }
  static std::string to_text(std::uint64_t number) { return std::to_string(number); }
  std::vector<std::string> lines_;
};

const char* name_of(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kBlock: return "block ";
    case ObjectKind::kChannel: return "channel ";
    case ObjectKind::kLock: return "lock ";
    case ObjectKind::kTopic: return "topic ";
  }
  return "object of an unknown kind ";
}

}  // namespace

Stats Arena::stats() {
  Stats stats{};
  sync::LockGuard guard = lock();
  stats.committed_bytes = state_->committed.load(std::memory_order_relaxed);
  stats.cached_bytes = state_->cached.load(std::memory_order_relaxed);
  stats.budget_bytes = budget();
  stats.chunk_bytes = chunk_bytes();
  const std::uint64_t blocks = state_->blocks_used.load(std::memory_order_relaxed);
  std::uint64_t kept = 0;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    const BlockState state = BlockMeta::unpack(block(i).meta.load(std::memory_order_relaxed)).state;
    if (state == BlockState::kHeld) ++stats.held_blocks;
    if (state != BlockState::kKept) continue;
    ++kept;
    stats.cached_bytes += block(i).committed.load(std::memory_order_relaxed);
  }
  const std::uint64_t leases = state_->leases_used.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < leases; ++i)
    stats.leases += lease(i).object.load(std::memory_order_relaxed) != 0 ? 1 : 0;
  stats.leases -= std::min(kept, stats.leases);  // one each, and nobody's right to anything
  return stats;
}

// What is wrong about a lease that a depot's cell holds; kept blocks change hands under the depot's lock, not
// the arena's. Nothing when it has changed hands since.
const char* Arena::wrong_in_depot(std::uint32_t row, Holder there) {
  const std::uint32_t number = there.depot_number();
  if (number >= kKinds * kKeptClasses) return "is held by a depot that does not exist";
  const auto kind = static_cast<Kind>(number / kKeptClasses);
  const unsigned size_class = kSmallestClass + number % kKeptClasses;
  const sync::LockGuard guard = lock_depot(kind, size_class);
  if (!guard.ok() || lease(row).holder.load() != there.word) return nullptr;
  const Depot& depot = this->depot(kind, size_class);
  const std::uint64_t cell = there.cell();
  if (cell >= Depot::kCells || cell >= depot.top.load()) return "lies above its depot's top";
  const std::uint64_t item = depot.cells[cell].load();
  if (static_cast<std::uint32_t>(item) != row) return "lies in a cell that names another";
  const Object object = Object::unpack(lease(row).object.load());
  if (object.kind != ObjectKind::kBlock || object.index != item >> 32)
    return "lies in a depot and names another block";
  if (BlockMeta::unpack(block(object.index).meta.load()).state != BlockState::kKept)
    return "lies in a depot and is in use";
  return nullptr;
}

std::vector<std::string> Arena::audit() {
  Findings wrong;
  sync::LockGuard guard = lock();
  if (!guard.ok()) {
    wrong.add("the arena's lock cannot be had");
    return wrong.take();
  }
  const std::uint64_t blocks = state_->blocks_used.load(std::memory_order_relaxed);
  const std::uint64_t leases = state_->leases_used.load(std::memory_order_relaxed);

  std::vector<std::uint64_t> rows_naming(blocks, 0);
  std::unordered_map<std::uint64_t, std::uint64_t> object_rows;  // of other layers, by the whole word
  std::uint64_t leases_held = 0;
  for (std::uint32_t i = 0; i < leases; ++i) {
    const std::uint64_t word = lease(i).object.load(std::memory_order_relaxed);
    if (word == 0) continue;
    ++leases_held;
    const Object object = Object::unpack(word);
    if (object.kind != ObjectKind::kBlock)
      ++object_rows[word];
    else if (object.index < blocks)
      ++rows_naming[object.index];
    else
      wrong.add("A3: lease ", i, " names block ", object.index, " of ", blocks);
    const Holder holder{lease(i).holder.load(std::memory_order_relaxed)};
    if (!holder.is_process() && !holder.is_message() && !holder.is_topic() && !holder.is_ring() &&
        !holder.is_name() && !holder.is_depot())
      wrong.add("A3: lease ", i, " has no holder");
    if (holder.is_depot()) {
      if (const char* why = wrong_in_depot(i, holder)) wrong.add("A6: lease ", i, " ", why);
    }
    // Its receiver may have kept the block meanwhile: then it is no message's any more.
    if (holder.is_message() && object.kind == ObjectKind::kBlock && object.index < blocks &&
        BlockMeta::unpack(block(object.index).meta.load()).state == BlockState::kKept &&
        lease(i).holder.load() == holder.word)
      wrong.add("A6: block ", object.index, " is a message's and out of use");
  }
  std::uint64_t free_leases = 0;
  for (std::uint64_t at = state_->lease_rows_free.load(); at != 0 && free_leases <= leases; ++free_leases) {
    if (lease(static_cast<std::uint32_t>(at - 1)).object.load() != 0)
      wrong.add("A3: lease ", at - 1, " is free and held");
    at = lease(static_cast<std::uint32_t>(at - 1)).next.load();
  }
  if (free_leases + leases_held != leases)
    wrong.add("A3: ", leases, " lease rows, ", leases_held, " held, ", free_leases, " free");
  for (const auto& [word, rows] : object_rows) {
    const Object object = Object::unpack(word);
    const auto& count = hooks_of(object.kind).count;
    if (count && count(object.index).load() != rows) {
      wrong.add("A1: ", name_of(object.kind), object.index, " counts ", count(object.index).load(),
                " holders, the ledger has ", rows);
    }
  }

  std::vector<std::uint8_t> listed(blocks, 0);
  for (std::uint32_t kind = 0; kind < kKinds; ++kind) {
    for (unsigned level = 0; level < kClasses; ++level) {
      for (const bool cold : {false, true}) {
        std::uint64_t steps = 0;
        std::uint64_t previous = 0;
        const Word& head = cold ? state_->cold[kind][level] : state_->warm[kind][level];
        for (std::uint64_t at = head.load(); at != 0 && steps <= blocks; ++steps) {
          const auto index = static_cast<std::uint32_t>(at - 1);
          const BlockMeta meta = BlockMeta::unpack(block(index).meta.load());
          ++listed[index];
          if (meta.state != BlockState::kFree || meta.size_class != level || meta.cold != cold ||
              static_cast<std::uint32_t>(meta.kind) != kind) {
            wrong.add("A2: block ", index, " is in a list that is not its own");
          }
          if (block(index).prev.load() != previous)
            wrong.add("A2: block ", index, " has a wrong predecessor");
          previous = at;
          at = block(index).next.load();
        }
      }
    }
  }

  std::uint64_t committed = 0;
  std::uint64_t cached = 0;
  std::uint64_t unused = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extents;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    const BlockMeta meta = BlockMeta::unpack(block(i).meta.load());
    const std::uint64_t count = block(i).count.load();
    if (meta.state == BlockState::kUnused) {
      ++unused;
      continue;
    }
    if (count != rows_naming[i])
      wrong.add("A1: block ", i, " counts ", count, " holders, the ledger has ", rows_naming[i]);
    const bool free = meta.state == BlockState::kFree;
    if (free != (count == 0))
      wrong.add("A2: block ", i, " has state ", static_cast<std::uint64_t>(meta.state), " and count ", count);
    if (listed[i] != (free ? 1 : 0)) wrong.add("A2: block ", i, " is in ", listed[i], " free lists");
    if (free && meta.cold != (block(i).committed.load() == 0))
      wrong.add("A2: block ", i, " is cold with pages, or warm without");
    committed += block(i).committed.load();
    if (free) cached += block(i).committed.load();
    const std::uint64_t size = std::uint64_t{1} << meta.size_class;
    if (block(i).offset.load() % size != 0) wrong.add("A5: block ", i, " is not aligned");
    if (block(i).committed.load() > size) wrong.add("A5: block ", i, " commits more than its size");
    extents.emplace_back(block(i).offset.load(), size);
  }
  if (committed != state_->committed.load())
    wrong.add("A4: committed is ", state_->committed.load(), ", the rows say ", committed);
  if (cached != state_->cached.load())
    wrong.add("A4: cached is ", state_->cached.load(), ", the rows say ", cached);
  std::uint64_t free_rows = 0;
  for (std::uint64_t at = state_->block_rows_free.load(); at != 0 && free_rows <= blocks; ++free_rows) {
    at = block(static_cast<std::uint32_t>(at - 1)).next.load();
  }
  if (free_rows != unused) wrong.add("A5: ", unused, " unused block rows, ", free_rows, " in their list");
  std::sort(extents.begin(), extents.end());
  std::uint64_t end = 0;
  for (const auto& [offset, size] : extents) {
    if (offset != end) wrong.add("A5: a gap or overlap at offset ", offset);
    end = offset + size;
  }
  if (end != domain_.data_bytes()) wrong.add("A5: the blocks end at ", end);
  return wrong.take();
}

}  // namespace forklift::arena
