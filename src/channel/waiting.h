// How a channel's ends wait: as everything in the domain does (domain/waiting.h).
#pragma once

#include "channel/channel.h"
#include "domain/waiting.h"

namespace forklift::channel {

using domain::claim_spin;
using domain::note_cpu;
using domain::WaitPoint;

// Until `ready` holds: spins once, since the peer answers within moments or not for long, then sleeps slice
// by slice. kTimeout, or what the hooks said.
template <class Ready>
Status wait_until(WaitPoint at, Ready&& ready, domain::Domain& domain, os::Deadline deadline,
                  WaitHooks* hooks) {
  if (deadline.passed()) return {Code::kTimeout, "the deadline passed"};
  if (domain::spin_at(at, ready)) return {};
  do {
    if (Status status = domain::sleep_at(at, ready, domain, deadline, hooks); !status) return status;
  } while (!ready());
  return {};
}

}  // namespace forklift::channel
