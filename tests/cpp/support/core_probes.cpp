// The leak check's view of the core: what this process's own domains hold. Domains that a test makes for
// itself must be gone after it: set_domain_count excuses the memory files of the process's own ones only.
#include <set>

#include "node/node.h"
#include "support/leak_check.h"

namespace forklift::test {
namespace {

std::int64_t from_node(std::uint64_t (*ask)(node::Node&)) {
  std::int64_t all = 0;
  node::Node::for_each([&](node::Node& node) { all += static_cast<std::int64_t>(ask(node)); });
  return all;
}

const bool kAdded =
    set_domain_count([] { return from_node([](node::Node&) { return std::uint64_t{1}; }); }) &&
    set_kept_descriptors([] {
      std::set<int> kept;
      node::Node::for_each([&](node::Node& node) { kept.insert(node.watches().sender()); });
      return kept;
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
