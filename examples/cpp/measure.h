// What the worked programs have in common: numbers from the command line, times, and checks.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace example {

// The argument at this place, a number from `least` on; `otherwise` where there is none.
inline std::int64_t argument(int argc, char** argv, int place, std::int64_t otherwise,
                             std::int64_t least = 1) {
  if (place >= argc) return otherwise;
  char* end = nullptr;
  const std::int64_t number = std::strtoll(argv[place], &end, 10);
  if (*end != '\0' || number < least || number > 1'000'000'000)
    throw std::invalid_argument("argument " + std::to_string(place) + " is a number from " +
                                std::to_string(least) + " to 1000000000, not \"" + argv[place] + "\"");
  return number;
}

// How long the call takes, in seconds.
template <class Call>
double seconds(Call&& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// "threads: 1234 frames/s", where `count` frames took `time` seconds.
inline void print_rate(const char* way, std::int64_t count, double time, const char* what) {
  std::printf("%s: %.0f %s/s\n", way, static_cast<double>(count) / time, what);
}

}  // namespace example
