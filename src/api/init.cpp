#include "forklift/init.h"

#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "api/attached.h"
#include "process/identity.h"
#include "process/invitation.h"
#include "process/launch.h"
#include "process/program.h"
#include "process/registry.h"
#include "process/zygote.h"

namespace forklift::inline abi_0_1 {
namespace {

// In a child of spawn or forkserver.
[[noreturn]] void run_registered(const std::string& function) {
  Result<channel::ChannelPtr> reports = process::inherited_channel(process::kReportsName);
  const int code = process::run_and_report(
      [&] {
        const process::Runner runner = value_or_throw(process::runner_of(function));
        return runner(value_or_throw(process::inherited_channel(process::kArgumentsName)));
      },
      reports ? *reports : nullptr, process::own_identity());
  std::exit(code & 0xff);
}

// The function that this process was started to run, if it was: also one of an impossible name, since who
// took itself for the parent then would start the next such process, and that one the next.
std::optional<std::string> take_function() {
  const char* value = std::getenv(process::kFunctionVariable);
  if (value == nullptr) return std::nullopt;
  std::string function = value;
  ::unsetenv(process::kFunctionVariable);
  return function;
}

}  // namespace

void init(int argc, char** argv) {
  if (process::mark_initialised(argc > 0 && argv != nullptr ? argv[0] : "forklift")) return;
  if (node::Node::existing() != nullptr) {
    process::unmark_initialised();  // a fresh process of this program would be as late
    throw Error({Code::kInvalid,
                 "forklift::init() was called late: a queue, tensor or lock was made before it. Make it the "
                 "first line of main, and make none of them in static objects: a process that is started to "
                 "join another one's memory cannot have its own already"});
  }
  if (std::getenv(process::kZygoteVariable) != nullptr) process::serve_as_zygote();
  const std::optional<std::string> function = take_function();
  process::become_what_environment_says();
  throw_if_failed(process::accept_invitation());
  if (function) run_registered(*function);
  if (process::inherited_channel(process::kArgumentsName).ok()) {
    throw Error(
        {Code::kInvalid,
         "this process was given arguments, but no function to run on them: what starts it has changed "
         "its environment (FORKLIFT_FUNCTION)"});
  }
}

void configure(const DomainOptions& options) {
  domain::Options chosen;
  chosen.segment_bytes = options.reservation_bytes;
  chosen.budget_bytes = options.budget_bytes;
  chosen.huge_pages = options.huge_pages;
  throw_if_failed(node::Node::configure(chosen));
}

Stats stats() {
  node::Node& own = detail::attached_node();
  const arena::Stats arena = own.arena().stats();
  return {.budget_bytes = arena.budget_bytes,
          .committed_bytes = arena.committed_bytes,
          .cached_bytes = arena.cached_bytes,
          .held_blocks = arena.held_blocks,
          .leases = arena.leases,
          .channels = own.channels().live(),
          .processes = own.domain().live_slots(),
          .huge_bytes = own.arena().huge_bytes()};
}

void set_budget(std::uint64_t bytes, std::uint64_t prefault) {
  throw_if_failed(detail::attached_node().arena().set_budget(bytes, prefault));
}

std::uint64_t trim(std::uint64_t keep) { return detail::attached_node().arena().trim(keep); }

std::vector<std::string> audit() { return detail::attached_node().audit(); }

}  // namespace forklift::inline abi_0_1
