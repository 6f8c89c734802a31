#include "process/zygote_wire.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "process/bytes.h"

namespace forklift::inline abi_0_1::process {
namespace {

constexpr std::uint32_t kMagic = 0x5a594731;  // "ZYG1"
constexpr std::size_t kMostDescriptors = 32;
constexpr std::size_t kMostBytes = 64 * 1024;

union Control {
  cmsghdr align;
  std::byte bytes[CMSG_SPACE(sizeof(int) * (kMostDescriptors + 1))];
};

std::vector<os::Fd> received_descriptors(msghdr& message) {
  std::vector<os::Fd> found;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(part) + i * sizeof(int), sizeof number);
      found.emplace_back(number);
    }
  }
  return found;
}

bool decode(std::span<const std::byte> bytes, Request& into) {
  std::uint32_t header[2];
  if (bytes.size() < sizeof header) return false;
  std::memcpy(header, bytes.data(), sizeof header);
  if (header[0] != kMagic || header[1] > kMostDescriptors) return false;
  bytes = bytes.subspan(sizeof header);
  const std::size_t count = header[1];
  if (bytes.size() < count * sizeof(std::int32_t) || into.descriptors.size() != count + 1) return false;
  into.numbers.resize(count);
  if (count > 0) std::memcpy(into.numbers.data(), bytes.data(), count * sizeof(std::int32_t));
  bytes = bytes.subspan(count * sizeof(std::int32_t));
  while (!bytes.empty()) {
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    const std::size_t length = ::strnlen(text, bytes.size());
    if (length == bytes.size()) return false;  // without a terminating zero
    into.variables.emplace_back(text, length);
    bytes = bytes.subspan(length + 1);
  }
  return true;
}

}  // namespace

Status send_request(int socket, const std::vector<std::int32_t>& numbers,
                    const std::vector<std::string>& variables, std::span<const int> descriptors) {
  std::vector<std::byte> bytes;
  const std::uint32_t header[2] = {kMagic, static_cast<std::uint32_t>(numbers.size())};
  append(bytes, header, sizeof header);
  append(bytes, numbers.data(), numbers.size() * sizeof numbers[0]);
  for (const std::string& variable : variables) append(bytes, variable.c_str(), variable.size() + 1);
  if (bytes.size() > kMostBytes || descriptors.size() > kMostDescriptors + 1) {
    return {Code::kInvalid, "what a forkserver's child is to be told takes " + std::to_string(bytes.size()) +
                                " bytes; at most " + std::to_string(kMostBytes)};
  }
  Control control{};
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = &control;
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return Status::system("sendmsg", errno, "to the forkserver");
  return {};
}

Result<std::optional<Request>> receive_request(int socket) {
  ssize_t size = 0;
  do {
    size = ::recv(socket, nullptr, 0, MSG_PEEK | MSG_TRUNC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) return Status::system("recv", errno, "from the forkserver's parent");
  if (size == 0) return std::optional<Request>();
  std::vector<std::byte> bytes(std::min(static_cast<std::size_t>(size), kMostBytes));
  Control control{};
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = &control;
  message.msg_controllen = sizeof control;
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return Status::system("recvmsg", errno, "from the forkserver's parent");
  Request request;
  request.descriptors = received_descriptors(message);
  const bool whole = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  if (!whole || !decode(std::span(bytes).first(static_cast<std::size_t>(got)), request)) {
    return {Code::kCorrupt, "a malformed request to the forkserver"};
  }
  return std::optional<Request>(std::move(request));
}

}  // namespace forklift::inline abi_0_1::process
