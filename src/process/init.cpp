#include "forklift/init.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "process/init.h"
#include "process/invitation.h"
#include "process/launch.h"
#include "process/registry.h"

namespace forklift {
namespace {

std::atomic<bool> was_initialised{false};

std::string& own_name() {
  static std::string* const name = new std::string;
  return *name;
}

// The variable's value, which is then gone from the environment.
std::string take_variable(const char* name) {
  const char* value = std::getenv(name);
  std::string text = value != nullptr ? value : "";
  ::unsetenv(name);
  return text;
}

// In a child that Process::spawn() started.
[[noreturn]] void run_registered(const std::string& function) {
  const process::Identity identity{take_variable(process::kNameVariable),
                                   std::atoi(take_variable(process::kRankVariable).c_str())};
  const channel::ChannelPtr reports = need(process::inherited_channel(process::kReportsName));
  const int code = process::run_and_report(
      [&] {
        const process::Runner runner = need(process::runner_of(function));
        return runner(need(process::inherited_channel(process::kArgumentsName)));
      },
      reports, identity);
  std::exit(code & 0xff);
}

channel::Hub& hub() { return *need(channel::Hub::current()); }

}  // namespace

namespace process {
bool initialised() noexcept { return was_initialised.load(); }
const std::string& program_name() noexcept { return own_name(); }
}  // namespace process

void init(int argc, char** argv) {
  if (was_initialised.exchange(true)) return;
  own_name() = argc > 0 && argv != nullptr ? argv[0] : "forklift";
  const std::string function = take_variable(process::kFunctionVariable);
  check(process::accept_invitation());
  if (!function.empty()) run_registered(function);
}

Stats stats() {
  channel::Hub& own = hub();
  const arena::Stats arena = own.arena().stats();
  return {arena.budget_bytes, arena.committed_bytes, arena.cached_bytes,       arena.held_blocks,
          arena.leases,       own.live_channels(),   own.domain().live_slots()};
}

void set_budget(std::uint64_t bytes) { hub().domain().set_budget(bytes); }

std::uint64_t trim(std::uint64_t keep) { return hub().arena().trim(keep); }

std::vector<std::string> audit() { return hub().audit(); }

}  // namespace forklift
