// The hash of names that travel between programs: of types in messages, of registered functions.
//
//   constexpr std::uint64_t key = forklift::detail::hash_of("robot.Pose");
//
// FNV-1a: the same in every program, whatever compiler and standard library built it. It is part of the
// protocol: a change needs another layout version.
//
// Thread and process safety: a function of its arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace forklift::inline abi_0_1::detail {

// With a hash as `seed`, that of both together.
constexpr std::uint64_t hash_of(std::string_view text, std::uint64_t seed = 0xcbf29ce484222325ULL) noexcept {
  for (const char c : text) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return seed;
}

// Where the name of a release's namespace ends that begins at `at`, "abi_0_1::"; else `at`.
constexpr std::size_t after_release(std::string_view text, std::size_t at) noexcept {
  constexpr std::string_view kStart = "abi_";
  if (text.substr(at, kStart.size()) != kStart) return at;
  std::size_t end = at + kStart.size();
  while (end < text.size() && (text[end] == '_' || (text[end] >= '0' && text[end] <= '9'))) ++end;
  return text.substr(end, 2) == "::" ? end + 2 : at;
}

// As hash_of(), for a type's name as a compiler writes it. GCC writes inline namespaces and Clang does not, and
// programs of two releases may send each other the same types.
constexpr std::uint64_t hash_of_type_name(std::string_view text,
                                          std::uint64_t seed = 0xcbf29ce484222325ULL) noexcept {
  for (std::size_t at = 0; at < text.size(); ++at) {
    at = after_release(text, at);
    if (at < text.size()) seed = hash_of(text.substr(at, 1), seed);
  }
  return seed;
}

}  // namespace forklift::inline abi_0_1::detail
