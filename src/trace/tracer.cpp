#include "trace/tracer.h"

#include <unistd.h>

#include <cstring>

#include "os/thread.h"
#include "sync/thread_rows.h"

namespace forklift::inline abi_0_1::trace {

namespace {

constexpr unsigned kKindShift = 56;
constexpr std::uint64_t kDurationMask = (std::uint64_t{1} << 48) - 1;

// FNV-1a, with the bit that NameRow needs left out. Never 0.
std::uint64_t hash_of(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  hash &= ~NameRow::kComplete;
  return hash != 0 ? hash : 1;
}

void store_text(NameRow& row, std::string_view text) noexcept {
  for (std::size_t i = 0; i < std::size(row.text); ++i) {
    std::uint64_t word = 0;
    const std::size_t at = i * sizeof word;
    if (at < text.size()) std::memcpy(&word, text.data() + at, std::min(sizeof word, text.size() - at));
    row.text[i].store(word, std::memory_order_relaxed);
  }
}

}  // namespace

// The ring in which this thread wrote last. A forked child has another `self`, and takes a ring of its own.
struct Tracer::OwnRing {
  std::uint64_t tracer = 0;  // its id_
  std::uint64_t self = 0;
  RingRow* row = nullptr;  // nullptr: there is none left
  Cell* cells = nullptr;
  std::uint64_t mask = 0;
  std::uint64_t written = 0;

