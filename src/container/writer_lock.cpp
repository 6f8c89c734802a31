#include "container/writer_lock.h"

#include <string>

#include "os/thread.h"
#include "sync/robust_mutex.h"

namespace forklift::inline abi_0_1::container {

using locks::Owner;

namespace {

// Is the process that wrote this owner word gone? Its slot may have been reaped, or given to another process, since.
bool is_gone(domain::Domain& domain, std::uint64_t owner) {
  const domain::SlotRef slot = domain.occupant(Owner::slot(owner));
  return Owner::process(slot) != Owner::process_of(owner) || domain.is_dead(slot);
}

}  // namespace

bool WriterLock::try_take(std::uint64_t me) noexcept {
  std::uint64_t free = 0;
  return owner_.compare_exchange_strong(free, me, std::memory_order_acquire, std::memory_order_relaxed);
}

Status WriterLock::acquire(domain::Domain& domain, bool& took_over) {
  took_over = false;
  if (!domain.attached()) return domain.not_attached();
  const std::uint64_t me = Owner::process(domain.self()) | os::thread_id();
  if (try_take(me)) [[likely]]
    return {};
  const os::Deadline deadline = os::Deadline::after_seconds(static_cast<double>(sync::kStallSeconds));
  const domain::WaitPoint place{.event = event_,
                                .spinner = spinner_,
                                .peer_cpu = domain::kUnknownCpu,
                                .kind = domain::WaitKind::kContainer};
  const auto is_free = [this] { return owner_.load(std::memory_order_acquire) == 0; };
  for (;;) {
    if (try_take(me)) return {};
    std::uint64_t owner = owner_.load(std::memory_order_acquire);
    if (owner == 0) continue;
    if (is_gone(domain, owner)) {
      took_over = owner_.compare_exchange_strong(owner, me, std::memory_order_acquire);
      if (took_over) return {};
      continue;
    }
    if (deadline.passed()) return stalled(domain);
    if (domain::spin_at(place, is_free, domain)) continue;
    Status status = domain::sleep_at(place, is_free, domain, deadline, nullptr);
    if (!status && status.code() != Code::kTimeout) return status;
  }
}

void WriterLock::release() noexcept {
  owner_.store(0, std::memory_order_release);
  event_.notify(1);
}

Status WriterLock::stalled(const domain::Domain& domain) const {
  const std::uint64_t owner = owner_.load(std::memory_order_acquire);
  const std::uint64_t pid = domain.pid_of(domain.occupant(Owner::slot(owner)));
  const char state = os::task_state(static_cast<pid_t>(pid));
  std::string what = "a shared container's lock was not given up within " +
                     std::to_string(sync::kStallSeconds) + " s by process " + std::to_string(pid);
  if (state == 'T' || state == 't') what += ", which is stopped; continue or kill it";
  return {Code::kStalled, std::move(what)};
}

}  // namespace forklift::inline abi_0_1::container
