#include "arena/audit.h"

#include <algorithm>
#include <unordered_map>

namespace forklift::inline abi_0_1::arena {

namespace {

const char* name_of(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kBlock: return "block ";
    case ObjectKind::kChannel: return "channel ";
    case ObjectKind::kLock: return "lock ";
    case ObjectKind::kTopic: return "topic ";
    case ObjectKind::kSegment: return "named segment ";
    case ObjectKind::kPiece: return "piece of a memory pool ";
  }
  return "object of an unknown kind ";
}

// One pass over each table, in the order of the functions. Later passes compare what earlier ones have
// counted.
class Audit {
 public:
  Audit(const Ledger& ledger, Depots& depots)
      : ledger_(ledger),
        depots_(depots),
        rows_(ledger.rows()),
        blocks_(rows_.blocks_used()),
        leases_(rows_.leases_used()),
        rows_naming_(blocks_, 0),
        listed_(blocks_, 0) {}

  // With the ledger's lock.
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

  const Ledger& ledger_;
  Depots& depots_;
  const Rows& rows_;
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

void Audit::check_leases() {
  for (std::uint32_t i = 0; i < leases_; ++i) {
    const std::uint64_t word = rows_.lease(i).object.load(std::memory_order_relaxed);
    if (word == 0) continue;
    ++leases_held_;
    const Object object = Object::unpack(word);
    if (object.kind != ObjectKind::kBlock)
      ++object_rows_[word];
    else if (object.index < blocks_)
      ++rows_naming_[object.index];
    else
      wrong_.add("A3: lease ", i, " names block ", object.index, " of ", blocks_);
    const Holder holder{rows_.lease(i).holder.load(std::memory_order_relaxed)};
    if (!holder.is_process() && !holder.is_message() && !holder.is_receipt() && !holder.is_topic() &&
        !holder.is_ring() && !holder.is_name() && !holder.is_depot())
      wrong_.add("A3: lease ", i, " has no holder");
    if (holder.is_depot()) {
      if (const char* why = depots_.problem_of(i, holder)) wrong_.add("A6: lease ", i, " ", why);
    }
    // The holder is read again: the receiver may have taken the block meanwhile and keep it.
    if (holder.is_message() && object.kind == ObjectKind::kBlock && object.index < blocks_ &&
        BlockMeta::unpack(rows_.block(object.index).meta.load()).state == BlockState::kKept &&
        rows_.lease(i).holder.load() == holder.word)
      wrong_.add("A6: block ", object.index, " belongs to a message and is not in use");
  }
}

void Audit::check_free_leases() {
  std::uint64_t free_leases = 0;
  for (std::uint64_t at = rows_.state().lease_rows_free.load(); at != 0 && free_leases <= leases_;
       ++free_leases) {
    if (rows_.lease(static_cast<std::uint32_t>(at - 1)).object.load() != 0)
      wrong_.add("A3: lease ", at - 1, " is free and held");
    at = rows_.lease(static_cast<std::uint32_t>(at - 1)).next.load();
  }
  if (free_leases + leases_held_ != leases_)
    wrong_.add("A3: ", leases_, " lease rows, ", leases_held_, " held, ", free_leases, " free");
}

void Audit::check_objects() {
  for (const auto& [word, rows] : object_rows_) {
    const Object object = Object::unpack(word);
    const auto& count = ledger_.hooks_of(object.kind).count;
    if (count && count(object.index).load() != rows) {
      wrong_.add("A1: ", name_of(object.kind), object.index, " counts ", count(object.index).load(),
                 " holders, the ledger has ", rows);
    }
  }
}

void Audit::check_free_lists() {
  for (std::uint32_t kind = 0; kind < kKinds; ++kind) {
    for (unsigned level = 0; level < kClasses; ++level) {
      for (const bool cold : {false, true}) check_free_list(kind, level, cold);
    }
  }
}

void Audit::check_free_list(std::uint32_t kind, unsigned level, bool cold) {
  std::uint64_t steps = 0;
  std::uint64_t previous = 0;
  const Word& head = cold ? rows_.state().cold[kind][level] : rows_.state().warm[kind][level];
  for (std::uint64_t at = head.load(); at != 0 && steps <= blocks_; ++steps) {
    const auto index = static_cast<std::uint32_t>(at - 1);
    const BlockMeta meta = BlockMeta::unpack(rows_.block(index).meta.load());
    ++listed_[index];
    if (meta.state != BlockState::kFree || meta.size_class != level || meta.cold != cold ||
        static_cast<std::uint32_t>(meta.kind) != kind) {
      wrong_.add("A2: block ", index, " is in a list that is not its own");
    }
    if (rows_.block(index).prev.load() != previous)
      wrong_.add("A2: block ", index, " has a wrong predecessor");
    previous = at;
    at = rows_.block(index).next.load();
  }
}

void Audit::check_blocks() {
  for (std::uint32_t i = 0; i < blocks_; ++i) {
    const BlockMeta meta = BlockMeta::unpack(rows_.block(i).meta.load());
    if (meta.state == BlockState::kUnused) {
      ++unused_;
    } else {
      check_block(i, meta);
    }
  }
}

void Audit::check_block(std::uint32_t i, const BlockMeta& meta) {
  const std::uint64_t count = rows_.block(i).count.load();
  if (count != rows_naming_[i])
    wrong_.add("A1: block ", i, " counts ", count, " holders, the ledger has ", rows_naming_[i]);
  const bool free = meta.state == BlockState::kFree;
  if (free != (count == 0))
    wrong_.add("A2: block ", i, " has state ", static_cast<std::uint64_t>(meta.state), " and count ", count);
  if (listed_[i] != (free ? 1 : 0)) wrong_.add("A2: block ", i, " is in ", listed_[i], " free lists");
  if (free && meta.cold != (rows_.block(i).committed.load() == 0))
    wrong_.add("A2: block ", i, " is cold with pages, or warm without");
  committed_ += rows_.block(i).committed.load();
  if (free) cached_ += rows_.block(i).committed.load();
  const std::uint64_t size = std::uint64_t{1} << meta.size_class;
  if (rows_.block(i).offset.load() % size != 0) wrong_.add("A5: block ", i, " is not aligned");
  const std::uint64_t length = rows_.block(i).length.load();
  if (meta.state == BlockState::kHeld && rows_.block(i).start.load() > size - std::min(size, length))
    wrong_.add("A5: block ", i, " has bytes beyond its end");
  if (rows_.block(i).committed.load() > size) wrong_.add("A5: block ", i, " commits more than its size");
  extents_.emplace_back(rows_.block(i).offset.load(), size);
}

void Audit::check_sums() {
  if (committed_ != rows_.state().committed.load())
    wrong_.add("A4: committed is ", rows_.state().committed.load(), ", the rows say ", committed_);
  if (cached_ != rows_.state().cached.load())
    wrong_.add("A4: cached is ", rows_.state().cached.load(), ", the rows say ", cached_);
}

void Audit::check_free_rows() {
  std::uint64_t free_rows = 0;
  for (std::uint64_t at = rows_.state().block_rows_free.load(); at != 0 && free_rows <= blocks_;
       ++free_rows) {
    at = rows_.block(static_cast<std::uint32_t>(at - 1)).next.load();
  }
  if (free_rows != unused_) wrong_.add("A5: ", unused_, " unused block rows, ", free_rows, " in their list");
}

void Audit::check_extents() {
  std::sort(extents_.begin(), extents_.end());
  std::uint64_t end = 0;
  for (const auto& [offset, size] : extents_) {
    if (offset != end) wrong_.add("A5: a gap or overlap at offset ", offset);
    end = offset + size;
  }
  if (end != rows_.domain().data_bytes()) wrong_.add("A5: the blocks end at ", end);
}

}  // namespace

std::vector<std::string> audit(const Ledger& ledger, Depots& depots) {
  const sync::LockGuard guard = ledger.rows().lock();
  if (!guard.ok()) return {"the arena's lock cannot be had"};
  return Audit(ledger, depots).run();
}

}  // namespace forklift::inline abi_0_1::arena
