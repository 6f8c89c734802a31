// Names of the files that belong to the named segments of a domain: forklift-<token>-<number> for a segment,
// forklift-<token>.lock, which its users lock (segment/owner_lock.h), and forklift-<token>.sock, the manager's
// socket. The token is the domain's random number, in 16 hexadecimal digits. A segment that torch's own
// functions open is called torch_<pid>_<token>-<number>, as torch's files begin with torch_<pid>: programs
// look for their files that way. The pid is its maker's, and means nothing to Forklift.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "forklift/status.h"

namespace forklift::inline abi_0_1::segment {

enum class FileKind : std::uint8_t {
  kSegment,
  kLock,
  kSocket
};

struct FileName {
  FileKind kind = FileKind::kSegment;
  std::uint64_t token = 0;
  std::uint64_t number = 0;  // of a segment
  std::uint32_t pid = 0;     // of a segment whose name begins as torch's, or 0

  std::string text() const;
  // The path; with an empty folder the name for shm_open(3).
  std::string in(const std::string& folder) const { return folder + "/" + text(); }
  // nullopt: a file of something else.
  static std::optional<FileName> parse(std::string_view text);
};

// A segment's number: its row and the row's generation, so that no two segments of a domain ever have the
// same name.
inline constexpr std::uint64_t number_of(std::uint32_t index, std::uint32_t generation) noexcept {
  return (std::uint64_t{generation} << 24) | index;
}
inline constexpr std::uint32_t index_of(std::uint64_t number) noexcept {
  return static_cast<std::uint32_t>(number & 0xffffff);
}
inline constexpr std::uint32_t generation_of(std::uint64_t number) noexcept {
  return static_cast<std::uint32_t>(number >> 24);
}

// Of the manager's socket, whose name must fit into 107 bytes.
inline constexpr std::size_t kLongestFolder = 72;

// FORKLIFT_SHM_DIR, or /dev/shm. kInvalid: not an absolute path, or too long.
Result<std::string> default_folder();

}  // namespace forklift::inline abi_0_1::segment
