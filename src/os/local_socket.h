// Named UNIX sockets: processes of one machine send each other short messages, and descriptors with them.
//
//   Result<Fd> listener = listen_at(path);              Result<Fd> peer = connect_to(path);
//   Result<Fd> accepted = accept_from(*listener);          Status sent = send_packet(*peer, bytes, {});
//
// The sockets carry packets (SOCK_SEQPACKET), which keep message boundaries, or on request a stream of bytes. No
// call blocks; one that would block returns a status with EAGAIN. All descriptors are close-on-exec.
//
// Thread safety: that of the descriptors.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "os/fd.h"

namespace forklift::inline abi_0_1::os {

enum class SocketKind {
  kPackets,
  kStream
};

// Makes a listening socket. A path that begins with a zero byte is an abstract address: it has no file,
// disappears with the last descriptor of its socket, is the same in the whole network namespace, and is open
// to every user, so check peer_of(). The path must fit into 107 bytes and must not be in use. kSystem.
Result<Fd> listen_at(const std::string& path, SocketKind kind = SocketKind::kPackets);
// kSystem: ENOENT and ECONNREFUSED (nobody listens), EAGAIN (the backlog is full), EPROTOTYPE (a socket of
// another type is there).
Result<Fd> connect_to(const std::string& path, SocketKind kind = SocketKind::kPackets);
Result<Fd> accept_from(const Fd& listener);

// An abstract address used as a lock, held as long as the descriptor is open; nothing is sent to it. kSystem:
// EADDRINUSE (another socket has the address).
Result<Fd> claim_address(const std::string& path);
Result<bool> address_is_claimed(const std::string& path);

// The process at the other end, as the kernel recorded it when the sockets were connected. pid 0: it is in a
// pid namespace that is not visible from this one.
struct Credentials {
  pid_t pid = 0;
  uid_t user = 0;
};
Result<Credentials> peer_of(const Fd& socket);

// A socket that receives single bytes from any process of the network namespace, which names it by a number that is
// never 0: an abstract address of the kernel's choice. It goes with the last descriptor.
struct ByteSocket {
  Fd socket;
  std::uint64_t address = 0;
};
Result<ByteSocket> open_byte_socket();
// A socket for sending to these.
Result<Fd> open_byte_sender();
// False: nobody has the address in this network namespace, or `sender` is no such socket. True also where bytes wait
// there already and no more have room.
bool send_byte_to(int sender, std::uint64_t address) noexcept;
// Takes all that wait.
void drain_bytes(int socket) noexcept;

Status send_packet(const Fd& socket, std::span<const std::byte> bytes, std::span<const int> files);

struct Packet {
  std::size_t bytes = 0;  // 0: the other end is closed
  bool cut = false;       // bytes or descriptors were lost for lack of room
  std::vector<Fd> files;
};
// If more than `most_files` descriptors come, none is kept and the packet is `cut`.
Result<Packet> receive_packet(const Fd& socket, std::span<std::byte> into, std::size_t most_files);

}  // namespace forklift::inline abi_0_1::os
