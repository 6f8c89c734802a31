// An exception on its way from a child to its parent: a message of codec 5.
//
//   offset  size
//   0       4     version, 1
//   4       4     rank (-1: none)
//   8       4     pid
//   12      4     number of strings, at least 3
//   16      ...   strings: 4 bytes of length, then the bytes: type, message, process's name, causes
//
// little-endian. Nested exceptions are kept as text, outermost first.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "forklift/process.h"

namespace forklift::process {

inline constexpr std::uint8_t kErrorCodec = 5;

// The exception that is being handled. Precondition: inside a catch clause.
RemoteError::Details describe_current_exception();

std::vector<std::byte> encode_report(const RemoteError::Details& details);
// kCorrupt: it is no report.
Result<RemoteError::Details> decode_report(std::span<const std::byte> bytes);

// "std::out_of_range: no such key", and the causes, a line each.
std::string describe(const RemoteError::Details& details);

}  // namespace forklift::process
