// How a channel's ends wait: as everything in the domain does (domain/waiting.h).
#pragma once

#include "channel/channel.h"
#include "domain/waiting.h"

namespace forklift::inline abi_0_1::channel {

using domain::note_cpu;
using domain::WaitPoint;

// The longest spin where messages of so many bytes go: an end that copies one cannot answer meanwhile.
constexpr std::int64_t spin_ns_for(std::uint64_t weight) noexcept {
  // Half of what a processor copies while neither end is in its own cache: the other end also reads what it got.
  constexpr std::uint64_t kCopiedPerNs = 8;
  // Beyond it a wake-up is a small part of the copy's price.
  constexpr std::uint64_t kLargest = std::uint64_t{2} << 20;
  return sync::kSpinNs + (weight <= kLargest ? static_cast<std::int64_t>(weight / kCopiedPerNs) : 0);
}

// Until `ready` holds: spins once, since a peer answers either within moments or much later, then sleeps
// slice by slice. kTimeout, or what the hooks said.
template <class Ready>
Status wait_until(WaitPoint at, Ready&& ready, domain::Domain& domain, os::Deadline deadline,
                  WaitHooks* hooks) {
  if (deadline.passed()) return {Code::kTimeout, "the deadline passed"};
  if (domain::spin_at(at, ready, domain, domain::most_spin_ns(deadline))) return {};
  const std::int64_t asleep = at.spin_policy ? os::now_ns() : 0;
  do {
    if (Status status = domain::sleep_at(at, ready, domain, deadline, hooks); !status) return status;
  } while (!ready());
  if (at.spin_policy) at.spin_policy->note_sleep(os::now_ns() - asleep);
  exchange.has_slept = true;
  return {};
}

}  // namespace forklift::inline abi_0_1::channel
