#include "shm_manager/registration.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "os/clock.h"
#include "os/local_socket.h"
#include "os/socket.h"
#include "segment/files.h"
#include "shm_manager/clients.h"

namespace forklift::inline abi_0_1::shm_manager {

namespace {

constexpr std::int64_t kPatienceNs = 2'000'000'000;

// A connection on which the manager has said that it keeps the name; none when there is no manager.
Result<os::Fd> register_name(const std::string& path, const std::string& name) {
  Result<os::Fd> socket = os::connect_to(path, os::SocketKind::kStream);
  if (!socket) {
    const int error = socket.status().errno_value();
    return error == ENOENT || error == ECONNREFUSED ? os::Fd() : std::move(socket);
  }
  const Result<os::Credentials> peer = os::peer_of(*socket);
  if (!peer || peer->user != ::geteuid()) return Status(Code::kRefused, path + " is another user's");
  Request request;
  request.pid = ::getpid();
  std::copy_n(name.data(), std::min(name.size(), request.name.size() - 1), request.name.data());
  if (::send(socket->get(), &request, sizeof request, MSG_NOSIGNAL) != sizeof request) return os::Fd();
  const os::Deadline deadline = os::Deadline::after_ns(kPatienceNs);
  while (os::wait_readable(socket->get(), deadline.left_ns(kPatienceNs)).interrupted && !deadline.passed()) {
  }
  // The manager writes both bytes at once.
  char answer[2] = {};
  if (::recv(socket->get(), answer, sizeof answer, 0) != sizeof answer) return os::Fd();
  if (std::memcmp(answer, "OK", 2) != 0) return Status(Code::kNotFound, "there is no named segment " + name);
  return socket;
}

}  // namespace

bool Registered::is_kept() const noexcept {
  return connection_.valid() && !os::look(connection_.get()).hung_up;
}

Result<Registered> open_registered(const std::string& name, std::uint64_t bytes, std::uint64_t head) {
  const Result<std::string> folder = segment::default_folder();
  if (!folder) return folder.status();
  const std::optional<segment::FileName> file =
      segment::FileName::parse(name.starts_with('/') ? name.substr(1) : name);
  if (!file || file->kind != segment::FileKind::kSegment || bytes == 0)
    return Status(Code::kInvalid, name + " is not the name of a named segment");
  const segment::FileName socket{segment::FileKind::kSocket, file->token, 0};
  Result<os::Fd> connection = register_name(socket.in(*folder), file->in(""));
  if (!connection) return connection.status();
  const Result<os::Fd> opened = segment::open_file(file->in(*folder), head + bytes);
  if (!opened) return opened.status();
  Result<os::Mapping> mapping = os::Mapping::shared(*opened, 0, head + bytes);
  if (!mapping) return mapping.status();
  return Registered(*std::move(connection), *std::move(mapping), head);
}

}  // namespace forklift::inline abi_0_1::shm_manager
