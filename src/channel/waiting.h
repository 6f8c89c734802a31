// How a channel's ends wait: as everything in the domain does (domain/waiting.h).
#pragma once

#include "channel/channel.h"
#include "domain/waiting.h"

namespace forklift::channel {

using domain::claim_spin;
using domain::note_cpu;
using domain::wait_for;
using domain::WaitPoint;

}  // namespace forklift::channel
