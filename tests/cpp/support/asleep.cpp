#include "support/asleep.h"

#include <unistd.h>

#include "os/clock.h"
#include "os/proc.h"
#include "support/child.h"

namespace forklift::test {

bool eventually_asleep(pid_t task, int timeout_ms) {
  return eventually([task] { return os::task_state(task) == 'S'; }, timeout_ms);
}

pid_t this_task() noexcept { return ::gettid(); }

bool Sleeper::asleep() const {
  return eventually([this] {
    const pid_t task = task_.load(std::memory_order_acquire);
    return task != 0 && os::task_state(task) == 'S';
  });
}

std::int64_t time_of(const std::function<void()>& call) {
  const std::int64_t start = os::now_ns();
  call();
  return os::now_ns() - start;
}

std::uint32_t bell_of(const sync::EventCount& event) {
  return reinterpret_cast<const std::atomic<std::uint32_t>&>(event).load();
}

}  // namespace forklift::test
