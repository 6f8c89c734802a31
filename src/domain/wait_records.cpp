#include "domain/wait_records.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "domain/waiting.h"
#include "os/call_site.h"
#include "os/thread.h"
#include "sync/thread_rows.h"

namespace forklift::inline abi_0_1::domain {

namespace {

constexpr unsigned kKindShift = 56, kCountShift = 48;
constexpr std::uint64_t kValueMask = (std::uint64_t{1} << kCountShift) - 1;

std::uint64_t process_word(SlotRef slot) noexcept { return sync::owner_process(slot.index, slot.generation); }

std::uint64_t what_word(WaitKind kind, std::size_t count, std::uint64_t value) noexcept {
  return std::uint64_t{static_cast<std::uint8_t>(kind)} << kKindShift |
         std::uint64_t{std::min<std::size_t>(count, 255)} << kCountShift | (value & kValueMask);
}

struct Rows {
  explicit Rows(const Domain& domain) noexcept
      : table(*reinterpret_cast<WaitTable*>(domain.region(Region::kWaits).data())),
        first(reinterpret_cast<WaitRow*>(&table + 1)),
        capacity(wait_rows_in(domain.region(Region::kWaits).size())) {}
  std::span<WaitRow> used() const noexcept {
    return {first, std::min(table.rows_used.load(std::memory_order_acquire), capacity)};
  }