  void put(EventKind kind, std::int64_t began, std::int64_t ended, std::uint64_t object,
           std::uint64_t value) noexcept {
    const auto duration = static_cast<std::uint64_t>(ended - began) & kDurationMask;
    // T2: the words of this event come behind the `written` of the one before.
    sync::store_fence();
    Cell& cell = cells[written & mask];
    cell.words[0].store(static_cast<std::uint64_t>(began), std::memory_order_relaxed);
    cell.words[1].store(std::uint64_t{static_cast<std::uint8_t>(kind)} << kKindShift | duration,
                        std::memory_order_relaxed);
    cell.words[2].store(object, std::memory_order_relaxed);
    cell.words[3].store(value, std::memory_order_relaxed);
    row->written.store(++written, std::memory_order_release);
  }
};

void Tracer::open(std::span<std::byte> region, Switch& on_off, const Word& self) noexcept {
  // A tracer may lie where an earlier one has been, whose rings are gone.
  static constinit std::atomic<std::uint64_t> opened{0};
  id_ = opened.fetch_add(1, std::memory_order_relaxed) + 1;
  region_ = Region(region);
  switch_ = &on_off;
  self_ = &self;
}

bool Tracer::find_ring(OwnRing& own, std::uint64_t self) noexcept {
  own = {id_, self, nullptr, nullptr, 0, 0};
  const auto slot = static_cast<std::uint32_t>(self >> 32) & sync::kOwnerSlotMask;
  const std::uint64_t owner = sync::owner_process(slot, static_cast<std::uint32_t>(self)) | os::thread_id();
  const std::span<RingRow> rings = region_.rings();
  own.row = sync::claim_thread_row(rings, region_.table().rings_used, owner);
  if (own.row == nullptr) {
    region_.table().dropped.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  const std::span<Cell> cells = region_.cells(static_cast<std::uint64_t>(own.row - rings.data()));
  own.cells = cells.data();
  own.mask = cells.size() - 1;
  own.written = own.row->written.load(std::memory_order_relaxed);
  // Without a time: the event for which the ring is taken began earlier than now.
  own.put(EventKind::kThread, 0, 0, pid_and_thread(static_cast<std::uint32_t>(::getpid()), os::thread_id()),
          owner);
  if (const std::int64_t began = began_.exchange(0, std::memory_order_acquire); began != 0)
    own.put(EventKind::kStarted, began, began, pid_, parent_);
  return true;
}

void Tracer::begin_process(std::uint64_t pid, std::uint64_t parent) noexcept {
  began_.store(0, std::memory_order_relaxed);  // the parent's
  if (!on(Category::kLife)) return;
  const std::int64_t now = os::now_ns();
  if (categories() != kByDefault || switch_->until.load(std::memory_order_relaxed) != 0) {
    write(EventKind::kStarted, now, now, pid, parent);
    return;
  }
  pid_ = pid;
  parent_ = parent;
  began_.store(now, std::memory_order_release);
}

void Tracer::write(EventKind kind, std::int64_t began, std::int64_t ended, std::uint64_t object,
                   std::uint64_t value) noexcept {
  static constinit thread_local OwnRing own;
  const std::uint64_t self = self_->load(std::memory_order_relaxed);
  if (own.tracer != id_ || own.self != self) [[unlikely]] {
    if (self == 0 || !find_ring(own, self)) return;
  }
  if (own.row == nullptr) return;
  own.put(kind, began, ended, object, value);
  const auto until = static_cast<std::int64_t>(switch_->until.load(std::memory_order_relaxed));
  if (until != 0 && ended > until) [[unlikely]]
    switch_off();
}

std::uint32_t Tracer::name(std::string_view name) noexcept {
  const std::span<NameRow> rows = region_.names();
  if (rows.size() < 2) return 0;
  name = name.substr(0, NameRow::kBytes);
  const std::uint64_t hash = hash_of(name);
  // Number 0 is for no name. A row that its maker did not complete (it was killed) stays so, and is passed over.
  for (std::size_t i = 0; i < rows.size() - 1; ++i) {
    const std::size_t at = 1 + (hash + i) % (rows.size() - 1);
    NameRow& row = rows[at];
    std::uint64_t seen = row.state.load(std::memory_order_acquire);
    if (seen == 0 && row.state.compare_exchange_strong(seen, hash, std::memory_order_acquire)) {
      store_text(row, name);
      row.state.store(hash | NameRow::kComplete, std::memory_order_release);
      return static_cast<std::uint32_t>(at);
    }
    if (seen == (hash | NameRow::kComplete) && name_in(row) == name) return static_cast<std::uint32_t>(at);
  }
  return 0;
}

void Tracer::switch_on(std::uint64_t categories, std::int64_t until_ns) noexcept {
  switch_->until.store(static_cast<std::uint64_t>(until_ns), std::memory_order_relaxed);
  switch_->categories.store(categories, std::memory_order_release);
}

void Tracer::forget(std::uint32_t slot, std::uint32_t generation) const noexcept {
  const std::uint64_t process = sync::owner_process(slot, generation);
  const std::uint64_t used = std::min<std::uint64_t>(
      region_.table().rings_used.load(std::memory_order_acquire), region_.rings().size());
  for (RingRow& row : region_.rings().first(used)) {
    const std::uint64_t owner = row.owner.load(std::memory_order_relaxed);
    if (owner != 0 && (owner & ~sync::kOwnerThreadMask) == process)
      row.owner.store(0, std::memory_order_release);
  }
}

std::uint64_t read_ring(const Region& region, std::uint64_t ring, std::uint64_t from,
                        std::vector<Event>& events, std::uint64_t& lost) {
  const RingRow& row = region.rings()[ring];
  const std::span<const Cell> cells = region.cells(ring);
  const std::uint64_t end = row.written.load(std::memory_order_acquire);
  // The cell behind the last event may be half written.
  const auto oldest = [&](std::uint64_t written) {
    return written + 1 > cells.size() ? written + 1 - cells.size() : 0;
  };
  if (from > end) from = end;  // it was wrong
  const std::uint64_t begin = std::max(from, oldest(end));
  const std::size_t before = events.size();
  for (std::uint64_t i = begin; i < end; ++i) {
    const Cell& cell = cells[i & (cells.size() - 1)];
    const std::uint64_t kind = cell.words[1].load(std::memory_order_relaxed);
    events.push_back(
        {static_cast<std::int64_t>(cell.words[0].load(std::memory_order_relaxed)),
         static_cast<std::int64_t>(kind & kDurationMask), static_cast<EventKind>(kind >> kKindShift),
         cell.words[2].load(std::memory_order_relaxed), cell.words[3].load(std::memory_order_relaxed)});
  }
  sync::load_fence();
  const std::uint64_t kept =
      std::min(end, std::max(begin, oldest(row.written.load(std::memory_order_acquire))));
  events.erase(events.begin() + static_cast<std::ptrdiff_t>(before),
               events.begin() + static_cast<std::ptrdiff_t>(before + (kept - begin)));
  lost += kept - from;
  return end;
}

std::string name_in(const NameRow& row) {
  char text[NameRow::kBytes];
  for (std::size_t i = 0; i < std::size(row.text); ++i) {
    const std::uint64_t word = row.text[i].load(std::memory_order_relaxed);
    std::memcpy(text + i * sizeof word, &word, sizeof word);
  }
  return {text, ::strnlen(text, sizeof text)};
}

std::vector<std::string> read_names(const Region& region) {
  std::vector<std::string> names(1);
  for (std::size_t i = 1; i < region.names().size(); ++i) {
    const NameRow& row = region.names()[i];
    const bool complete = (row.state.load(std::memory_order_acquire) & NameRow::kComplete) != 0;
    names.push_back(complete ? name_in(row) : std::string());
  }
  while (!names.empty() && names.size() > 1 && names.back().empty()) names.pop_back();
  return names;
}

}  // namespace forklift::inline abi_0_1::trace
