// A child's report of an exception to its parent: a message of codec 5.
//
//   offset  size
//   0       4     version, 2
//   4       4     rank (-1: none)
//   8       4     pid
//   12      4     number of strings, at least 4
//   16      ...   strings: 4 bytes of length, then the bytes: type, message, process's name, stack (a frame a
//                 line), causes
//
// All numbers are little-endian. Nested exceptions are kept as text, outermost first, and at most 16 of them.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "channel/channel.h"
#include "forklift/remote_error.h"

namespace forklift::inline abi_0_1::process {

inline constexpr std::uint8_t kErrorCodec = 5;

// Runs `body`. Returns the exception that leaves it, with the stack of its throw, or nothing if it returns.
// The unwinding of a thread that ends (pthread_exit) passes through.
std::optional<RemoteError::Details> failure_of(const std::function<void()>& body);
// Describes the exception that is being handled, without a stack. Precondition: inside a catch clause.
RemoteError::Details describe_current_exception();

std::vector<std::byte> encode_report(const RemoteError::Details& details);
// kCorrupt: the bytes are no report.
Result<RemoteError::Details> decode_report(std::span<const std::byte> bytes);

// Takes the report from a channel, if there is one.
std::optional<RemoteError::Details> take_report(channel::Channel& reports);

// "std::out_of_range: no such key", the causes and the stack, a line each.
std::string describe(const RemoteError::Details& details);

}  // namespace forklift::inline abi_0_1::process
