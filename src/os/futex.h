// The kernel's wait queue on a 32-bit word of shared memory (futex(2), shared flavour: the word may be mapped
// at a different address in each process).
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

namespace forklift::inline abi_0_1::os {

enum class FutexWait {
  kWoken,    // a futex_wake, or a spurious wake-up
  kChanged,  // the word did not hold `expected`: no sleep
  kTimedOut,
  kInterrupted,  // a signal handler ran in this thread
  kNoSuchCall,   // the kernel, or a filter of system calls, does not know it
};

// Sleeps while *word == expected, at most `timeout_ns` (negative: no time-out).
FutexWait futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                     std::int64_t timeout_ns) noexcept;

struct FutexWord {
  const std::atomic<std::uint32_t>* word;
  std::uint32_t expected;
};
inline constexpr std::size_t kMostFutexWords = 128;

// Sleeps while every word holds its expected value, at most `timeout_ns` (negative: no time-out). At most
// kMostFutexWords words. kNoSuchCall: the system call for that, futex_waitv, exists since Linux 5.16.
FutexWait futex_wait_any(std::span<const FutexWord> words, std::int64_t timeout_ns) noexcept;

// Wakes at most `count` sleepers and returns how many it woke.
int futex_wake(const std::atomic<std::uint32_t>& word, int count) noexcept;

}  // namespace forklift::inline abi_0_1::os
