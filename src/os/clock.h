// Time for waits: CLOCK_MONOTONIC in nanoseconds, and deadlines on it.
#pragma once

#include <cstdint>
#include <limits>

namespace forklift::inline abi_0_1::os {

// Nanoseconds of CLOCK_MONOTONIC (the same clock in every process of the machine).
std::int64_t now_ns() noexcept;

// Clock ticks since boot, in which /proc/PID/stat says when a process was started (start_time in os/proc.h).
std::uint64_t ticks_since_boot() noexcept;

// A point in time after which a wait gives up. Copyable. It never overflows: huge and infinite time-outs
// become `never`.
class Deadline {
 public:
  static Deadline never() noexcept { return Deadline(kNever); }
  static Deadline at_ns(std::int64_t when) noexcept { return Deadline(when); }
  static Deadline after_ns(std::int64_t ns) noexcept {
    if (ns <= 0) return Deadline(0);
    const std::int64_t now = now_ns();
    return ns >= kNever - now ? never() : Deadline(now + ns);
  }
  // NaN and negative values mean "at once", as for the queues of Python's standard library.
  static Deadline after_seconds(double seconds) noexcept {
    if (!(seconds > 0)) return Deadline(0);
    return seconds >= 9.0e9 ? never() : after_ns(static_cast<std::int64_t>(seconds * 1e9));
  }

  bool is_never() const noexcept { return when_ == kNever; }
  bool passed() const noexcept { return when_ != kNever && (when_ == 0 || now_ns() >= when_); }
  std::int64_t when_ns() const noexcept { return when_; }
  // Nanoseconds left, at least 0; `cap` bounds the answer (and is the answer for `never`).
  std::int64_t left_ns(std::int64_t cap) const noexcept {
    if (when_ == kNever) return cap;
    const std::int64_t left = when_ - now_ns();
    return left < 0 ? 0 : (left < cap ? left : cap);
  }

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  explicit Deadline(std::int64_t when) noexcept : when_(when) {}
  std::int64_t when_;
};

}  // namespace forklift::inline abi_0_1::os
