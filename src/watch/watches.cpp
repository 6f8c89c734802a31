#include "watch/watches.h"

#include <unistd.h>

#include "os/local_socket.h"
#include "watch/lookout.h"

namespace forklift::inline abi_0_1::watch {

using arena::Holder;
using sync::EventCount;
using sync::Transaction;

// Which control segments this process has mapped, and whose watches they hold. Entries are used again and never freed,
// since a notification may be looking through them.
struct Place {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  std::atomic<Watches*> watches{nullptr};
  Place* next = nullptr;
};
namespace {

constexpr std::uint64_t kInUse = 1;
bool in_use(std::uint64_t meta) noexcept { return (meta & kInUse) != 0; }

constexpr std::uint64_t target_word(std::uint32_t set, std::uint32_t member) noexcept {
  return (std::uint64_t{set} << 32) | member;
}
constexpr std::uint32_t set_in(std::uint64_t target) noexcept {
  return static_cast<std::uint32_t>(target >> 32);
}
constexpr std::uint32_t member_in(std::uint64_t target) noexcept {
  return static_cast<std::uint32_t>(target);
}

constinit std::atomic<Place*> places{nullptr};

Place* enter(Watches* watches) {
  for (Place* place = places.load(std::memory_order_acquire); place != nullptr; place = place->next) {
    Watches* nobody = nullptr;
    if (place->watches.compare_exchange_strong(nobody, watches)) return place;
  }
  auto* made = new Place;
  made->watches.store(watches);
  made->next = places.load(std::memory_order_acquire);
  while (!places.compare_exchange_weak(made->next, made)) {
  }
  return made;
}

void tell_watches(EventCount& event) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(&event);
  for (Place* place = places.load(std::memory_order_acquire); place != nullptr; place = place->next) {
    if (address < place->begin.load(std::memory_order_acquire)) continue;
    if (address >= place->end.load(std::memory_order_acquire)) continue;
    if (Watches* const watches = place->watches.load(std::memory_order_acquire)) watches->tell(event);
    return;
  }
}

}  // namespace

Watches::Watches(arena::Arena& arena)
    : arena_(arena),
      sets_(arena.domain(), domain::Region::kWaitSets),
      watches_(arena.domain(), domain::Region::kWatches),
      place_(enter(this)) {
  const auto begin = reinterpret_cast<std::uintptr_t>(domain().base());
  place_->end.store(begin + domain().header().control_bytes, std::memory_order_release);
  place_->begin.store(begin, std::memory_order_release);
  sync::watch_hook.store(tell_watches, std::memory_order_release);
  domain().on_reap([this](domain::SlotRef slot, bool) { return reap(slot); });
}

Watches::~Watches() {
  Lookout::leave(*this);
  place_->begin.store(0);
  place_->end.store(0);
  place_->watches.store(nullptr);
  if (const int fd = sender_.load(); fd >= 0) ::close(fd);
}

std::uint64_t Watches::offset_of(const EventCount& event) const noexcept {
  return static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(&event) - domain().base());
}

EventCount& Watches::event_at(std::uint64_t offset) const noexcept {
  return *reinterpret_cast<EventCount*>(domain().base() + offset);
}

// Events lie at multiples of 16; rows that hold them have sizes with few other factors than 2, so the bits are mixed
// (Knuth, The Art of Computer Programming, vol. 3, 6.4: multiplicative hashing).
Word& Watches::bucket_of(std::uint64_t event) const noexcept {
  const std::uint64_t mixed = (event >> 4) * 0x9e3779b97f4a7c15U;
  static_assert(kBuckets == 1U << 12);
  return watches_.header().buckets[mixed >> 52];
}

Result<std::uint32_t> Watches::claim_set() {
  if (!domain().attached()) return domain().not_attached();
  std::uint32_t claimed = 0;
  Status status = arena_.ledger().change_objects([&](Transaction& change) -> Status {
    Result<std::uint32_t> index = sets_.claim(change, "wait sets", [](SetRow&) { return Status(); });
    if (!index) return index.status();
    claimed = *index;
    (void)sets_.begin_generation(change, claimed);
    SetRow& row = sets_[claimed];
    change.set(row.owner, Holder::process(domain().self()).word);
    for (Word* const word : {&row.address, &row.armed, &row.undelivered, &row.spinner, &row.summary})
      change.set(*word, 0);
    return {};
  });
  if (!status) return status;
  // Late marks for a former owner are no harm, but a needless look.
  for (Word& marks : sets_[claimed].marks) marks.store(0, std::memory_order_relaxed);
  return claimed;
}

void Watches::release_set(std::uint32_t set) noexcept {
  (void)arena_.ledger().change_objects([&](Transaction& change) {
    change.set(sets_[set].address, 0);
    change.set(sets_[set].owner, 0);
    sets_.free(change, set);
    return Status();
  });
}

Result<std::uint32_t> Watches::add(EventCount& event, std::uint32_t set, std::uint32_t member) {
  if (!domain().attached()) return domain().not_attached();
  const std::uint64_t offset = offset_of(event);
  if (offset >= domain().header().control_bytes)
    return Status(Code::kInvalid, "this object is of another domain than the wait set");
  std::uint32_t added = 0;
  Status status = arena_.ledger().change_objects([&](Transaction& change) -> Status {
    Result<std::uint32_t> index = watches_.claim(change, "watches", [](WatchRow&) { return Status(); });
    if (!index) return index.status();
    added = *index;
    WatchRow& row = watches_[added];
    Word& bucket = bucket_of(offset);
    change.set(row.event, offset);
    change.set(row.target, target_word(set, member));
    change.set(row.link, load(bucket));
    (void)watches_.begin_generation(change, added);
    change.set(bucket, std::uint64_t{added} + 1);  // last: from here on it is found
    event.watch();
    return {};
  });
  if (!status) return status;
  sync::full_fence();
  return added;
}

