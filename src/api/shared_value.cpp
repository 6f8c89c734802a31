// Waiting for a SharedValue.
#include "forklift/shared_value.h"

#include <algorithm>
#include <climits>
#include <new>
#include <optional>

#include "api/stop.h"
#include "os/clock.h"
#include "sync/event_count.h"
#include "tensor/pending.h"

namespace forklift::inline abi_0_1::detail {
namespace {

// In shared memory, where all zero is valid: nobody makes it.
sync::EventCount& event_at(std::byte* bell) noexcept { return *reinterpret_cast<sync::EventCount*>(bell); }
static_assert(sizeof(sync::EventCount) <= kBellBytes);

}  // namespace

const Tensor& bound_to_its_domain(const Tensor& memory) {
  if (memory.storage()) StorageAccess::bind(*memory.storage());
  return memory;
}

bool wait_shared(std::byte* bell, Changed changed, const void* item, const void* old, Limit limit) {
  sync::EventCount& event = event_at(bell);
  const os::Deadline until = deadline_of(limit);
  const auto ring = [&event] { event.notify(INT_MAX); };
  std::optional<std::stop_callback<decltype(ring)>> on_stop;
  if (limit.stop != nullptr) on_stop.emplace(*limit.stop, ring);
  for (;;) {
    const sync::EventCount::Ticket ticket = event.prepare();
    const bool done = changed(item, old);
    const bool over = until.passed() || (limit.stop != nullptr && limit.stop->stop_requested());
    if (done || over) {
      event.cancel(ticket);
      return done;
    }
    // In slices, since the one that was woken for all may be killed before it has passed that on.
    event.wait(ticket, until.left_ns(sync::slice_ns()));
  }
}

void notify_shared(std::byte* bell, int most) noexcept { event_at(bell).notify(most); }

}  // namespace forklift::inline abi_0_1::detail
