// The hash of names that travel between programs: of types in messages, of registered functions.
//
//   constexpr std::uint64_t key = forklift::detail::hash_of("robot.Pose");
//
// FNV-1a: the same in every program, whatever compiler and standard library built it. It is part of the
// protocol: a change needs another layout version.
//
// Thread and process safety: a function of its arguments.
#pragma once

#include <cstdint>
#include <string_view>

namespace forklift::detail {

// With a hash as `seed`, that of both together.
constexpr std::uint64_t hash_of(std::string_view text, std::uint64_t seed = 0xcbf29ce484222325ULL) noexcept {
  for (const char c : text) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return seed;
}

}  // namespace forklift::detail
