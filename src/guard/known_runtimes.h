// The runtimes whose behaviour at a fork follows from whether they have threads, as a table.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "guard/finding.h"

namespace forklift::inline abi_0_1::guard {

inline constexpr const char* kOtherMethod = "use the start method forkserver or spawn";

// A runtime that is known by the names of its files and threads. An empty name matches nothing.
struct Runtime {
  const char* name;
  std::array<std::string_view, 4> files;    // the beginning of the file's name, or "*" and a part of it
  std::array<std::string_view, 2> threads;  // the beginning of the thread's name
  Verdict loaded;                           // no thread of it exists
  Verdict idle;                             // its threads sleep
  Verdict busy;
  const char* why;
  const char* reference;
  const char* remedy;
};

std::span<const Runtime> known_runtimes();

bool matches(std::span<const std::string_view> patterns, std::string_view name);

}  // namespace forklift::inline abi_0_1::guard
