// The functions of forklift/runtime.h.
#include "forklift/runtime.h"

#include <algorithm>

#include "api/attached.h"
#include "guard/rest.h"
#include "runtime/executor.h"

namespace forklift::inline abi_0_1::runtime {

std::size_t threads() { return Executor::instance().threads(); }
void set_threads(std::size_t count) { Executor::instance().set_threads(count); }

std::size_t in_flight() {
  const Executor* const executor = Executor::existing();
  return executor == nullptr ? 0 : executor->in_flight();
}
void synchronize() {
  if (Executor* const executor = Executor::existing())
    throw_if_failed(executor->drain(std::chrono::hours(24 * 365)));
}

std::chrono::nanoseconds fork_timeout() { return guard::fork_timeout(); }
void set_fork_timeout(std::chrono::nanoseconds timeout) {
  guard::set_fork_timeout(std::max(timeout, std::chrono::nanoseconds(0)));
}
ForkCounts fork_counts() noexcept { return Executor::fork_counts(); }

}  // namespace forklift::inline abi_0_1::runtime
