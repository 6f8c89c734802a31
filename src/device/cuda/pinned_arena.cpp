#include "device/cuda/pinned_arena.h"

#include <algorithm>
#include <chrono>

#include "node/node.h"
#include "os/limits.h"

namespace forklift::inline abi_0_1::device::cuda {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr unsigned kLongestPause = 64;
constexpr std::chrono::seconds kPatience{2};  // with a copy that is under way
constexpr const char* kBudget = "FORKLIFT_PINNED_BUDGET";

std::uint64_t page_down(std::uint64_t offset) { return offset / kPage * kPage; }
std::uint64_t page_up(std::uint64_t offset) { return page_down(offset + kPage - 1); }

}  // namespace

// Never destroyed: the arena calls it as long as the process lives.
PinnedArena& PinnedArena::of_process() {
  static auto* const made = new PinnedArena;
  return *made;
}

Status PinnedArena::check_environment() { return os::bytes_in_environment(kBudget).status(); }

PinnedArena::Use::~Use() {
  if (registrations_.empty()) return;
  PinnedArena& all = of_process();
  if (all.place_.driver->is_forked()) return;  // a child's copy of it
  const std::lock_guard held(all.mutex_);
  for (Registration* const each : registrations_) {
    --each->uses;
    if (keeps_) --each->keeps;
  }
  all.idle_.notify_all();
}

// --- for a copy

Result<PinnedArena::Use> PinnedArena::begin(const MemoryPlace& place, const void* host, std::size_t bytes) {
  Use use;
  Lock lock(mutex_);
  std::uint64_t begin = 0;
  if (!attach(place) || !locate(host, bytes, &begin)) {
    use.pieces_.push_back({0, bytes});
    return use;
  }
  if (Status current = catch_up_locked(lock); !current) return current;
  const std::uint64_t end = begin + bytes;
  if (bytes >= kSmallest) pin(page_down(begin), page_up(end));
  for (std::uint64_t at = begin; at < end;) {
    const auto next = first_in(at);
    const bool inside = next != registrations_.end() && next->first <= at;
    std::uint64_t to = end;
    if (inside) {
      to = std::min(end, next->first + next->second.bytes);
      ++next->second.uses;
      next->second.last_use = ++clock_;
      use.registrations_.push_back(&next->second);
    } else if (next != registrations_.end()) {
      to = std::min(end, next->first);
    }
    use.pieces_.push_back({at - begin, to - at});
    at = to;
  }
  return use;
}

void PinnedArena::cover(const MemoryPlace& place, const void* memory, std::size_t bytes) {
  Lock lock(mutex_);
  std::uint64_t begin = 0;
  if (bytes < kSmallest || !attach(place) || !locate(memory, bytes, &begin) || !catch_up_locked(lock)) return;
  pin(page_down(begin), page_up(begin + bytes));
}

PinnedArena::Use PinnedArena::keep(const MemoryPlace& place, const void* memory, std::size_t bytes) {
  Use use;
  Lock lock(mutex_);
  std::uint64_t begin = 0;
  if (bytes == 0 || !attach(place) || !locate(memory, bytes, &begin) || !catch_up_locked(lock)) return use;
  // Blocks of half a page and less share their page with others, which would have to end with it.
  if (bytes <= kPage / 2 || begin % kPage != 0) return use;
  const std::uint64_t end = page_up(begin + bytes);
  auto at = first_in(begin);
  if (at == registrations_.end() || at->first != begin || begin + at->second.bytes != end) {
    for (; at != registrations_.end() && at->first < end; ++at) {
      if (at->second.uses != 0) return use;
    }
    pin_again(begin, end);
    at = registrations_.find(begin);
    if (at == registrations_.end()) return use;
  }
  ++at->second.uses;
  ++at->second.keeps;
  at->second.last_use = ++clock_;
  use.keeps_ = true;
  use.registrations_.push_back(&at->second);
  use.pieces_.push_back({0, bytes});
  return use;
}

void PinnedArena::release() {
  const std::lock_guard held(mutex_);
  for (auto each = registrations_.begin(); each != registrations_.end();) {
    const auto at = each++;
    if (at->second.uses == 0) (void)drop(at);
  }
}

