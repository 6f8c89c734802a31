// Slots: claiming, the proof of life, reaping. The state machine is in domain/layout.h.
#include <cstddef>

#include <string.h>
#include <unistd.h>

#include <cstring>

#include "base/event_log.h"
#include "domain/domain.h"
#include "domain/wait_records.h"
#include "os/clock.h"
#include "os/ofd_lock.h"
#include "os/proc.h"

namespace forklift::inline abi_0_1::domain {

namespace {

constexpr std::uint64_t kCleanBit = 1U << 8;

std::uint64_t state_word(SlotState state, std::uint32_t generation) {
  return (std::uint64_t{generation} << 32) | static_cast<std::uint64_t>(state);
}
SlotState state_of(std::uint64_t word) { return static_cast<SlotState>(word & 0xff); }
std::uint32_t generation_of(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }

// The locked bytes of slots lie behind the header in the control file; for the kernel only their offsets
// matter.
std::uint64_t lock_byte(std::uint32_t index) { return 4096 + std::uint64_t{index}; }

}  // namespace

Slot* Domain::slots() const noexcept { return reinterpret_cast<Slot*>(region(Region::kSlots).data()); }

Result<ChildSlot> Domain::claim_slot() {
  if (control_inode_ != 0 && !descriptors_intact()) {
    return Status(Code::kNotAttached, "Forklift's descriptors were closed by this process (close_range?)");
  }
  Result<os::Fd> fresh = control_file_.reopen();
  if (!fresh) return fresh.status();
  for (int attempt = 0; attempt < 2; ++attempt) {
    for (std::uint32_t index = 0; index < kSlotCount; ++index) {
      Slot& slot = slots()[index];
      std::uint64_t seen = slot.state.load(std::memory_order_acquire);
      if (state_of(seen) != SlotState::kFree) continue;
      const Result<bool> mine = os::try_lock_byte(*fresh, lock_byte(index));
      if (!mine) return mine.status();
      if (!*mine) continue;
      // Grow the used range before the state changes, so that no claimed slot lies outside the range that
      // reapers scan.
      std::uint64_t used = header().slots_used.load(std::memory_order_relaxed);
      while (used < index + 1 && !header().slots_used.compare_exchange_weak(used, index + 1)) {
      }
      const std::uint32_t generation = generation_of(seen);
      slot.pid.store(0, std::memory_order_relaxed);
      slot.service.store(0, std::memory_order_relaxed);
      for (sync::Word& word : slot.name) word.store(0, std::memory_order_relaxed);
      // The lock keeps other claimers away; only a reaper of the last generation could still store the state.
      if (slot.state.compare_exchange_strong(seen, state_word(SlotState::kNascent, generation))) {
        return ChildSlot{{index, generation}, *std::move(fresh)};
      }
      fresh = control_file_.reopen();  // closing the description is the surest way to drop its locks
      if (!fresh) return fresh.status();
    }
    if (attempt == 0 && reap() == 0) break;
  }
  return Status(Code::kNoSpace, "all " + std::to_string(kSlotCount) + " slots of the domain are taken");
}

Result<ChildSlot> Domain::reserve_child() {
  if (!attached()) return not_attached();
  return claim_slot();
}

bool Domain::is_reserved(SlotRef ref) const noexcept {
  return ref.index < kSlotCount && slots()[ref.index].state.load(std::memory_order_acquire) ==
                                       state_word(SlotState::kNascent, ref.generation);
}

void Domain::adopt(ChildSlot child) noexcept {
  disown_foreign_descriptors();
  slot_lock_ = std::move(child.lock);  // in a forked child this closes the copy of the parent's
  self_ = child.slot;
  Slot& slot = slots()[self_.index];
  slot.pid.store(static_cast<std::uint64_t>(::getpid()), std::memory_order_relaxed);
  slot.joined.store(os::ticks_since_boot(), std::memory_order_relaxed);
  slot.state.store(state_word(SlotState::kLive, self_.generation), std::memory_order_release);
  alive_here_[1].store(kSelfBit | std::uint64_t{self_.index} << 32 | self_.generation,
                       std::memory_order_relaxed);
  alive_here_->store(kAttached, std::memory_order_release);
  tracer_.begin_process(static_cast<std::uint64_t>(::getpid()), static_cast<std::uint64_t>(::getppid()));
}

void Domain::detach() noexcept {
  disown_foreign_descriptors();
  slot_lock_.close();
  self_ = {};
  alive_here_[1].store(0, std::memory_order_relaxed);
  alive_here_->store(0, std::memory_order_relaxed);
}

Status Domain::try_attach() {
  std::uint64_t nobody = 0;
  while (!alive_here_->compare_exchange_strong(nobody, kAttaching)) {
    if (nobody == kAttached) return {};
    ::usleep(100);  // another thread is attaching this process
    nobody = 0;
  }
  Result<ChildSlot> slot = header().pid_namespace == os::pid_namespace()
                               ? claim_slot()
                               : Status(Code::kRefused, "the domain lives in another pid namespace");
  if (!slot) {
    alive_here_->store(0);
    return slot.status();
  }
  for (const auto& hook : attach_hooks_) hook();
  adopt(*std::move(slot));
  return {};
}

void Domain::name_self(std::string_view name) noexcept {
  if (!attached()) return;
  Slot& slot = slots()[self_.index];
  char text[sizeof slot.name] = {};
  name.copy(text, sizeof text);
  for (std::size_t i = 0; i < std::size(slot.name); ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, text + i * sizeof word, sizeof word);
    slot.name[i].store(word, std::memory_order_relaxed);
  }
  // Names of processes may be many: only a recording has a use for them.
  if (tracer_.on(trace::Category::kTasks))
    tracer_.moment(trace::Category::kLife, trace::EventKind::kNamed, static_cast<std::uint64_t>(::getpid()),
                   tracer_.name(name));
}

