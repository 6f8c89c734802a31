// UNIX sockets with names: short messages between processes of one machine, descriptors along with them.
//
//   Result<Fd> listener = listen_at(path);              Result<Fd> peer = connect_to(path);
//   Result<Fd> accepted = accept_from(*listener);          Status sent = send_packet(*peer, bytes, {});
//
// Packets (SOCK_SEQPACKET): one is received whole or not at all. The calls never wait; what would is a status
// with EAGAIN. Everything is close-on-exec.
//
// Thread safety: as for the descriptors.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "os/fd.h"

namespace forklift::os {

// A path that begins with a zero byte is an abstract address: no file, gone with the last descriptor of the
// socket that has it, the same in the whole network namespace, and open to every user, so look at peer_of().
// The path must fit into 107 bytes, and nothing may be there. kSystem.
Result<Fd> listen_at(const std::string& path);
// kSystem: ENOENT and ECONNREFUSED (nobody listens), EAGAIN (too many wait already), EPROTOTYPE (a socket of
// another sort).
Result<Fd> connect_to(const std::string& path);
Result<Fd> accept_from(const Fd& listener);

// An abstract address as a lock: nothing is sent there. kSystem: EADDRINUSE (somebody has it).
Result<Fd> claim_address(const std::string& path);
Result<bool> address_is_claimed(const std::string& path);

// Who is at the other end, as the kernel noted it when the two were connected. pid 0: of a pid namespace that
// is not seen from here.
struct Credentials {
  pid_t pid = 0;
  uid_t user = 0;
};
Result<Credentials> peer_of(const Fd& socket);

Status send_packet(const Fd& socket, std::span<const std::byte> bytes, std::span<const int> files);

struct Packet {
  std::size_t bytes = 0;  // 0: the other end is closed
  bool cut = false;       // it was longer than there was room for
  std::vector<Fd> files;
};
// Of files beyond `most_files` none is kept.
Result<Packet> receive_packet(const Fd& socket, std::span<std::byte> into, std::size_t most_files);

}  // namespace forklift::os
