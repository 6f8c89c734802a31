// The work of monte_carlo.cpp: random points in a square, and accidents; and what the alternatives are called.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <random>
#include <span>

// What happens to the process that begins a task: once, since the next one finds kNone.
enum class Accident : int {
  kNone,
  kDies,
  kHangs
};

inline void suffer(Accident& planned) {
  switch (std::atomic_ref(planned).exchange(Accident::kNone)) {
    case Accident::kNone: return;
    case Accident::kDies: std::raise(SIGKILL); return;
    case Accident::kHangs:
      for (;;) ::pause();
  }
}

// How many of the task's random points lie within the circle. The same for the same task, wherever it runs.
inline std::int64_t points_inside(std::uint64_t task, std::int64_t points) {
  std::mt19937_64 random(task);
  std::int64_t inside = 0;
  for (std::int64_t i = 0; i < points; ++i) {
    const double x = static_cast<double>(random() >> 11) * 0x1p-53;
    const double y = static_cast<double>(random() >> 11) * 0x1p-53;
    if (x * x + y * y < 1) ++inside;
  }
  return inside;
}

// A task that has not ended by then hangs, and is run again elsewhere.
inline constexpr std::chrono::milliseconds kDeadline{500};

struct Estimate {
  std::int64_t inside = 0;
  int hung = 0;  // tasks that were over their time
};

// monte_carlo_alternative.cpp. The accidents, one a task, are in memory that children share with this process.
Estimate with_forks(std::int64_t tasks, std::int64_t points, std::span<Accident> accidents);
std::int64_t with_async(std::int64_t tasks, std::int64_t points);  // threads: knows no accidents
