// Starting a child by any method: what forklift::Process, groups and pools stand on.
//
//   Order order{.method = StartMethod::kForkserver, .call = {.function = "forklift.pool.worker", ...},
//               .reports = reports, .identity = {.name = "PoolWorker-3", .daemon = true}};
//   Result<Child> child = start_registered(node, order);
//
// `call.function` is a name of the registry (process/registry.h); its Runner gets `call.arguments`, and opens
// by their numbers the channels and locks that `call` lists: the parent has entered the child as a holder of
// each. On fork the same Runner runs in a copy of this process, with the objects that it has already.
//
// What the function throws is put into `reports` (report.h), and the child's exit code is then 1; otherwise
// it is what the Runner returned. A daemon ends with this process, however that ends.
//
// Thread safety: yes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "forklift/process.h"
#include "node/node.h"
#include "process/child.h"
#include "process/identity.h"
#include "process/invitation.h"

namespace forklift::process {

struct Order {
  StartMethod method = StartMethod::kSpawn;
  detail::Call call;
  channel::ChannelPtr reports;
  Identity identity;
};

// kInvalid: not registered, or main has not called init(); kClosed: an argument is; kSystem, kPeerDied, ...
Result<Child> start_registered(node::Node& node, const Order& order);

// A copy of this process that runs `entry`.
Result<Child> start_forked(const std::function<int()>& entry, const channel::ChannelPtr& reports,
                           const Identity& identity);

// Another program.
Result<Child> start_named(node::Node& node, const std::vector<std::string>& argv,
                          const NamedChannels& channels, bool daemon);

}  // namespace forklift::process
