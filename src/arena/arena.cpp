#include "arena/arena.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/event_log.h"
#include "os/clock.h"

namespace forklift::inline abi_0_1::arena {

namespace {
// Below this the page faults of first touches cost less than the calls that avoid them.
constexpr std::uint64_t kPopulateFrom = 64 * 1024;

// Once a second at most: who waits for memory asks again and again.
void log_budget(const domain::Domain& domain, std::size_t bytes, const Status& status) {
  constexpr std::int64_t kApartNs = 1'000'000'000;
  static std::atomic<std::int64_t> last{0};
  const std::int64_t now = os::now_ns();
  std::int64_t before = last.load(std::memory_order_relaxed);
  if (before != 0 && now - before < kApartNs) return;
  if (!last.compare_exchange_strong(before, now)) return;
  EventLine("budget-reached")("domain", std::to_string(domain.header().domain_id))(
      "asked", static_cast<std::int64_t>(bytes))("what", status.what())
      .write();
}
}  // namespace

Status Arena::lay_out(domain::Domain& domain) {
  if (Status status = Ledger::lay_out(domain); !status) return status;
  return Depots::lay_out(domain);
}

Arena::Arena(domain::Domain& domain)
    : domain_(domain),
      ledger_(
          domain,
          [this](std::uint64_t offset, std::uint64_t bytes) {
            PunchWatcher* const watcher = watcher_.load(std::memory_order_acquire);
            return watcher == nullptr || watcher->before_punch(offset, bytes);
          },
          [this](std::uint32_t block) {
            const std::lock_guard<sync::SpinLock> lock(mutex_);
            resident_.forget(block);
          }),
      pages_(domain),
      prefault_(ledger_, pages_),
      cache_(ledger_, mutex_),
      views_(domain.data_file(), ledger_.rows().half(), ledger_.rows().half()) {}

Result<std::unique_ptr<Arena>> Arena::open(domain::Domain& domain) {
  std::unique_ptr<Arena> arena(new Arena(domain));
  Result<os::Mapping> data = os::Mapping::shared(domain.data_file(), 0, domain.data_bytes());
  if (!data) return data.status();
  arena->data_ = *std::move(data);
  Arena* self = arena.get();
  domain.on_reap(
      [self](domain::SlotRef slot, bool) { return self->ledger_.release_held_by(Holder::process(slot)); });
  domain.on_attach([self] { self->forget_leases(); });
  domain.on_check([self] {
    self->notice_punches();
    self->prefault_.resume();
  });
  arena->fork_ = std::make_unique<domain::ForkRegistration>(
      domain, domain::ForkHooks{[self](const domain::SlotRef* child) { self->before_fork(child); },
                                [self] { self->after_fork_in_parent(); },
                                [self](bool attached) { self->after_fork_in_child(attached); }});
  return arena;
}

Arena::~Arena() = default;

// --- blocks

Result<LeasePtr> Arena::allocate(Kind kind, std::size_t bytes, bool zeroed, int node) {
  if (!domain_.attached()) return domain_.not_attached();
  if (bytes == 0) return Status(Code::kInvalid, "a block of 0 bytes");
  LeasePtr lease = Lease::make_blank();
  const unsigned size_class = class_for(kind, bytes);
  Grant got;
  bool found = false;
  bool unmapped = false;
  {
    const std::lock_guard<sync::SpinLock> lock(mutex_);
    found = cache_.take(kind, size_class, bytes, got);
    if (found) unmapped = enter_block(*lease, kind, bytes, got);
  }
  if (!found) {
    if (!cache_.refill(kind, size_class, bytes, got)) {
      if (Status status = grant(kind, bytes, got); !status) return status;
    }
    const std::lock_guard<sync::SpinLock> lock(mutex_);
    unmapped = enter_block(*lease, kind, bytes, got);
  }
  notice_punches();
  if (bytes >= kPopulateFrom && (unmapped || got.fresh_to > got.fresh_from)) populate(*lease, got, node);
  if (zeroed) {
    // Pages that never existed, or were punched, read as zero already.
    std::memset(lease->data_, 0,
                std::min<std::uint64_t>(bytes, got.fresh_to > got.fresh_from ? got.fresh_from : bytes));
  }
  domain_.tracer().moment(trace::Category::kMemory, trace::EventKind::kAllocated, got.block, bytes);
  return lease;
}

// Private lock held. True: its pages are not in this process's page table, as far as known.
bool Arena::enter_block(Lease& lease, Kind kind, std::size_t bytes, const Grant& got) {
  const auto row = static_cast<std::uint32_t>(got.row);
  const auto block = static_cast<std::uint32_t>(got.block);
  lease.arena_ = this;
  lease.object_ = {ObjectKind::kBlock, block};
  lease.row_.store(row, std::memory_order_relaxed);
  lease.kind_ = kind;
  lease.size_ = bytes;
  lease.data_ = data_.data() + got.offset;
  lease.handle_ = {0, block, static_cast<std::uint32_t>(got.generation), row, got.offset, bytes};
  leases_.add(lease);
  return bytes >= kPopulateFrom && resident_.misses(block, bytes);
}

// To make pages exist and then to map them is cheaper than both at once.
void Arena::populate(const Lease& lease, const Grant& got, int node) const {
  pages_.make_exist(got.offset + got.fresh_from, got.offset + got.fresh_to, node);
  os::populate_write(lease.data_, lease.size_);
}

Status Arena::grant(Kind kind, std::size_t bytes, Grant& got) {
  prefault_.resume();
  for (int attempt = 0;; ++attempt) {
    Shortage shortage;
    Status status = ledger_.grant(kind, bytes, got, shortage);
    if (status) return status;
    if (make_room(shortage, attempt)) continue;
    if (status.code() == Code::kOverBudget) {
      domain_.tracer().moment(trace::Category::kLife, trace::EventKind::kOverBudget, bytes, 0);
      if (event_log_on()) log_budget(domain_, bytes, status);
    }
    return status;
  }
}

// Is another attempt worth while?
bool Arena::make_room(const Shortage& shortage, int attempt) {
  if (shortage.of_space) {
    // Cached blocks may be what lies between free buddies, and then what the dead still hold.
    if (attempt == 0) cache_.clear();
    return attempt == 0 || (attempt == 1 && domain_.reap() > 0);
  }
  return shortage.bytes != 0 && attempt < 8 && relieve(shortage.bytes);
}

// --- sending and receiving blocks

void Arena::give(Lease& lease, Holder message) noexcept {
  const std::uint32_t row = lease.row_;
  if (row == Lease::kNoRow) return;  // another thread has just passed it on; the receiver's check will fail
  ledger_.pass(row, message);
  lease.row_ = Lease::kNoRow;
}

LeasePtr Arena::materialise(const Handle& handle) {
  if (handle.segment != kDataSegment) return materialise_unopened(handle);
  LeasePtr lease = make_lease({ObjectKind::kBlock, handle.block}, handle.lease);
  const BlockRow& block = ledger_.rows().block(handle.block);
  lease->kind_ = BlockMeta::unpack(block.meta.load(std::memory_order_relaxed)).kind;
  lease->size_ = handle.length;
  lease->handle_ = handle;
  lease->data_ = shared_data(handle);
  bool unmapped = false;
  {
    const std::lock_guard<sync::SpinLock> lock(mutex_);
    leases_.add(*lease);
    unmapped = lease->kind_ == Kind::kShare && handle.length >= kPopulateFrom &&
               resident_.misses(handle.block, handle.length);
  }
  notice_punches();
  // The pages exist: a read maps sixteen at a time, for writing as well.
  if (unmapped) os::populate_read(lease->data_, handle.length);
  return lease;
}

Result<os::Overlay> Arena::overlay(const Lease& lease, std::size_t begin, void* range,
                                   std::size_t bytes) const {
  return os::Overlay::over(range, bytes, domain_.data_file(), lease.handle_.offset + begin);
}

LeasePtr Arena::materialise_unopened(const Handle& handle) {
  LeasePtr lease = make_lease(object_of(handle), handle.lease);
  lease->size_ = handle.length;
  lease->handle_ = handle;
  const std::lock_guard<sync::SpinLock> lock(mutex_);
  leases_.add(*lease);
  return lease;
}

Status Arena::privatise(Lease& lease) {
  if (lease.kind_ != Kind::kPrivate || lease.view_) return {};
  bool populate = false;
  {
    const std::lock_guard<sync::SpinLock> lock(mutex_);
    Result<View*> view = views_.current();
    if (!view) return view.status();
    lease.view_ = *view;
    ++(*view)->live;
    lease.data_ = views_.address(**view, lease.handle_.offset);
    populate = lease.size_ >= kPopulateFrom &&
               ((*view)->is_private || (*view)->resident.misses(lease.handle_.block, lease.size_));
  }
  if (populate) os::populate_read(lease.data_, lease.size_);
  return {};
}

Result<LeasePtr> Arena::share(const Handle& handle, Holder message) {
  if (!domain_.attached()) return domain_.not_attached();
  Result<std::uint32_t> row = ledger_.share_row(handle, message);
  if (!row) return row.status();
  Handle mine = handle;
  mine.lease = *row;
  return materialise(mine);
}

Result<Handle> Arena::offer(const LeasePtr& lease, domain::SlotRef child) {
  if (!domain_.attached()) return domain_.not_attached();
  if (!lease->held()) return Status(Code::kInvalid, "the lease was passed on already");
  if (Status status = check_child(); !status) return status;
  Result<std::uint32_t> row = ledger_.add_row(lease->object_, Holder::process(child), true);
  if (!row) return row.status();
  const std::lock_guard<sync::SpinLock> lock(mutex_);
  Handle handle = lease->handle_;
  handle.lease = *row;
  return handle;
}

Result<LeasePtr> Arena::claim(const Handle& handle) {
  if (!domain_.attached()) return domain_.not_attached();
  if (Status status = ledger_.check(handle, Holder::process(domain_.self())); !status) return status;
  Result<bool> mine = ledger_.accept_row(handle.lease, object_of(handle));
  if (!mine) return mine.status();
  if (!*mine) return Status(Code::kInvalid, "memory that was offered once was claimed twice");
  return materialise(handle);
}

// --- named segments

void Arena::describe(Lease& lease, const Handle& says) noexcept {
  lease.size_ = says.length;
  lease.handle_ = says;
  lease.handle_.block = lease.object_.index;
  lease.handle_.lease = lease.row_.load();
}

Status Arena::open_memory(Lease& lease) {
  if (lease.data_ != nullptr || lease.object_.kind != ObjectKind::kSegment) return {};
  if (!open_segment_) return {Code::kUnsupported, "this process cannot open named segments"};
  return open_segment_(lease);
}

void Arena::set_memory(Lease& lease, std::byte* data, std::shared_ptr<const void> mapping) noexcept {
  lease.data_ = data;
  lease.mapping_ = std::move(mapping);
}

// --- objects of other rooms

Result<LeasePtr> Arena::hold_new(Object object, const Ledger::Fill& fill) {
  if (!domain_.attached()) return domain_.not_attached();
  Result<std::uint32_t> row = ledger_.add_new(object, fill);
  if (!row) return row.status();
  return make_listed(object, *row);
}

Result<LeasePtr> Arena::hold(Object object) {
  if (!domain_.attached()) return domain_.not_attached();
  Result<std::uint32_t> row = ledger_.add_row(object, Holder::process(domain_.self()));
  if (!row) return row.status();
  return make_listed(object, *row);
}

Result<LeasePtr> Arena::take_over(Holder holder, const Ledger::ChooseRow& choose) {
  if (!domain_.attached()) return domain_.not_attached();
  const Result<std::pair<std::uint32_t, Object>> taken = ledger_.take_over(holder, choose);
  if (!taken) return taken.status();
  return make_listed(taken->second, taken->first);
}

// Only an offered row: each other one has a Lease object, which another thread may just be making or giving
// up.
Result<LeasePtr> Arena::claim_row_for_self(Object object) {
  for (const auto& [row, held] : ledger_.rows_of(Holder::process(domain_.self()), object.kind)) {
    if (held.index != object.index || ledger_.rows().lease(row).offered.load(std::memory_order_relaxed) == 0)
      continue;
    Result<bool> mine = ledger_.accept_row(row, object);
    if (!mine) return mine.status();
    if (*mine) return make_listed(object, row);
  }
  return Status(Code::kInvalid, "this process was handed no right to object " + std::to_string(object.index));
}

Status Arena::check_child() const {
  if (!domain_.is_set_aside()) return {};
  return {Code::kInvalid, "a started process is in the home domain of this one only, and this object is of " +
                              domain_.described() +
                              ": fork the process, or let it attach to that domain by its name (what a "
                              "module that the fork server has "
                              "preloaded made cannot be an argument of processes at all)"};
}

// --- fork

void Arena::before_fork(const domain::SlotRef* child) {
  prefault_.before_fork();
  mutex_.lock();
  leases_.for_each([](Lease& lease) { lease.child_row_ = Lease::kNoRow; });
  if (child) enter_child(*child);
  isolate_received();
}

// Gives the child a row beside each of this process's. Leases that share a row share the child's, too.
void Arena::enter_child(domain::SlotRef child) {
  bool stuck = false;
  leases_.for_each([&](Lease& lease) {
    if (stuck || !lease.held() || lease.child_row_ != Lease::kNoRow) return;
    const Result<std::uint32_t> row = ledger_.add_row(lease.object_, Holder::process(child));
    if (row) {
      lease.child_row_ = *row;
      LeaseList::for_each_sharer(lease, [&](Lease& other) { other.child_row_ = *row; });
    }
    stuck = row.code() == Code::kStalled;  // waiting seconds for each of many leases would not help
  });
}

// Received payloads become copy-on-write, so that the child does not see what this process writes.
void Arena::isolate_received() {
  std::uint64_t low = ~std::uint64_t{0};
  std::uint64_t high = 0;
  const std::uint64_t mask = os::page_size() - 1;
  leases_.for_each([&](const Lease& lease) {
    if (!lease.view_ || lease.view_ != views_.open_view()) return;
    low = std::min(low, lease.handle_.offset);
    high = std::max(high, (lease.handle_.offset + lease.size_ + mask) & ~mask);
  });
  if (low >= high || views_.isolate(low, high)) return;
  // Without address space or commit charge for a private mapping (vm.overcommit_memory=2) the child would see
  // the parent's writes. Nothing here can stop the fork, so the standard error says it.
  static constexpr char kWarning[] =
      "forklift: fork without isolation: no private mapping for received arrays could be made; "
      "parent and child share their pages\n";
  (void)!::write(STDERR_FILENO, kWarning, sizeof kWarning - 1);
}

void Arena::after_fork_in_parent() {
  mutex_.unlock();
  prefault_.after_fork(false);
}

void Arena::after_fork_in_child(bool attached) {
  leases_.for_each([&](Lease& lease) {
    lease.row_.store(attached && lease.held() ? lease.child_row_ : Lease::kNoRow);
    lease.handle_.lease = lease.row_.load();
  });
  watcher_.store(nullptr, std::memory_order_release);  // what it keeps is the parent's
  cache_.forget();
  views_.forget_residency();
  resident_.forget();
  mutex_.unlock();
  prefault_.after_fork(true);
}

// In a process that was made without fork's hooks (raw clone): the rows are its parent's.
void Arena::forget_leases() {
  const std::lock_guard<sync::SpinLock> lock(mutex_);
  leases_.for_each([](Lease& lease) { lease.row_ = Lease::kNoRow; });
  cache_.forget();
}

}  // namespace forklift::inline abi_0_1::arena