PinnedArena::Stats PinnedArena::stats() {
  const std::lock_guard held(mutex_);
  stats_.ranges = registrations_.size();
  return stats_;
}

// The arena of the process's own domain, from the first copy on. What lies in another one, such as a fork server's that a
// child has set aside, is copied pageable.
bool PinnedArena::attach(const MemoryPlace& place) {
  if (arena_ != nullptr) return true;
  const node::Node* const node = node::Node::existing();
  if (node == nullptr || !node->domain().attached()) return false;
  arena_ = &node->arena();
  place_ = place;
  default_budget_ = os::available_memory() / 4;
  seen_.store(arena_->punch_log().count(), std::memory_order_relaxed);
  arena_->watch_punches(this);
  return true;
}

bool PinnedArena::locate(const void* host, std::size_t bytes, std::uint64_t* offset) const {
  const std::span<std::byte> half = arena_->share_half();
  const auto at = reinterpret_cast<std::uintptr_t>(host) - reinterpret_cast<std::uintptr_t>(half.data());
  if (at >= half.size() || bytes > half.size() - at) return false;
  *offset = at;
  return true;
}

// The first registration that ends behind `begin`.
PinnedArena::Registrations::iterator PinnedArena::first_in(std::uint64_t begin) {
  auto next = registrations_.upper_bound(begin);
  if (next == registrations_.begin()) return next;
  const auto before = std::prev(next);
  return before->first + before->second.bytes > begin ? before : next;
}

// --- registering

// Registers a range, if that can be done now. What is registered of it already becomes a part of the new registration.
void PinnedArena::pin(std::uint64_t begin, std::uint64_t end) {
  std::uint64_t low = begin;
  std::uint64_t high = end;
  for (auto each = first_in(begin); each != registrations_.end() && each->first < end; ++each) {
    const std::uint64_t to = each->first + each->second.bytes;
    if (each->first <= begin && to >= end) return;  // all of it
    if (each->second.uses != 0) return;             // its users need it as it is
    low = std::min(low, each->first);
    high = std::max(high, to);
  }
  if (left_out_ < pause_) {
    ++left_out_;
    return;
  }
  pin_again(low, high);
}

void PinnedArena::pin_again(std::uint64_t begin, std::uint64_t end) {
  for (auto each = first_in(begin); each != registrations_.end() && each->first < end;) {
    const auto at = each++;
    if (!drop(at)) return;
  }
  if (!make_room(end - begin)) return;
  const bool added = add(begin, end - begin);
  left_out_ = 0;
  pause_ = added ? 0 : std::min(pause_ * 2 + 1, kLongestPause);
}

// Within the budget, at the cost of what was used longest ago.
bool PinnedArena::make_room(std::uint64_t bytes) {
  const Result<std::uint64_t> set = os::bytes_in_environment(kBudget);
  const std::uint64_t budget = set && *set != UINT64_MAX ? *set : default_budget_;
  if (bytes > budget) return false;
  while (stats_.bytes > budget - bytes) {
    auto oldest = registrations_.end();
    for (auto each = registrations_.begin(); each != registrations_.end(); ++each) {
      if (each->second.uses == 0 &&
          (oldest == registrations_.end() || each->second.last_use < oldest->second.last_use))
        oldest = each;
    }
    if (oldest == registrations_.end() || !drop(oldest)) return false;
    ++stats_.evicted;
  }
  return true;
}

bool PinnedArena::add(std::uint64_t begin, std::uint64_t bytes) {
  const Driver& driver = *place_.driver;
  const Status status = driver.call("cuMemHostRegister", driver.functions().mem_host_register,
                                    static_cast<void*>(arena_->share_half().data() + begin),
                                    static_cast<std::size_t>(bytes), kHostRegisterPortable);
  if (!status) {
    ++stats_.failed;
    return false;
  }
  registrations_[begin] = Registration{.bytes = bytes, .last_use = ++clock_};
  stats_.bytes += bytes;
  ++stats_.registered;
  return true;
}

