// The leak check's view of the core: what this process's own domain holds. Domains that a test makes for
// itself must be gone after it: set_domain_count excuses the memory files of the process's own only.
#include "channel/hub.h"
#include "support/leak_check.h"

namespace forklift::test {
namespace {

std::int64_t from_hub(std::uint64_t (*ask)(channel::Hub&)) {
  channel::Hub* hub = channel::Hub::existing();
  return hub ? static_cast<std::int64_t>(ask(*hub)) : 0;
}

const bool kAdded =
    set_domain_count([] { return channel::Hub::existing() ? 1 : 0; }) &&
    add_leak_probe(
        "held blocks",
        [] { return from_hub([](channel::Hub& hub) { return hub.arena().stats().held_blocks; }); }) &&
    add_leak_probe("leases",
                   [] { return from_hub([](channel::Hub& hub) { return hub.arena().stats().leases; }); }) &&
    add_leak_probe("channels",
                   [] { return from_hub([](channel::Hub& hub) { return hub.live_channels(); }); });

}  // namespace
}  // namespace forklift::test
