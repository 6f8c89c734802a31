#include "node/memory_wait.h"

#include <time.h>

#include <algorithm>
#include <utility>

namespace forklift::inline abi_0_1::node {
namespace {

constexpr std::int64_t kMostNs = 2'000'000'000;
constexpr std::int64_t kPauseNs = 2'000'000;

}  // namespace

bool MemoryWait::pause(Status& status, domain::WaitHooks* hooks) {
  if (!block_ || bytes_ > arena_.budget()) return false;
  const std::int64_t now = os::now_ns();
  if (until_ns_ == 0) until_ns_ = std::min(deadline_.when_ns(), now + kMostNs);
  if (now >= until_ns_) return false;
  const timespec length{0, kPauseNs};
  ::nanosleep(&length, nullptr);
  arena_.domain().check_deaths();
  if (hooks == nullptr) return true;
  Status polled = hooks->poll();
  if (polled.ok()) return true;
  status = std::move(polled);
  return false;
}

}  // namespace forklift::inline abi_0_1::node
