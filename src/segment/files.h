// The files of named segments: making, opening, removing.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "os/fd.h"

namespace forklift::inline abi_0_1::segment {

// A new file of zeros, whose pages exist: what does not fit is an error here and no SIGBUS later. kNoSpace:
// the file system, or what this process may write to a file, is too small; kExists: the name is taken;
// kSystem. After a failure other than kExists there may be a file.
Result<os::Fd> make_file(const std::string& path, std::uint64_t bytes);
// The same without pages, for write_all(). Memory of it that is touched before may end in SIGBUS.
Result<os::Fd> make_hollow_file(const std::string& path, std::uint64_t bytes);
// Writes the whole file, and makes its pages with what they are to contain: the kernel need not fill them with
// zeros before. kNoSpace, kSystem.
Status write_all(const os::Fd& file, const std::string& path, std::span<const std::byte> head,
                 std::span<const std::byte> data);
// kNotFound; kCorrupt: another size; kRefused: of another user, or no plain file; kSystem.
Result<os::Fd> open_file(const std::string& path, std::uint64_t bytes);
// True: the name is gone.
bool remove_file(const std::string& path) noexcept;

// What is in the folder of one domain, and whether somebody uses it.
struct Found {
  std::uint64_t token = 0;
  std::uint64_t segments = 0;
  std::uint64_t bytes = 0;
  bool in_use = false;  // somebody lives who uses them
  bool removed = false;
  std::string problem;  // why something could not be looked at or removed; mostly empty
};

// Looks at the files of each domain of this user, and removes those that have no living owner, never those
// that have one. `look_only`: removes nothing. kSystem: the folder cannot be read.
Result<std::vector<Found>> sweep(const std::string& folder, bool look_only = false);
// Removes all files of a domain but the lock file, which the caller holds.
void remove_all(const std::string& folder, std::uint64_t token) noexcept;

}  // namespace forklift::inline abi_0_1::segment
