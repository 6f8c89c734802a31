#include "forklift/fork_guard.h"

#include <utility>

#include "guard/guards.h"

namespace forklift::inline abi_0_1 {

void register_fork_guard(const std::string& name, ForkGuard guard) {
  guard::register_guard(name, std::move(guard));
}

std::vector<ForkFinding> fork_report() { return guard::examine(); }

}  // namespace forklift::inline abi_0_1