// Ledger's lock held. The row leaves its list before anything else of it changes.
void Watches::unlink(Transaction& change, std::uint32_t index) {
  const std::uint64_t event = load(watches_[index].event);
  bool others = false;
  Word* found = nullptr;
  Word* link = &bucket_of(event);
  for (std::uint64_t at = load(*link); at != 0 && at <= watches_.capacity(); at = load(*link)) {
    if (at == std::uint64_t{index} + 1) {
      found = link;
    } else {
      others |= load(watches_[at - 1].event) == event;
    }
    link = &watches_[at - 1].link;
  }
  if (!others) event_at(event).unwatch();
  if (found != nullptr) change.set(*found, load(watches_[index].link));
  watches_.free(change, index);
}

void Watches::remove(std::uint32_t watch) noexcept {
  (void)arena_.ledger().change_objects([&](Transaction& change) {
    unlink(change, watch);
    return Status();
  });
}

void Watches::mark(std::uint32_t index, std::uint32_t member, bool again) noexcept {
  if (index >= sets_.used() || member >= kMembers) return;
  SetRow& set = sets_[index];
  Word& marks = set.marks[member / 64];
  const std::uint64_t bit = std::uint64_t{1} << (member % 64);
  const auto seen = [&](std::uint64_t word) { return (word & bit) != 0 && !again; };
  // The notifier has a fence between its change and this load, and the owner one between taking marks and looking.
  if (seen(marks.load(std::memory_order_relaxed)) || seen(marks.fetch_or(bit, std::memory_order_seq_cst)))
    return;
  set.summary.fetch_or(std::uint64_t{1} << (member / 64), std::memory_order_seq_cst);
  set.event.notify_after_unlock(1);
  if (load(set.address) != 0 && (set.armed.exchange(0, std::memory_order_seq_cst) != 0 || again))
    send_to(set);
}

void Watches::send_to(SetRow& set) noexcept {
  int sender = sender_.load(std::memory_order_acquire);
  // The descriptor may have been closed by other code of this process (close_range), and be another file by now.
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (sender >= 0 && os::send_byte_to(sender, load(set.address))) return;
    Result<os::Fd> fresh = os::open_byte_sender();
    if (!fresh) break;
    if (os::send_byte_to(fresh->get(), load(set.address))) {
      if (sender_.compare_exchange_strong(sender, fresh->get())) (void)fresh->release();
      return;
    }
    break;
  }
  set.undelivered.store(1, std::memory_order_release);
}

void Watches::deliver() noexcept {
  const std::uint64_t self = Holder::process(domain().self()).word;
  for (std::uint64_t index = 0; index < sets_.used(); ++index) {
    SetRow& set = sets_[index];
    if (!in_use(load(set.meta)) || load(set.owner) != self) continue;
    if (set.undelivered.exchange(0, std::memory_order_acq_rel) != 0) send_to(set);
  }
}

void Watches::tell(const EventCount& event) noexcept {
  const std::uint64_t offset = offset_of(event);
  Word& bucket = bucket_of(offset);
  while (!tell_once(offset, bucket)) {
  }
}

// False: a row was taken out of the list under this walk, which may therefore have left the list. Each time another
// thread got on, so this ends.
bool Watches::tell_once(std::uint64_t event, Word& bucket) noexcept {
  for (std::uint64_t at = load(bucket); at != 0 && at <= watches_.capacity();) {
    const WatchRow& row = watches_[at - 1];
    const std::uint64_t meta = load(row.meta);
    const std::uint64_t its_event = load(row.event);
    const std::uint64_t target = load(row.target);
    const std::uint64_t link = load(row.link);
    sync::load_fence();
    if (load(row.meta) != meta || !in_use(meta) || &bucket_of(its_event) != &bucket) return false;
    if (its_event == event) mark(set_in(target), member_in(target));
    at = link;
  }
  return true;
}

// A notifier that was killed may have made a condition true without telling the watches: all sets look again.
void Watches::mark_all() noexcept {
  for (std::uint64_t index = 0; index < watches_.used(); ++index) {
    const WatchRow& row = watches_[index];
    const std::uint64_t target = load(row.target);
    if (in_use(load(row.meta))) mark(set_in(target), member_in(target), true);
  }
}

bool Watches::reap(domain::SlotRef slot) {
  const std::uint64_t owner = Holder::process(slot).word;
  const auto belongs = [&](std::uint64_t set) {
    return set < sets_.used() && in_use(load(sets_[set].meta)) && load(sets_[set].owner) == owner;
  };
  const auto watches_for_it = [&](std::uint64_t index) {
    return in_use(load(watches_[index].meta)) && belongs(set_in(load(watches_[index].target)));
  };
  bool had_sets = false;
  for (std::uint64_t set = 0; set < sets_.used(); ++set) had_sets |= belongs(set);
  // What is still there afterwards is there because the ledger's lock could not be had.
  for (std::uint64_t index = 0; had_sets && index < watches_.used(); ++index) {
    if (!watches_for_it(index)) continue;
    remove(static_cast<std::uint32_t>(index));
    if (watches_for_it(index)) return false;
  }
  for (std::uint64_t set = 0; had_sets && set < sets_.used(); ++set) {
    if (!belongs(set)) continue;
    release_set(static_cast<std::uint32_t>(set));
    if (belongs(set)) return false;
  }
  mark_all();
  return true;
}

}  // namespace forklift::inline abi_0_1::watch
