// A pair of connected stream sockets as the ends of a pipe. They are inherited and passed like any
// descriptor; an end is at end-of-file when no process holds the other end. No call here blocks, except
// wait_readable.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "os/fd.h"

namespace forklift::inline abi_0_1::os {

// Both are close-on-exec and in blocking mode.
Result<std::pair<Fd, Fd>> stream_pair();

// What poll(2) reports at once, or after at most `timeout_ns` (negative: no time-out).
struct Readiness {
  bool readable = false;  // also at end-of-file
  bool hung_up = false;   // no process holds the other end
  bool invalid = false;   // the descriptor is not open (any more)
  bool interrupted = false;
};
Readiness wait_readable(int fd, std::int64_t timeout_ns) noexcept;
// Looks only for a hang-up: one call, whether or not there is something to read.
Readiness look(int fd) noexcept;

// Bytes that can be read now; 0 at end-of-file, too.
std::size_t readable_bytes(int fd) noexcept;
// How much the kernel takes from a writer before the writer blocks, as the kernel counts (SO_SNDBUF); 0 if
// `fd` is no socket.
std::size_t send_buffer_bytes(int fd) noexcept;
// Copies the next bytes without consuming them. Returns how many; 0 at end-of-file, -1 when there is nothing.
int peek(int fd, std::span<std::byte> into) noexcept;
void discard(int fd, std::span<std::byte> through) noexcept;
// False: the byte was not sent, since the buffer is full (then there is enough to read) or no process holds
// the other end.
bool send_byte(int fd, std::byte value) noexcept;

}  // namespace forklift::inline abi_0_1::os