Status PinnedArena::unregister(std::uint64_t begin) const {
  const Driver& driver = *place_.driver;
  const Current current(driver, place_.context);
  if (!current.status()) return current.status();
  return driver.call("cuMemHostUnregister", driver.functions().mem_host_unregister,
                     static_cast<void*>(arena_->share_half().data() + begin));
}

// On failure the registration stays, as it does in the driver.
Status PinnedArena::drop(Registrations::iterator at) {
  if (Status status = unregister(at->first); !status) return status;
  stats_.bytes -= at->second.bytes;
  registrations_.erase(at);
  return {};
}

// --- punches

// Nobody uses what is punched, but perhaps something else that is registered with it. kStalled: for two seconds.
Status PinnedArena::drop_within(std::uint64_t begin, std::uint64_t end, Lock& lock) {
  Status status;
  for (auto each = first_in(begin); each != registrations_.end() && each->first < end;
       each = first_in(begin)) {
    each->second.stale = any_stale_ = true;
    const std::uint64_t at = each->first;
    // The registration may be ended by another thread while this one waits.
    const bool idle = idle_.wait_for(lock, kPatience, [&] {
      const auto still = registrations_.find(at);
      return still == registrations_.end() || still->second.uses == 0;
    });
    each = registrations_.find(at);
    if (each == registrations_.end()) continue;
    const std::uint64_t behind = at + each->second.bytes;
    Status dropped = idle ? drop(each) : Status(Code::kStalled, "a copy to or from a GPU does not end");
    if (dropped) {
      ++stats_.punched;
    } else {
      status = std::move(dropped);
      begin = behind;
    }
  }
  return status;
}

// If a registration cannot be ended, the pages stay. It is as good as before, but the log says that the range was punched, so
// catch_up_locked() tries again.
bool PinnedArena::before_punch(std::uint64_t offset, std::uint64_t bytes) noexcept {
  Lock lock(mutex_);
  if (place_.driver->is_forked()) return true;  // a child without fork's hooks
  return drop_within(offset, offset + bytes, lock).ok();
}

void PinnedArena::catch_up() noexcept {
  if (arena_->punch_log().count() == seen_.load(std::memory_order_acquire)) return;
  Lock lock(mutex_);
  if (!place_.driver->is_forked()) (void)catch_up_locked(lock);
}

// Ends the registrations whose pages were punched. An error: one that cannot be ended, which makes every copy doubtful.
Status PinnedArena::catch_up_locked(Lock& lock) {
  const arena::PunchLog log = arena_->punch_log();
  std::uint64_t seen = seen_.load(std::memory_order_relaxed);
  if (log.count() != seen) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> punched;
    const bool complete = log.since(
        seen, [&](std::uint64_t offset, std::uint64_t bytes) { punched.emplace_back(offset, bytes); });
    for (const auto& [offset, bytes] : punched) mark_stale(offset, offset + bytes);
    if (!complete) mark_stale(0, arena_->share_half().size());
  }
  Status dropped = drop_stale(lock);
  // Not before that: a thread that finds nothing new relies on it.
  if (dropped) seen_.store(std::max(seen, seen_.load(std::memory_order_relaxed)), std::memory_order_release);
  return dropped;
}

// What is kept is not stale: its keeper has a lease on all of it.
void PinnedArena::mark_stale(std::uint64_t begin, std::uint64_t end) {
  for (auto each = first_in(begin); each != registrations_.end() && each->first < end; ++each) {
    if (each->second.keeps == 0) each->second.stale = any_stale_ = true;
  }
}

Status PinnedArena::drop_stale(Lock& lock) {
  while (any_stale_) {
    const auto stale = std::find_if(registrations_.begin(), registrations_.end(),
                                    [](const auto& each) { return each.second.stale; });
    any_stale_ = stale != registrations_.end();
    if (!any_stale_) break;
    if (Status dropped = drop_within(stale->first, stale->first + 1, lock); !dropped) return dropped;
  }
  return {};
}

}  // namespace forklift::inline abi_0_1::device::cuda