std::string name_in(const Slot& slot) {
  char text[sizeof slot.name];
  for (std::size_t i = 0; i < std::size(slot.name); ++i) {
    const std::uint64_t word = slot.name[i].load(std::memory_order_relaxed);
    std::memcpy(text + i * sizeof word, &word, sizeof word);
  }
  std::string name(text, ::strnlen(text, sizeof text));
  for (char& each : name)
    if (static_cast<unsigned char>(each) < ' ' || each == '\x7f') each = '?';
  return name;
}

void Domain::mark_clean() noexcept {
  if (attached()) slots()[self_.index].state.fetch_or(kCleanBit, std::memory_order_acq_rel);
}

std::uint64_t Domain::pid_of(SlotRef ref) const noexcept {
  const Slot& slot = slots()[ref.index];
  if (generation_of(slot.state.load(std::memory_order_acquire)) != ref.generation) return 0;
  return slot.pid.load(std::memory_order_relaxed);
}

SlotRef Domain::occupant(std::uint32_t index) const noexcept {
  return {index, generation_of(slots()[index].state.load(std::memory_order_acquire))};
}

std::uint32_t Domain::live_slots() const noexcept {
  std::uint32_t count = 0;
  const std::uint64_t used = header().slots_used.load(std::memory_order_acquire);
  for (std::uint32_t index = 0; index < used && index < kSlotCount; ++index) {
    if (state_of(slots()[index].state.load(std::memory_order_acquire)) != SlotState::kFree) ++count;
  }
  return count;
}

void Domain::mark_service() noexcept {
  if (attached()) slots()[self_.index].service.store(1, std::memory_order_release);
}

bool Domain::has_users() const noexcept {
  const std::uint64_t used = header().slots_used.load(std::memory_order_acquire);
  for (std::uint32_t index = 0; index < used && index < kSlotCount; ++index) {
    const Slot& slot = slots()[index];
    if (state_of(slot.state.load(std::memory_order_acquire)) != SlotState::kFree &&
        slot.service.load(std::memory_order_acquire) == 0)
      return true;
  }
  return false;
}

bool Domain::is_dead(SlotRef ref) const {
  if (ref.index >= kSlotCount) return true;
  const Slot& slot = slots()[ref.index];
  const std::uint64_t word = slot.state.load(std::memory_order_acquire);
  if (generation_of(word) != ref.generation || state_of(word) == SlotState::kFree) return true;
  if (ref == self_) return false;  // a description does not see its own lock
  // If other code closed our descriptors (their numbers may be reused by now), we know nothing and call no
  // slot dead.
  if (slot_lock_.inode() != control_inode_) return false;
  const Result<bool> locked = os::byte_is_locked(slot_lock_, lock_byte(ref.index));
  if (!locked) return false;
  const std::uint64_t pid = slot.pid.load(std::memory_order_relaxed);
  if (*locked) {
    // A child made by raw clone(2) keeps its parent's description open, and so the parent's byte locked.
    return pid != 0 && os::is_gone(static_cast<pid_t>(pid));
  }
  return process_has_left(slot);
}

