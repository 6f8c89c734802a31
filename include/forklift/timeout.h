// Time-outs as the API takes them: any std::chrono duration.
//
//   std::optional<Frame> frame = frames.get_for(std::chrono::milliseconds(20));
//
// Thread and process safety: values only.
//
// Invariants: nothing overflows; what is longer than 292 years, or infinite, is for ever; what is negative or
// no number is "at once".
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

namespace forklift::detail {

inline constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

template <class Rep, class Period>
constexpr std::int64_t nanoseconds(std::chrono::duration<Rep, Period> time) noexcept {
  const double wide = std::chrono::duration<double, std::nano>(time).count();
  if (!(wide > 0)) return 0;
  if (wide >= 9.2e18) return kForever;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

}  // namespace forklift::detail
