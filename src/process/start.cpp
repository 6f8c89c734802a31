#include "process/start.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>

#include "base/event_log.h"
#include "locks/table.h"
#include "node/node.h"
#include "process/launch.h"
#include "process/lifeline.h"
#include "process/program.h"
#include "process/registry.h"
#include "process/zygote.h"
#include "topic/topic.h"

namespace forklift::inline abi_0_1::process {
namespace {

Result<Child> watched(const Result<pid_t>& pid, const std::string& name) {
  if (!pid) return pid.status();
  Result<Child> child = Child::watch(*pid, name);
  if (!child) {
    // No caller could wait for this child, so it must not run on unnoticed.
    ::kill(*pid, SIGKILL);
    ::waitpid(*pid, nullptr, 0);
  }
  return child;
}

// What every started program is told: how to join and, if it is a daemon, how to end.
Result<ProgramInvitation> invite(node::Node& node, const NamedChannels& named, bool daemon) {
  Result<ProgramInvitation> invitation = invite_program(node, named);
  if (invitation && event_log_on()) invitation->variables.emplace_back(kEventLogVariable, event_log_path());
  if (!invitation || !daemon) return invitation;
  const Result<int> line = lifeline();
  if (!line) return line.status();
  invitation->descriptors.push_back(*line);
  invitation->variables.emplace_back(kLifelineVariable, std::to_string(*line));
  return invitation;
}

Result<ProgramInvitation> invite_registered(node::Node& node, const Order& order) {
  NamedChannels named{{kArgumentsName, order.call.arguments.get()}};
  if (order.reports) named.emplace_back(kReportsName, order.reports);
  Result<ProgramInvitation> invitation = invite(node, named, order.identity.daemon);
  if (!invitation) return invitation;
  const domain::SlotRef slot = invitation->invitation.child.slot;
  for (const ChannelRef& queue : order.call.queues) {
    if (Status status = queue.get()->offer(slot); !status) return status;
  }
  for (const LockRef& lock : order.call.locks) {
    if (Status status = lock.get()->offer(slot); !status) return status;
  }
  for (const TopicRef& topic : order.call.topics) {
    if (Status status = topic.get()->offer(slot); !status) return status;
  }
  invitation->variables.emplace_back(kFunctionVariable, order.call.function);
  Identity identity = order.identity;
  if (order.offer_group) {
    Result<std::string> group = order.offer_group(slot);
    if (!group) return group.status();
    identity.group = *std::move(group);
  }
  for (auto& variable : identity_variables(identity)) invitation->variables.push_back(std::move(variable));
  return invitation;
}

Result<Child> fork_registered(const Order& order) {
  const Result<Runner> runner = runner_of(order.call.function);
  if (!runner) return runner.status();
  const auto entry = [run = *runner, arguments = order.call.arguments.get(), begin = order.begin] {
    if (begin) begin();
    return run(arguments);
  };
  return start_forked(entry, order.reports, order.identity);
}

}  // namespace

Result<Child> start_registered(node::Node& node, const Order& order) {
  if (order.method == StartMethod::kFork) return fork_registered(order);
  if (!initialised()) {
    return {
        Code::kInvalid,
        "a registered function can be started in a fresh process only by a program whose main begins with "
        "forklift::init(argc, argv): without it, the fresh process would not know that it is one"};
  }
  const Result<ProgramInvitation> invitation = invite_registered(node, order);
  if (!invitation) return invitation.status();
  if (order.method == StartMethod::kForkserver) {
    Result<std::optional<Child>> copy = start_copy(*invitation);
    if (!copy) return copy.status();
    if (*copy) return *std::move(*copy);
  }
  return watched(start_program("/proc/self/exe", {program_name()}, *invitation), order.identity.name);
}

Result<Child> start_forked(const std::function<int()>& entry, const channel::ChannelPtr& reports,
                           const Identity& identity) {
  if (!identity.daemon) return watched(fork_child(entry, reports, identity), identity.name);
  const Result<int> line = lifeline();
  if (!line) return line.status();
  return watched(fork_child(
                     [&entry, read_end = *line] {
                       throw_if_failed(end_with_parent(read_end).status());
                       return entry();
                     },
                     reports, identity),
                 identity.name);
}

Result<Child> start_named(node::Node& node, const std::vector<std::string>& argv,
                          const NamedChannels& channels, bool daemon) {
  const Result<ProgramInvitation> invitation = invite(node, channels, daemon);
  if (!invitation) return invitation.status();
  return watched(start_program("", argv, *invitation), argv.empty() ? std::string() : argv.front());
}

}  // namespace forklift::inline abi_0_1::process
