// Time-outs and stops as the API takes them: any std::chrono duration, std::stop_token.
//
//   std::optional<Frame> frame = frames.get_for(std::chrono::milliseconds(20));
//   std::jthread worker([&](std::stop_token stop) { while (auto frame = frames.get(stop)) show(*frame); });
//
// A stop that was requested before the call makes it not wait: what can be had at once is had.
//
// Thread and process safety: values only.
//
// Invariants: nothing overflows; what is longer than 292 years, or infinite, is for ever; what is negative or
// no number is "at once".
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <stop_token>

namespace forklift::detail {

inline constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

template <class Rep, class Period>
constexpr std::int64_t nanoseconds(std::chrono::duration<Rep, Period> time) noexcept {
  const double wide = std::chrono::duration<double, std::nano>(time).count();
  if (!(wide > 0)) return 0;
  if (wide >= 9.2e18) return kForever;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

// From now until then. A plain `when - Clock::now()` overflows for a clock's earliest time, and waits for
// ever.
template <class Clock, class Duration>
std::int64_t nanoseconds_until(std::chrono::time_point<Clock, Duration> when) {
  using Wide = std::chrono::duration<double, std::nano>;
  const double then = Wide(when.time_since_epoch()).count();
  if (!(then > -9.2e18)) return 0;
  if (then >= 9.2e18) return kForever;
  const auto since = [](auto time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  };
  std::int64_t left = 0;  // beyond 64 bits where the clock's epoch is to come
  if (__builtin_sub_overflow(since(when), since(Clock::now()), &left)) return then > 0 ? kForever : 0;
  return left > 0 ? left : 0;
}

// What ends a wait: a time, a stop, or neither.
struct Limit {
  Limit(std::int64_t most) noexcept : ns(most) {}
  Limit(std::int64_t most, const std::stop_token& token) noexcept : ns(most), stop(&token) {}
  Limit(const std::stop_token& token) noexcept : stop(&token) {}

  std::int64_t ns = kForever;
  const std::stop_token* stop = nullptr;
};

}  // namespace forklift::detail
