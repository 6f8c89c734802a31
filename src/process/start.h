// Starting a child by any start method: forklift::Process, groups and pools are built on this.
//
//   Order order{.method = StartMethod::kForkserver, .call = {.function = "forklift.pool.worker", ...},
//               .reports = reports, .identity = {.name = "PoolWorker-3", .daemon = true}};
//   Result<Child> child = start_registered(node, order);
//
// `call.function` is a name of the registry (process/registry.h); its Runner gets `call.arguments`, and opens
// the channels and locks that `call` lists by their numbers: the parent has entered the child as a holder of
// each. With fork the same Runner runs in a copy of this process, which has the objects already.
//
// If the function throws, the exception is put into `reports` (report.h) and the child's exit code is 1;
// otherwise the exit code is what the Runner returned. A daemon ends with this process, however this process
// ends.
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

namespace forklift::inline abi_0_1::process {

struct Order {
  StartMethod method = StartMethod::kSpawn;
  detail::Call call;
  channel::ChannelPtr reports;
  Identity identity;
  // Of a child that is a fresh process: what Identity::group says, once its slot is known. May be empty.
  std::function<Result<std::string>(domain::SlotRef child)> offer_group{};
  // In a forked child, before the function. May be empty.
  std::function<void()> begin{};
};

// kInvalid: the function is not registered, or main has not called init(); kClosed: an argument is closed;
// kSystem, kPeerDied, ...
Result<Child> start_registered(node::Node& node, const Order& order);

// Starts a copy of this process that runs `entry`.
Result<Child> start_forked(const std::function<int()>& entry, const channel::ChannelPtr& reports,
                           const Identity& identity);

// Starts another program.
Result<Child> start_named(node::Node& node, const std::vector<std::string>& argv,
                          const NamedChannels& channels, bool daemon);

}  // namespace forklift::inline abi_0_1::process
