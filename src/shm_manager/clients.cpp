#include "shm_manager/clients.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "os/local_socket.h"
#include "segment/files.h"

namespace forklift::inline abi_0_1::shm_manager {

namespace {

bool is_torchs_file(const std::string& name) {
  return name.starts_with("/torch_") && name.find('/', 1) == std::string::npos &&
         !segment::FileName::parse(std::string_view(name).substr(1));
}

bool exists(const std::string& name) {
  return os::Fd(::shm_open(name.c_str(), O_RDONLY | O_CLOEXEC, 0)).valid();
}

}  // namespace

Clients::~Clients() {
  if (listener_.valid()) segment::remove_file(segments_.socket());
}

Status Clients::listen() {
  const std::string path = segments_.socket();
  struct stat info{};
  if (listener_.valid() && ::lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode)) return {};
  // A killed manager's; only one manager lives.
  segment::remove_file(path);
  // The file is for this user alone: the program's umask is 077.
  Result<os::Fd> socket = os::listen_at(path, os::SocketKind::kStream);
  if (!socket) return socket.status();
  listener_ = *std::move(socket);
  return {};
}

void Clients::watch(std::vector<pollfd>& items) const {
  items.push_back({full_ ? -1 : listener_.get(), POLLIN, 0});
  for (const Client& client : clients_) items.push_back({client.socket.get(), POLLIN, 0});
}

void Clients::serve(const std::vector<pollfd>& items, std::size_t at) {
  full_ = false;
  const bool knocked = items[at++].revents != 0;
  std::vector<Client> stay;
  for (Client& client : clients_) {
    if (items[at++].revents == 0 || read_from(client)) stay.push_back(std::move(client));
  }
  clients_ = std::move(stay);
  if (clients_.empty()) remove_torchs_files();
  if (knocked) accept_all();
}

void Clients::accept_all() {
  for (;;) {
    Result<os::Fd> socket = os::accept_from(listener_);
    if (!socket) {
      const int error = socket.status().errno_value();
      full_ = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
      return;
    }
    const Result<os::Credentials> peer = os::peer_of(*socket);
    if (!peer || peer->user != ::geteuid()) continue;
    clients_.emplace_back().socket = *std::move(socket);
  }
}

bool Clients::read_from(Client& client) {
  for (;;) {
    const ssize_t got =
        ::recv(client.socket.get(), client.bytes.data() + client.have, sizeof(Request) - client.have, 0);
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    if (got == 0) return false;
    client.have += static_cast<std::size_t>(got);
    if (client.have < sizeof(Request)) continue;
    Request request;
    std::memcpy(&request, client.bytes.data(), sizeof request);
    client.have = 0;
    if (!answer(client, request)) return false;
  }
}

bool Clients::answer(Client& client, const Request& request) {
  const std::string name(request.name.data(), ::strnlen(request.name.data(), request.name.size()));
  if (request.free != 0) {
    const auto held = std::find_if(client.held.begin(), client.held.end(),
                                   [&](const auto& entry) { return entry.first == name; });
    if (held != client.held.end()) client.held.erase(held);
    // Others may use it yet.
    if (torchs_files_.count(name) != 0 && !exists(name)) torchs_files_.erase(name);
    return true;
  }
  const std::optional<segment::FileName> parsed =
      name.starts_with('/') ? segment::FileName::parse(std::string_view(name).substr(1)) : std::nullopt;
  const bool ours =
      parsed && parsed->kind == segment::FileKind::kSegment && parsed->token == segments_.token();
  Result<segment::LeasePtr> lease = ours ? segments_.hold(parsed->number) : Status(Code::kNotFound, name);
  const bool torchs = is_torchs_file(name);
  const bool found = lease.ok() || torchs;
  if (lease) client.held.emplace_back(name, *std::move(lease));
  if (torchs) torchs_files_.insert(name);
  return ::send(client.socket.get(), found ? "OK" : "NO", 2, MSG_NOSIGNAL) == 2;
}

void Clients::remove_torchs_files() {
  for (const std::string& name : torchs_files_) ::shm_unlink(name.c_str());
  torchs_files_.clear();
}

}  // namespace forklift::inline abi_0_1::shm_manager
