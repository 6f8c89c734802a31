#include "os/local_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>

namespace forklift::inline abi_0_1::os {

namespace {

// The most descriptors that the kernel passes in one message, so that none can be lost unnoticed.
constexpr std::size_t kMostPassed = 253;
constexpr std::size_t kAutobindDigits = 5;

struct Address {
  sockaddr_un it{};
  socklen_t bytes = sizeof(sockaddr_un);
  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&it); }
};

bool set_address(Address& address, const std::string& path) {
  if (path.size() >= sizeof address.it.sun_path) return false;
  address.it.sun_family = AF_UNIX;
  std::memcpy(address.it.sun_path, path.data(), path.size());
  // An abstract address is not terminated by a zero: it consists of all its bytes.
  if (!path.empty() && path.front() == '\0')
    address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  return true;
}

// The path in messages for people: '@' stands for the leading zero of an abstract address.
std::string shown(std::string path) {
  if (!path.empty() && path.front() == '\0') path.front() = '@';
  return path;
}

Result<Fd> make_socket(const std::string& path, Address& address, int type) {
  if (!set_address(address, path)) return Status::system("bind", ENAMETOOLONG, shown(path));
  Fd socket(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return Status::system("socket", errno, shown(path));
  return socket;
}

int type_of(SocketKind kind) { return kind == SocketKind::kStream ? SOCK_STREAM : SOCK_SEQPACKET; }

void take_files(const msghdr& message, std::vector<Fd>& files) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(const_cast<msghdr*>(&message), part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(part) + i * sizeof file, sizeof file);
      files.emplace_back(file);
    }
  }
}

}  // namespace

Result<Fd> listen_at(const std::string& path, SocketKind kind) {
  Address address;
  Result<Fd> socket = make_socket(path, address, type_of(kind));
  if (!socket) return socket.status();
  if (::bind(socket->get(), address.get(), address.bytes) != 0)
    return Status::system("bind", errno, shown(path));
  if (::listen(socket->get(), 128) != 0) return Status::system("listen", errno, shown(path));
  return socket;
}

Result<Fd> connect_to(const std::string& path, SocketKind kind) {
  Address address;
  Result<Fd> socket = make_socket(path, address, type_of(kind));
  if (!socket) return socket.status();
  if (::connect(socket->get(), address.get(), address.bytes) != 0)
    return Status::system("connect", errno, shown(path));
  return socket;
}

Result<Fd> claim_address(const std::string& path) {
  Address address;
  Result<Fd> socket = make_socket(path, address, SOCK_DGRAM);
  if (!socket) return socket.status();
  if (::bind(socket->get(), address.get(), address.bytes) != 0)
    return Status::system("bind", errno, shown(path));
  return socket;
}

Result<bool> address_is_claimed(const std::string& path) {
  Address address;
  Result<Fd> socket = make_socket(path, address, SOCK_DGRAM);
  if (!socket) return socket.status();
  if (::connect(socket->get(), address.get(), address.bytes) == 0) return true;
  if (errno == ECONNREFUSED || errno == ENOENT) return false;
  return Status::system("connect", errno, shown(path));
}

Result<Fd> accept_from(const Fd& listener) {
  const int accepted = ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (accepted < 0) return Status::system("accept4", errno);
  return Fd(accepted);
}

Result<Credentials> peer_of(const Fd& socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    return Status::system("getsockopt(SO_PEERCRED)", errno);
  return Credentials{peer.pid, peer.uid};
}

Result<ByteSocket> open_byte_socket() {
  ByteSocket made{Fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))};
  if (!made.socket.valid()) return Status::system("socket", errno, "a descriptor to wait on");
  // An address without a path: the kernel chooses one, a zero byte and five hexadecimal digits (unix(7), autobind).
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socklen_t bytes = sizeof(sa_family_t);
  if (::bind(made.socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0)
    return Status::system("bind", errno, "a descriptor to wait on");
  bytes = sizeof address;
  if (::getsockname(made.socket.get(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0)
    return Status::system("getsockname", errno, "a descriptor to wait on");
  const std::size_t digits = bytes - offsetof(sockaddr_un, sun_path) - 1;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(address.sun_path + 1, address.sun_path + 1 + digits, number, 16);
  if (error != std::errc() || digits != kAutobindDigits)
    return Status(Code::kSystem, "the kernel chose an address of another form");
  made.address = number + 1;
  return made;
}

Result<Fd> open_byte_sender() {
  Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return Status::system("socket", errno, "for waking other processes");
  return socket;
}

bool send_byte_to(int sender, std::uint64_t address) noexcept {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::uint64_t number = address - 1;
  for (std::size_t digit = kAutobindDigits; digit > 0; --digit, number >>= 4)
    to.sun_path[digit] = "0123456789abcdef"[number & 15];
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + kAutobindDigits);
  const char byte = 1;
  const ssize_t sent =
      ::sendto(sender, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to), bytes);
  return sent == 1 || (sent < 0 && errno == EAGAIN);
}

void drain_bytes(int socket) noexcept {
  // One call takes them all, where there are not many.
  constexpr unsigned kAtOnce = 16;
  std::array<char, kAtOnce> bytes{};
  std::array<iovec, kAtOnce> places{};
  std::array<mmsghdr, kAtOnce> messages{};
  for (unsigned i = 0; i < kAtOnce; ++i) {
    places[i] = {&bytes[i], 1};
    messages[i].msg_hdr.msg_iov = &places[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  while (::recvmmsg(socket, messages.data(), kAtOnce, MSG_DONTWAIT, nullptr) == static_cast<int>(kAtOnce)) {
  }
}

Status send_packet(const Fd& socket, std::span<const std::byte> bytes, std::span<const int> files) {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(8 * sizeof(int))> control{};
  if (files.size() > 8) return Status::system("sendmsg", EINVAL, "too many descriptors");
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!files.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(files.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(files.size_bytes());
    std::memcpy(CMSG_DATA(header), files.data(), files.size_bytes());
  }
  if (::sendmsg(socket.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
    return Status::system("sendmsg", errno);
  return {};
}

Result<Packet> receive_packet(const Fd& socket, std::span<std::byte> into, std::size_t most_files) {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMostPassed * sizeof(int))> control;
  iovec part{into.data(), into.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return Status::system("recvmsg", errno);
  Packet packet;
  packet.bytes = static_cast<std::size_t>(got);
  packet.cut = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  take_files(message, packet.files);
  if (packet.files.size() > most_files) {
    packet.files.clear();
    packet.cut = true;
  }
  return packet;
}

}  // namespace forklift::inline abi_0_1::os
