// Values and descriptors between a test and its child.
//
//   Wire wire;                                        // before the fork
//   Child child([&] { Wire::End end = wire.child(); end.send(handle); });
//   Wire::End end = wire.parent();
//   auto handle = end.receive<IpcMemoryHandle>();
//
// Each process takes its end once, which closes the other one there, so that the peer's death ends a receive.
// Thread safety: as of the descriptors.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "os/fd.h"
#include "os/local_socket.h"

namespace forklift::test {

class Wire {
 public:
  class End {
   public:
    explicit End(os::Fd socket) : socket_(std::move(socket)) {}

    template <class T>
    void send(const T& value, std::span<const int> files = {}) const {
      const Status sent = os::send_packet(socket_, std::as_bytes(std::span(&value, 1)), files);
      EXPECT_TRUE(sent.ok()) << sent.to_string();
    }
    // Zeros when the peer has ended.
    template <class T>
    T receive() {
      T value{};
      pollfd item{socket_.get(), POLLIN, 0};
      while (::poll(&item, 1, kPatienceMs) < 0 && errno == EINTR) {
      }
      Result<os::Packet> got = os::receive_packet(socket_, std::as_writable_bytes(std::span(&value, 1)), 1);
      EXPECT_TRUE(got.ok() && got->bytes == sizeof value) << "the other process sent nothing";
      if (got.ok() && !got->files.empty()) file_ = std::move(got->files.front());
      return value;
    }
    // The descriptor that came with the last value.
    os::Fd take_file() { return std::move(file_); }
    // Lets the other process go on, and waits for it.
    void signal() const { send('!'); }
    void wait() { EXPECT_EQ(receive<char>(), '!'); }

   private:
    static constexpr int kPatienceMs = 30'000;

    os::Fd socket_;
    os::Fd file_;
  };

  Wire() {
    int made[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, made), 0);
    ends_ = {os::Fd(made[0]), os::Fd(made[1])};
  }
  End parent() { return take(0); }
  End child() { return take(1); }

 private:
  End take(std::size_t which) {
    ends_[1 - which].close();
    return End(std::move(ends_[which]));
  }

  std::array<os::Fd, 2> ends_;
};

}  // namespace forklift::test
