// Times as the core takes them, in nanoseconds; included by wait.h, which is what programs use.
//
//   std::int64_t ns = nanoseconds(std::chrono::milliseconds(20));
//   bool put_bytes(Endpoint endpoint, std::span<const std::byte> bytes, Limit limit);
//
// Thread and process safety: values only.
//
// Invariants: nothing overflows; what is longer than 292 years, or infinite, is kForever; what is negative or no
// number is 0.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <stop_token>

namespace forklift::inline abi_0_1::detail {

inline constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

template <class Rep, class Period>
constexpr std::int64_t nanoseconds(std::chrono::duration<Rep, Period> time) noexcept {
  const double wide = std::chrono::duration<double, std::nano>(time).count();
  if (!(wide > 0)) return 0;
  if (wide >= 9.2e18) return kForever;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

// From now until then. A plain `when - Clock::now()` overflows for a clock's earliest time, and waits
// indefinitely.
template <class Clock, class Duration>
std::int64_t nanoseconds_until(std::chrono::time_point<Clock, Duration> when) noexcept {
  using Wide = std::chrono::duration<double, std::nano>;
  const double then = Wide(when.time_since_epoch()).count();
  if (!(then > -9.2e18)) return 0;
  if (then >= 9.2e18) return kForever;
  const auto since = [](auto time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  };
  std::int64_t left = 0;  // more than 64 bits hold for a clock whose epoch lies in the future
  if (__builtin_sub_overflow(since(when), since(Clock::now()), &left)) return then > 0 ? kForever : 0;
  return left > 0 ? left : 0;
}

// The steady clock's time after that many nanoseconds, and how many are left until such a time.
inline std::int64_t steady_after(std::int64_t ns) noexcept {
  std::int64_t when = 0;
  const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
  return __builtin_add_overflow(now, ns, &when) ? kForever : when;
}
inline std::int64_t steady_left(std::int64_t when) noexcept {
  const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
  return when > now ? when - now : 0;
}

// What ends a wait: a time, a stop, or neither. Two words, which travel in registers; it refers to the token.
struct Limit {
  Limit(std::int64_t most) noexcept : ns(most) {}
  Limit(std::int64_t most, const std::stop_token* token) noexcept : ns(most), stop(token) {}

  std::int64_t ns = kForever;
  const std::stop_token* stop = nullptr;
};

}  // namespace forklift::inline abi_0_1::detail
