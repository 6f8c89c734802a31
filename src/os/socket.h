// A pair of connected stream sockets as a pipe's ends: inherited and passed like any descriptor, at its end
// when nobody holds the other one. The calls never wait.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "os/fd.h"

namespace forklift::os {

// Close-on-exec; reading and writing them blocks, as for any socket.
Result<std::pair<Fd, Fd>> stream_pair();

// What poll(2) says just now, or after at most `timeout_ns` (negative: without end).
struct Readiness {
  bool readable = false;  // also at the end
  bool hung_up = false;   // nobody holds the other end
  bool invalid = false;   // no such descriptor (any more)
  bool interrupted = false;
};
Readiness wait_readable(int fd, std::int64_t timeout_ns) noexcept;
// The hang-up alone: one call, whatever there is to read.
Readiness look(int fd) noexcept;

// Bytes that can be read; 0 at the end, too.
std::size_t readable_bytes(int fd) noexcept;
// What the kernel takes from a writer before it waits, in its own way of counting; 0 for no socket.
std::size_t send_buffer_bytes(int fd) noexcept;
// Copies what comes next without taking it: how much, 0 at the end, -1 when there is nothing.
int peek(int fd, std::span<std::byte> into) noexcept;
void discard(int fd, std::span<std::byte> through) noexcept;
// False: it was not sent; the buffer is full (then there is enough to read) or nobody is at the other end.
bool send_byte(int fd, std::byte value) noexcept;

}  // namespace forklift::os
