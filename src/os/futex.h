// The kernel's wait queue on a 32-bit word of shared memory (futex(2), shared flavour: the word may lie in
// different places of different processes).
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

namespace forklift::os {

enum class FutexWait {
  kWoken,    // somebody called futex_wake, or a spurious wake-up
  kChanged,  // the word did not hold `expected`: no sleep
  kTimedOut,
  kInterrupted,  // a signal handler ran in this thread
};

// Sleeps while *word == expected, at most `timeout_ns` (negative: without end).
FutexWait futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                     std::int64_t timeout_ns) noexcept;

struct FutexWord {
  const std::atomic<std::uint32_t>* word;
  std::uint32_t expected;
};
inline constexpr std::size_t kMostFutexWords = 128;

// Sleeps while every word holds what is expected of it, at most `timeout_ns` (negative: without end). Kernels
// before 5.16 have no call for that (futex_waitv), nor has any for more than kMostFutexWords: there, and
// where `in_one_call` is false, it looks every two milliseconds.
FutexWait futex_wait_any(std::span<const FutexWord> words, std::int64_t timeout_ns,
                         bool in_one_call = true) noexcept;

// Wakes at most `count` sleepers; how many it woke.
int futex_wake(const std::atomic<std::uint32_t>& word, int count) noexcept;

}  // namespace forklift::os
