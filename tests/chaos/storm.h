// What the storms have in common: their settings, the killing, and the watch over those who are left.
//
//   Progress puts(account->puts, kProgressNs, "nobody puts");
//   const std::uint64_t kills = kill_at_random(
//       workers, dice, length, 6000, [&](unsigned i) { return start(i); }, [&] { puts.look(); });
//
// Thread safety: none.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <random>

#include "os/clock.h"

namespace forklift::test {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::int64_t kSlower = 6;
#else
constexpr std::int64_t kSlower = 1;
#endif
constexpr std::int64_t kSecond = 1'000'000'000;

inline long setting(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtol(text, nullptr, 10) : otherwise;
}
// FORKLIFT_STORM_SECONDS: how long all storms of one kind rage together.
inline long storm_seconds() { return setting("FORKLIFT_STORM_SECONDS", 20); }
// FORKLIFT_STORM_SEED: the dice decide who is killed and when; what the machine makes of it differs.
inline std::uint64_t storm_seed(long otherwise) {
  return static_cast<std::uint64_t>(setting("FORKLIFT_STORM_SEED", otherwise));
}

// How it ended, as waitpid says.
inline int reap_child(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// Nothing else may have ended it before.
inline void kill_and_bury(pid_t pid) {
  ::kill(pid, SIGKILL);
  const int status = reap_child(pid);
  if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
    ADD_FAILURE() << "a worker ended by signal " << WTERMSIG(status);
}

// At the end, when it was told to stop.
inline void expect_clean_end(pid_t pid) {
  const int status = reap_child(pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// A counter that survivors raise: it may not stand still for longer than `within_ns`.
class Progress {
 public:
  Progress(const std::atomic<std::uint64_t>& counter, std::int64_t within_ns, const char* standstill)
      : counter_(counter), within_ns_(within_ns), standstill_(standstill) {}

  void look() {
    const std::int64_t now = os::now_ns();
    if (const std::uint64_t count = counter_; count != seen_) {
      seen_ = count;
      since_ = now;
    }
    EXPECT_LT(now - since_, within_ns_) << standstill_;
  }

 private:
  const std::atomic<std::uint64_t>& counter_;
  const std::int64_t within_ns_;
  const char* const standstill_;
  std::uint64_t seen_ = 0;
  std::int64_t since_ = os::now_ns();
};

// For so long, or until something is wrong: kills one of the workers, at intervals of at most `pause_us`, and
// starts it again. How many were killed.
template <std::size_t kWorkers, class Start, class Look>
std::uint64_t kill_at_random(std::array<pid_t, kWorkers>& workers, std::mt19937& dice, std::int64_t length_ns,
                             unsigned pause_us, Start&& start, Look&& look) {
  std::uint64_t kills = 0;
  const std::int64_t end = os::now_ns() + length_ns;
  while (os::now_ns() < end && !testing::Test::HasFailure()) {
    ::usleep(static_cast<useconds_t>(dice() % pause_us));
    const auto victim = static_cast<unsigned>(dice() % kWorkers);
    kill_and_bury(workers[victim]);
    ++kills;
    workers[victim] = start(victim);
    look();
  }
  return kills;
}

}  // namespace forklift::test