// The slot's byte is unlocked: is the process gone, or has it only closed its descriptors? Pid and start time
// survive exec, so the answer is whether the process still maps our memory.
bool Domain::process_has_left(const Slot& slot) const {
  const std::uint64_t pid = slot.pid.load(std::memory_order_relaxed);
  if (pid == 0) return true;  // nascent, and no process holds the description any more
  const auto task = static_cast<pid_t>(pid);
  if (os::is_gone(task)) return true;
  // Later than it joined: the pid was reused. 0: unknown.
  if (os::start_time(task) > slot.joined.load(std::memory_order_relaxed)) return true;
  if (has_another_slot(slot)) return true;
  // If that is unknown (no descriptor left to read /proc with), the process is not taken for dead.
  const std::optional<bool> mapped = os::maps_inode(task, control_inode_);
  return mapped.has_value() && !*mapped;
}

// A process that called exec and joined anew maps our memory again, but occupies a new slot: the old one is
// dead.
bool Domain::has_another_slot(const Slot& slot) const {
  const std::uint64_t used = header().slots_used.load(std::memory_order_acquire);
  for (std::uint32_t index = 0; index < used && index < kSlotCount; ++index) {
    const Slot& other = slots()[index];
    if (&other == &slot || state_of(other.state.load(std::memory_order_acquire)) != SlotState::kLive ||
        other.pid.load(std::memory_order_relaxed) != slot.pid.load(std::memory_order_relaxed) ||
        other.joined.load(std::memory_order_relaxed) < slot.joined.load(std::memory_order_relaxed)) {
      continue;
    }
    const Result<bool> locked = os::byte_is_locked(slot_lock_, lock_byte(index));
    if (locked && *locked) return true;
  }
  return false;
}

bool Domain::reap_slot(std::uint32_t index, std::vector<Reaped>* log) {
  Slot& slot = slots()[index];
  const std::uint64_t word = slot.state.load(std::memory_order_acquire);
  const SlotState state = state_of(word);
  const SlotRef ref{index, generation_of(word)};
  if (state == SlotState::kFree || ref == self_) return false;
  if (state != SlotState::kReaping && !is_dead(ref)) return false;
  const std::uint64_t clean = word & kCleanBit;
  slot.state.store(state_word(SlotState::kReaping, ref.generation) | clean, std::memory_order_release);
  for (const ReapHook& hook : reap_hooks_) {
    if (!hook(ref, clean != 0)) return false;
  }
  drop_waits(*this, ref);
  tracer_.forget(ref.index, ref.generation);
  tracer_.moment(trace::Category::kLife, trace::EventKind::kGone, slot.pid.load(std::memory_order_relaxed),
                 clean != 0);
  if (log != nullptr) log->push_back({slot.pid.load(std::memory_order_relaxed), name_in(slot), clean != 0});
  // The generation is incremented last: if this reaper dies before that, the next one repeats the same steps.
  slot.state.store(state_word(SlotState::kFree, ref.generation + 1), std::memory_order_release);
  return true;
}

// A reaper that died in the middle left its slot REAPING; the loop finishes that slot.
unsigned Domain::reap_all(std::vector<Reaped>* log) {
  unsigned freed = 0;
  const std::uint64_t used = header().slots_used.load(std::memory_order_acquire);
  for (std::uint32_t index = 0; index < used && index < kSlotCount; ++index)
    freed += reap_slot(index, log) ? 1 : 0;
  return freed;
}

unsigned Domain::reap() {
  if (!attached()) return 0;
  std::vector<Reaped> log;
  unsigned freed = 0;
  {
    const sync::LockGuard guard(header().reap_mutex, [] {});
    if (guard.ok()) freed = reap_all(event_log_on() ? &log : nullptr);
  }
  log_reaped(log);
  return freed;
}

void Domain::log_reaped(const std::vector<Reaped>& log) const {
  for (const Reaped& each : log) {
    EventLine("reaped")("domain", std::to_string(header().domain_id))(
        "of", static_cast<std::int64_t>(each.pid))("name", each.name)("clean", each.clean)
        .write();
  }
}

unsigned Domain::try_reap() {
  if (!attached()) return 0;
  sync::RobustMutex& mutex = header().reap_mutex;
  const sync::RobustMutex::Acquired got = mutex.try_lock();
  if (got == sync::RobustMutex::Acquired::kFailed) return 0;
  if (got == sync::RobustMutex::Acquired::kOwnerDied) mutex.consistent();
  std::vector<Reaped> log;
  const unsigned freed = reap_all(event_log_on() ? &log : nullptr);
  mutex.unlock();
  log_reaped(log);
  return freed;
}

void Domain::check_deaths() {
  constexpr std::int64_t kIntervalNs = 1'000'000'000;
  const std::int64_t now = os::now_ns();
  std::int64_t last = last_check_ns_.load(std::memory_order_relaxed);
  if (now - last < kIntervalNs || !last_check_ns_.compare_exchange_strong(last, now)) return;
  try_reap();
  for (const auto& hook : check_hooks_) hook();
}

}  // namespace forklift::inline abi_0_1::domain