  WaitTable& table;
  WaitRow* first;
  std::uint64_t capacity;
};

// The offset of something in the control segment; 0: it lies elsewhere.
std::uint64_t offset_of(const Domain& domain, const void* place) noexcept {
  const auto* const at = static_cast<const std::byte*>(place);
  if (at < domain.base() || at >= domain.base() + domain.header().control_bytes) return 0;
  return static_cast<std::uint64_t>(at - domain.base());
}

// The row that this thread has in the domain in which it slept last. A forked child sees another owner and takes a row
// of its own; a thread that alternates between domains finds its row by probing.
struct OwnRow {
  std::uint64_t domain_id = 0;
  std::uint64_t owner = 0;
  WaitRow* row = nullptr;
  // Of a wait whose last slice has ended; 0: there is none.
  std::uint64_t what = 0;
  std::uint64_t since = 0;
};
thread_local OwnRow own_row;

// Once in a thread's life. A row that was another thread's may say what that one waited for.
WaitRow* claim_row(const Domain& domain, std::uint64_t owner) noexcept {
  const Rows rows(domain);
  WaitRow* const row =
      sync::claim_thread_row(std::span(rows.first, rows.capacity), rows.table.rows_used, owner);
  if (row != nullptr) row->what.store(0, std::memory_order_relaxed);
  return row;
}

WaitRow* row_here(Domain& domain) noexcept {
  if (!domain.attached()) return nullptr;
  const std::uint64_t owner = process_word(domain.self()) | os::thread_id();
  const std::uint64_t id = domain.header().domain_id;
  // A thread that got none because the table is full does without for good: looking again takes longer than a sleep.
  if (own_row.owner != owner || own_row.domain_id != id)
    own_row = {id, owner, claim_row(domain, owner), 0, 0};
  return own_row.row;
}

void write_call_site(WaitRow& row, std::string_view text, std::uint64_t since) noexcept {
  char bytes[kCallSiteBytes] = {};
  text = text.substr(0, sizeof bytes - 1);
  std::copy(text.begin(), text.end(), bytes);
  row.described.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (std::size_t i = 0; i < std::size(row.call_site); ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + i * sizeof word, sizeof word);
    row.call_site[i].store(word, std::memory_order_relaxed);
  }
  row.described.store(since, std::memory_order_release);
}

std::string read_call_site(const WaitRow& row, std::uint64_t since) {
  if (row.described.load(std::memory_order_acquire) != since) return {};
  char bytes[kCallSiteBytes];
  for (std::size_t i = 0; i < std::size(row.call_site); ++i) {
    const std::uint64_t word = row.call_site[i].load(std::memory_order_relaxed);
    std::memcpy(bytes + i * sizeof word, &word, sizeof word);
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  if (row.described.load(std::memory_order_relaxed) != since) return {};
  return {bytes, ::strnlen(bytes, sizeof bytes)};
}

}  // namespace

WaitRecord::WaitRecord(Domain& domain, const void* event, WaitKind kind, os::Deadline until) noexcept {
  const std::uint64_t offset = offset_of(domain, event);
  if (offset != 0) kind = WaitKind::kEvent;
  if (kind == WaitKind::kEvent && offset == 0) return;
  enter(domain, what_word(kind, 1, offset), {}, until);
}

WaitRecord::WaitRecord(Domain& domain, std::span<const sync::EventCount* const> events,
                       os::Deadline until) noexcept {
  std::array<std::uint64_t, kWaitEvents> offsets{};
  std::size_t kept = 0;
  for (const sync::EventCount* event : events) {
    const std::uint64_t offset = offset_of(domain, event);
    if (offset != 0 && kept < offsets.size()) offsets[kept++] = offset;
  }
  if (kept == 0) return;
  enter(domain, what_word(WaitKind::kSeveral, events.size(), offsets[0]), {offsets.data() + 1, kept - 1},
        until);
}

WaitRecord::WaitRecord(Domain& domain, pid_t process, os::Deadline until) noexcept {
  enter(domain, what_word(WaitKind::kProcess, 1, static_cast<std::uint64_t>(process)), {}, until);
}

void WaitRecord::enter(Domain& domain, std::uint64_t what, std::span<const std::uint64_t> more,
                       os::Deadline until) noexcept {
  traced_ = domain.tracer().begin(trace::Category::kWaits);
  what_ = what;
  domain_ = &domain;
  row_ = row_here(domain);
  if (row_ == nullptr) return;
  const bool same_wait = own_row.what == what;
  own_row.what = 0;
  row_->since.store(same_wait ? own_row.since : static_cast<std::uint64_t>(os::now_ns()),
                    std::memory_order_relaxed);
  row_->until.store(static_cast<std::uint64_t>(until.when_ns()), std::memory_order_relaxed);
  if (static_cast<WaitKind>(what >> kKindShift) == WaitKind::kSeveral) {
    for (std::size_t i = 0; i < std::size(row_->more); ++i)
      row_->more[i].store(i < more.size() ? more[i] : 0, std::memory_order_relaxed);
  }
  row_->what.store(what, std::memory_order_release);
}

void WaitRecord::trace() const noexcept {
  const auto kind = static_cast<WaitKind>(what_ >> kKindShift);
  domain_->tracer().span(trace::EventKind::kWait, traced_, what_ & kValueMask,
                         traced_wait(kind, WaitManner::kSleep));
}

void trace_wait(Domain& domain, const void* event, WaitKind kind, WaitManner manner,
                std::int64_t began) noexcept {
  const std::uint64_t offset = offset_of(domain, event);
  domain.tracer().span(trace::EventKind::kWait, began, offset,
                       traced_wait(offset != 0 ? WaitKind::kEvent : kind, manner));
}

void WaitRecord::goes_on(WaitHooks* hooks) const noexcept {
  if (row_ == nullptr) return;
  const std::uint64_t since = row_->since.load(std::memory_order_relaxed);
  own_row.what = row_->what.load(std::memory_order_relaxed);
  own_row.since = since;
  if (row_->described.load(std::memory_order_relaxed) == since) return;
  if (os::now_ns() - static_cast<std::int64_t>(since) < kDescribedAfterNs) return;
  try {
    write_call_site(*row_, hooks != nullptr ? hooks->call_site() : own_call_site(), since);
  } catch (...) {
    // No memory: the wait stays without its place.
  }
}

void WaitRecord::describe(std::string_view call_site) const noexcept {
  if (row_ != nullptr) write_call_site(*row_, call_site, row_->since.load(std::memory_order_relaxed));
}

std::string own_call_site() {
  const CallSiteHook hook = call_site_hook.load(std::memory_order_relaxed);
  return hook != nullptr ? hook() : os::call_site();
}

std::vector<Waiting> read_waits(std::span<const std::byte> region) {
  std::vector<Waiting> all;
  const auto& table = *reinterpret_cast<const WaitTable*>(region.data());
  const std::span<const WaitRow> rows{
      reinterpret_cast<const WaitRow*>(&table + 1),
      std::min(table.rows_used.load(std::memory_order_acquire), wait_rows_in(region.size()))};
  for (const WaitRow& row : rows) {
    const std::uint64_t what = row.what.load(std::memory_order_acquire);
    if (what == 0) continue;
    const std::uint64_t owner = row.owner.load(std::memory_order_relaxed);
    const std::uint64_t since = row.since.load(std::memory_order_relaxed);
    Waiting waiting;
    waiting.kind = static_cast<WaitKind>(what >> kKindShift);
    waiting.count = static_cast<std::uint32_t>(what >> kCountShift) & 0xff;
    if ((what & kValueMask) != 0) waiting.values.push_back(what & kValueMask);
    if (waiting.kind == WaitKind::kSeveral) {
      for (const sync::Word& each : row.more) {
        if (const std::uint64_t offset = each.load(std::memory_order_relaxed); offset != 0)
          waiting.values.push_back(offset);
      }
    }
    waiting.until_ns = static_cast<std::int64_t>(row.until.load(std::memory_order_relaxed));
    waiting.call_site = read_call_site(row, since);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (owner == 0 || row.what.load(std::memory_order_relaxed) != what ||
        row.since.load(std::memory_order_relaxed) != since ||
        row.owner.load(std::memory_order_relaxed) != owner)
      continue;
    waiting.slot = {sync::owner_slot(owner), sync::owner_generation(owner)};
    waiting.thread = sync::owner_thread(owner);
    waiting.since_ns = static_cast<std::int64_t>(since);
    all.push_back(std::move(waiting));
  }
  return all;
}

void drop_waits(const Domain& domain, SlotRef slot) noexcept {
  for (WaitRow& row : Rows(domain).used()) {
    const std::uint64_t owner = row.owner.load(std::memory_order_relaxed);
    if (owner == 0 || (owner & ~sync::kOwnerThreadMask) != process_word(slot)) continue;
    row.what.store(0, std::memory_order_relaxed);
    row.owner.store(0, std::memory_order_release);
  }
}

}  // namespace forklift::inline abi_0_1::domain
