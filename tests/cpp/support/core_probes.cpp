// The leak check's view of the core: what this process's own domain holds. Domains that a test makes for
// itself must be gone after it: set_domain_count excuses the memory files of the process's own only.
#include "node/node.h"
#include "support/leak_check.h"

namespace forklift::test {
namespace {

std::int64_t from_node(std::uint64_t (*ask)(node::Node&)) {
  node::Node* node = node::Node::existing();
  return node ? static_cast<std::int64_t>(ask(*node)) : 0;
}

const bool kAdded =
    set_domain_count([] { return node::Node::existing() ? 1 : 0; }) && set_kept_descriptor([] {
      return node::Node::existing() ? node::Node::existing()->watches().sender() : -1;
    }) &&
    add_leak_probe(
        "held blocks",
        [] { return from_node([](node::Node& node) { return node.arena().stats().held_blocks; }); }) &&
    add_leak_probe("leases",
                   [] { return from_node([](node::Node& node) { return node.arena().stats().leases; }); }) &&
    add_leak_probe("channels",
                   [] { return from_node([](node::Node& node) { return node.channels().live(); }); }) &&
    add_leak_probe("wait sets",
                   [] { return from_node([](node::Node& node) { return node.watches().live_sets(); }); });

}  // namespace
}  // namespace forklift::test
