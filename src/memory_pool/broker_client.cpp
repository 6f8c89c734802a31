#include "memory_pool/broker_client.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>
#include <vector>

#include "os/local_socket.h"
#include "os/socket.h"
#include "segment/start_manager.h"

namespace forklift::inline abi_0_1::memory_pool {

namespace {

constexpr double kStartSeconds = 10;
// Each attempt meets a broker that dies on the way.
constexpr int kAttempts = 8;

std::string text_of(PoolRef pool) {
  return "memory pool " + std::to_string(pool.index) + " of generation " + std::to_string(pool.generation);
}

Status to_status(BrokerAnswer answer, PoolRef pool) {
  switch (answer) {
    case BrokerAnswer::kDone: return {};
    case BrokerAnswer::kGone: return {Code::kInvalid, text_of(pool) + " is gone"};
    case BrokerAnswer::kUnknown:
      return {Code::kNotFound, "nobody has handed in the descriptor of " + text_of(pool)};
    case BrokerAnswer::kFull:
      return {Code::kNoSpace, "the broker of memory pools can have no more descriptors (RLIMIT_NOFILE)"};
  }
  return {Code::kCorrupt, "the broker of memory pools has answered " +
                              std::to_string(static_cast<std::uint32_t>(answer)) + ", which is no answer"};
}

// Waits until there is something to read. kStalled with the pid of who does not answer.
Status wait_for_answer(const os::Fd& socket, pid_t broker, os::Deadline deadline) {
  while (!os::wait_readable(socket.get(), deadline.left_ns(1'000'000'000)).readable) {
    if (deadline.passed())
      return {Code::kStalled, "the broker of memory pools, process " + std::to_string(broker) +
                                  ", does not answer; is it stopped?"};
  }
  return {};
}

}  // namespace

std::string broker_address(std::uint64_t domain_id) {
  char text[40];
  const int length =
      std::snprintf(text, sizeof text, "forklift-pools-%016llx", static_cast<unsigned long long>(domain_id));
  return std::string(1, '\0') + std::string(text, static_cast<std::size_t>(length));
}

Result<std::optional<os::Fd>> BrokerClient::ask_once(const BrokerRequest& request, const os::Fd* descriptor,
                                                     os::Deadline deadline) const {
  Result<os::Fd> socket = os::connect_to(address_);
  while (socket.status().errno_value() == EAGAIN && !deadline.passed()) {
    ::usleep(1000);  // more processes ask at once than the broker has places for
    socket = os::connect_to(address_);
  }
  const int error = socket.status().errno_value();
  if (error == ECONNREFUSED || error == ENOENT) return std::optional<os::Fd>();
  if (error == EAGAIN)
    return Status(Code::kStalled, "the broker of memory pools takes no more requests; is it stopped?");
  if (!socket) return socket.status();
  const Result<os::Credentials> peer = os::peer_of(*socket);
  if (!peer) return peer.status();
  if (peer->user != ::geteuid())
    return Status(Code::kRefused,
                  "the address of the broker of memory pools is taken by user " + std::to_string(peer->user));
  const int file = descriptor != nullptr ? descriptor->get() : -1;
  const Status sent =
      os::send_packet(*socket, std::as_bytes(std::span(&request, 1)),
                      std::span(&file, descriptor != nullptr ? std::size_t{1} : std::size_t{0}));
  if (sent.errno_value() == EPIPE || sent.errno_value() == ECONNRESET) return std::optional<os::Fd>();
  if (!sent) return sent;
  if (Status status = wait_for_answer(*socket, peer->pid, deadline); !status) return status;
  BrokerAnswer answer{};
  Result<os::Packet> packet = os::receive_packet(*socket, std::as_writable_bytes(std::span(&answer, 1)), 1);
  if (packet.status().errno_value() == ECONNRESET || (packet && packet->bytes == 0))
    return std::optional<os::Fd>();
  if (!packet) return packet.status();
  if (packet->bytes != sizeof answer)
    return Status(Code::kCorrupt,
                  "the broker of memory pools has answered with " + std::to_string(packet->bytes) + " bytes");
  if (Status status = to_status(answer, request.pool); !status) return status;
  if (request.verb == Verb::kKeep) return std::optional<os::Fd>(os::Fd());
  if (packet->files.size() != 1)
    return Status(Code::kNoSpace, "no descriptor is left for a memory pool in this process (RLIMIT_NOFILE)");
  return std::optional<os::Fd>(std::move(packet->files[0]));
}

Result<os::Fd> BrokerClient::ask(const BrokerRequest& request, const os::Fd* descriptor,
                                 os::Deadline deadline, bool start) const {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Result<std::optional<os::Fd>> got = ask_once(request, descriptor, deadline);
    if (!got) return got.status();
    if (*got) return *std::move(*got);
    if (!start) break;
    Status started = segment::start_broker(domain_, os::Deadline::after_seconds(kStartSeconds));
    if (!started) return started;
  }
  return Status(Code::kPeerDied, "the broker of memory pools is gone");
}

Status BrokerClient::keep(PoolRef pool, const os::Fd& descriptor) const {
  return ask({Verb::kKeep, pool, 0}, &descriptor, os::Deadline::after_seconds(kAskSeconds), true).status();
}

Status BrokerClient::keep_if_there(PoolRef pool, const os::Fd& descriptor, double seconds) const {
  return ask({Verb::kKeep, pool, 0}, &descriptor, os::Deadline::after_seconds(seconds), false).status();
}

Result<os::Fd> BrokerClient::give(PoolRef pool) const {
  return ask({Verb::kGive, pool, 0}, nullptr, os::Deadline::after_seconds(kAskSeconds), true);
}

void BrokerClient::tell_gone() const noexcept { (void)os::connect_to(address_); }

}  // namespace forklift::inline abi_0_1::memory_pool
