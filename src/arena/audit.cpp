// The audit: invariants A1..A6 of arena/tables.h, checked over every row with the lock held.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "arena/arena.h"

namespace forklift::arena {

namespace {

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

// One pass over each table, in the order of the functions; what a pass has counted, later ones compare.
class Arena::Audit {
 public:
  explicit Audit(Arena& arena)
      : arena_(arena),
        blocks_(arena.state_->blocks_used.load(std::memory_order_relaxed)),
        leases_(arena.state_->leases_used.load(std::memory_order_relaxed)),
        rows_naming_(blocks_, 0),
        listed_(blocks_, 0) {}

  // With the arena's lock.
  std::vector<std::string> run() {
    check_leases();
    check_free_leases();
    check_objects();
    check_free_lists();
    check_blocks();
    check_sums();
    check_free_rows();
    check_extents();
    return wrong_.take();
  }

 private:
  void check_leases();
  void check_free_leases();
  void check_objects();
  void check_free_lists();
  void check_free_list(std::uint32_t kind, unsigned level, bool cold);
  void check_blocks();
  void check_block(std::uint32_t i, const BlockMeta& meta);
  void check_sums();
  void check_free_rows();
  void check_extents();

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

  Arena& arena_;
  const std::uint64_t blocks_;
  const std::uint64_t leases_;
  Findings wrong_;
  std::vector<std::uint64_t> rows_naming_;                        // by block
  std::unordered_map<std::uint64_t, std::uint64_t> object_rows_;  // of other rooms, by the whole word
  std::uint64_t leases_held_ = 0;
  std::vector<std::uint8_t> listed_;  // by block: in how many free lists
  std::uint64_t committed_ = 0;
  std::uint64_t cached_ = 0;
  std::uint64_t unused_ = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extents_;
};

void Arena::Audit::check_leases() {
  for (std::uint32_t i = 0; i < leases_; ++i) {
    const std::uint64_t word = arena_.lease(i).object.load(std::memory_order_relaxed);
    if (word == 0) continue;
    ++leases_held_;
    const Object object = Object::unpack(word);
    if (object.kind != ObjectKind::kBlock)
      ++object_rows_[word];
    else if (object.index < blocks_)
      ++rows_naming_[object.index];
    else
      wrong_.add("A3: lease ", i, " names block ", object.index, " of ", blocks_);
    const Holder holder{arena_.lease(i).holder.load(std::memory_order_relaxed)};
    if (!holder.is_process() && !holder.is_message() && !holder.is_topic() && !holder.is_ring() &&
        !holder.is_name() && !holder.is_depot())
      wrong_.add("A3: lease ", i, " has no holder");
    if (holder.is_depot()) {
      if (const char* why = arena_.wrong_in_depot(i, holder)) wrong_.add("A6: lease ", i, " ", why);
    }
    // Its receiver may have kept the block meanwhile: then it is no message's any more.
    if (holder.is_message() && object.kind == ObjectKind::kBlock && object.index < blocks_ &&
        BlockMeta::unpack(arena_.block(object.index).meta.load()).state == BlockState::kKept &&
        arena_.lease(i).holder.load() == holder.word)
      wrong_.add("A6: block ", object.index, " is a message's and out of use");
  }
}

void Arena::Audit::check_free_leases() {
  std::uint64_t free_leases = 0;
  for (std::uint64_t at = arena_.state_->lease_rows_free.load(); at != 0 && free_leases <= leases_;
       ++free_leases) {
    if (arena_.lease(static_cast<std::uint32_t>(at - 1)).object.load() != 0)
      wrong_.add("A3: lease ", at - 1, " is free and held");
    at = arena_.lease(static_cast<std::uint32_t>(at - 1)).next.load();
  }
  if (free_leases + leases_held_ != leases_)
    wrong_.add("A3: ", leases_, " lease rows, ", leases_held_, " held, ", free_leases, " free");
}

void Arena::Audit::check_objects() {
  for (const auto& [word, rows] : object_rows_) {
    const Object object = Object::unpack(word);
    const auto& count = arena_.hooks_of(object.kind).count;
    if (count && count(object.index).load() != rows) {
      wrong_.add("A1: ", name_of(object.kind), object.index, " counts ", count(object.index).load(),
                 " holders, the ledger has ", rows);
    }
  }
}

void Arena::Audit::check_free_lists() {
  for (std::uint32_t kind = 0; kind < kKinds; ++kind) {
    for (unsigned level = 0; level < kClasses; ++level) {
      for (const bool cold : {false, true}) check_free_list(kind, level, cold);
    }
  }
}

void Arena::Audit::check_free_list(std::uint32_t kind, unsigned level, bool cold) {
  std::uint64_t steps = 0;
  std::uint64_t previous = 0;
  const Word& head = cold ? arena_.state_->cold[kind][level] : arena_.state_->warm[kind][level];
  for (std::uint64_t at = head.load(); at != 0 && steps <= blocks_; ++steps) {
    const auto index = static_cast<std::uint32_t>(at - 1);
    const BlockMeta meta = BlockMeta::unpack(arena_.block(index).meta.load());
    ++listed_[index];
    if (meta.state != BlockState::kFree || meta.size_class != level || meta.cold != cold ||
        static_cast<std::uint32_t>(meta.kind) != kind) {
      wrong_.add("A2: block ", index, " is in a list that is not its own");
    }
    if (arena_.block(index).prev.load() != previous)
      wrong_.add("A2: block ", index, " has a wrong predecessor");
    previous = at;
    at = arena_.block(index).next.load();
  }
}

void Arena::Audit::check_blocks() {
  for (std::uint32_t i = 0; i < blocks_; ++i) {
    const BlockMeta meta = BlockMeta::unpack(arena_.block(i).meta.load());
    if (meta.state == BlockState::kUnused) {
      ++unused_;
    } else {
      check_block(i, meta);
    }
  }
}

void Arena::Audit::check_block(std::uint32_t i, const BlockMeta& meta) {
  const std::uint64_t count = arena_.block(i).count.load();
  if (count != rows_naming_[i])
    wrong_.add("A1: block ", i, " counts ", count, " holders, the ledger has ", rows_naming_[i]);
  const bool free = meta.state == BlockState::kFree;
  if (free != (count == 0))
    wrong_.add("A2: block ", i, " has state ", static_cast<std::uint64_t>(meta.state), " and count ", count);
  if (listed_[i] != (free ? 1 : 0)) wrong_.add("A2: block ", i, " is in ", listed_[i], " free lists");
  if (free && meta.cold != (arena_.block(i).committed.load() == 0))
    wrong_.add("A2: block ", i, " is cold with pages, or warm without");
  committed_ += arena_.block(i).committed.load();
  if (free) cached_ += arena_.block(i).committed.load();
  const std::uint64_t size = std::uint64_t{1} << meta.size_class;
  if (arena_.block(i).offset.load() % size != 0) wrong_.add("A5: block ", i, " is not aligned");
  if (arena_.block(i).committed.load() > size) wrong_.add("A5: block ", i, " commits more than its size");
  extents_.emplace_back(arena_.block(i).offset.load(), size);
}

void Arena::Audit::check_sums() {
  if (committed_ != arena_.state_->committed.load())
    wrong_.add("A4: committed is ", arena_.state_->committed.load(), ", the rows say ", committed_);
  if (cached_ != arena_.state_->cached.load())
    wrong_.add("A4: cached is ", arena_.state_->cached.load(), ", the rows say ", cached_);
}

void Arena::Audit::check_free_rows() {
  std::uint64_t free_rows = 0;
  for (std::uint64_t at = arena_.state_->block_rows_free.load(); at != 0 && free_rows <= blocks_;
       ++free_rows) {
    at = arena_.block(static_cast<std::uint32_t>(at - 1)).next.load();
  }
  if (free_rows != unused_) wrong_.add("A5: ", unused_, " unused block rows, ", free_rows, " in their list");
}

void Arena::Audit::check_extents() {
  std::sort(extents_.begin(), extents_.end());
  std::uint64_t end = 0;
  for (const auto& [offset, size] : extents_) {
    if (offset != end) wrong_.add("A5: a gap or overlap at offset ", offset);
    end = offset + size;
  }
  if (end != arena_.domain_.data_bytes()) wrong_.add("A5: the blocks end at ", end);
}

std::vector<std::string> Arena::audit() {
  sync::LockGuard guard = lock();
  if (!guard.ok()) return {"the arena's lock cannot be had"};
  return Audit(*this).run();
}

}  // namespace forklift::arena
