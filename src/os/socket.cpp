#include "os/socket.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

#include <cerrno>

namespace forklift::inline abi_0_1::os {

namespace {

Readiness poll_one(int fd, short events, std::int64_t timeout_ns) noexcept {
  pollfd item{fd, events, 0};
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(timeout_ns / 1'000'000'000);
  timeout.tv_nsec = static_cast<long>(timeout_ns % 1'000'000'000);
  const int rc = ::ppoll(&item, 1, timeout_ns < 0 ? nullptr : &timeout, nullptr);
  if (rc < 0)
    return {
        .interrupted = errno == EINTR,
    };
  return {(item.revents & POLLIN) != 0, (item.revents & (POLLHUP | POLLERR)) != 0,
          (item.revents & POLLNVAL) != 0, false};
}

}  // namespace

Result<std::pair<Fd, Fd>> stream_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
    return Status::system("socketpair", errno, "the two ends of a pipe");
  return std::pair<Fd, Fd>(Fd(fds[0]), Fd(fds[1]));
}

Readiness wait_readable(int fd, std::int64_t timeout_ns) noexcept { return poll_one(fd, POLLIN, timeout_ns); }

Readiness look(int fd) noexcept { return poll_one(fd, 0, 0); }

std::size_t readable_bytes(int fd) noexcept {
  int bytes = 0;
  return ::ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

std::size_t send_buffer_bytes(int fd) noexcept {
  int bytes = 0;
  socklen_t size = sizeof bytes;
  const int rc = ::getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &size);
  return rc == 0 && bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

int peek(int fd, std::span<std::byte> into) noexcept {
  return static_cast<int>(::recv(fd, into.data(), into.size(), MSG_PEEK | MSG_DONTWAIT));
}

void discard(int fd, std::span<std::byte> through) noexcept {
  (void)!::recv(fd, through.data(), through.size(), MSG_DONTWAIT);
}

bool send_byte(int fd, std::byte value) noexcept {
  return ::send(fd, &value, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

}  // namespace forklift::inline abi_0_1::os
