// For tests of what wakes a sleeper: what is to wake it comes when it sleeps, and not some time later.
//
//   const std::jthread writer = when_asleep([&] { queue.put(2); });
//   EXPECT_EQ(queue.get(), 2);               // this thread is the one that is waited for
//
//   Sleeper reader;
//   std::thread thread([&] { reader.is_me(); EXPECT_EQ(queue.get(), 2); });
//   ASSERT_TRUE(reader.asleep());
//   queue.put(2);
//
// Asleep is what the kernel calls sleeping (state S, proc(5)). A thread held up for a moment on its way
// passes for it, so a test has to be right then, too; it only tests less.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#include "sync/event_count.h"

namespace forklift::test {

// Waits until a thread or a process's first thread sleeps; false when it did not within the time.
bool eventually_asleep(pid_t task, int timeout_ms = 10'000);

pid_t this_task() noexcept;

// A thread that says who it is, for another of the same process to wait for.
class Sleeper {
 public:
  void is_me() noexcept { task_.store(this_task(), std::memory_order_release); }
  // Waits until it has said so and sleeps.
  bool asleep() const;

 private:
  std::atomic<pid_t> task_{0};
};

// Does `action` in a thread of its own when the calling one sleeps (or does not within ten seconds).
template <class Action>
[[nodiscard]] std::jthread when_asleep(Action action) {
  return std::jthread([caller = this_task(), action = std::move(action)] {
    (void)eventually_asleep(caller);
    action();
  });
}

// How long the call takes, in nanoseconds.
std::int64_t time_of(const std::function<void()>& call);

// The first word of an event, which changes whenever a notify goes the slow way, with system calls.
std::uint32_t bell_of(const sync::EventCount& event);

}  // namespace forklift::test
