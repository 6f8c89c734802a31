// The library's version, as it was compiled against and as it is linked.
//
//   static_assert(forklift::kVersionMajor == 0 && forklift::kVersionMinor >= 1);
//   if (forklift::version() != forklift::kVersion) ...     // a shared library of another patch level
//
// A program does not link with a library of another minor version: everything is in an inline namespace that has the
// release's name, so forklift::Queue is forklift::abi_0_1::Queue to the linker. Do not declare the library's types
// yourself (`namespace forklift { class Tensor; }` would be another one): include their headers.
//
// Semantic: before 1.0 each minor version may break programs, and find_package(forklift 0.1) accepts 0.1.x
// only; the shared library's SONAME says the same (libforklift.so.0.1). Whether two programs can meet in one
// domain is another question, which the shared layout's own version answers when they do (Code::kVersion).
//
// Thread and process safety: constants.
#pragma once

#include <string_view>

namespace forklift::inline abi_0_1 {

// Of these headers.
inline constexpr int kVersionMajor = 0;
inline constexpr int kVersionMinor = 1;
inline constexpr int kVersionPatch = 0;
inline constexpr std::string_view kVersion = "0.1.0";

// Of the library that this program runs with.
std::string_view version() noexcept;

namespace detail {
// Headers of one release and a library of another do not link: this asks for the symbol in every program.
[[gnu::used]] inline std::string_view (*const kSameRelease)() noexcept = &version;
}  // namespace detail

}  // namespace forklift::inline abi_0_1
