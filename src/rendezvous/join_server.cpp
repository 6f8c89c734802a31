#include "rendezvous/join_server.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "node/node.h"
#include "os/local_socket.h"
#include "rendezvous/handshake.h"

namespace forklift::inline abi_0_1::rendezvous {
namespace {

constexpr std::size_t kMostWaiting = 64;  // joining processes that have not said anything yet
constexpr std::int64_t kCrowdedNs = 100'000'000;
constexpr std::int64_t kFirstReapNs = 2'000'000;
constexpr int kReaps = 5;  // after 0, 2, 8, 32, 128 ms

std::int64_t reap_pause(int left) {
  std::int64_t pause = kFirstReapNs;
  for (int done = kReaps - 1; done > left; --done) pause *= 4;
  return pause;
}

MessageType verdict(const Status& status, const Handshake& own, const Handshake& connection) {
  if (status.code() == Code::kVersion) return MessageType::kOtherVersion;
  return own.user != connection.user ? MessageType::kOtherUser : MessageType::kOtherNamespace;
}

}  // namespace

void JoinServer::close() noexcept {
  listener_.close();
  connections_.clear();
}

std::int64_t JoinServer::wait_ns(std::int64_t longest_ns) const {
  std::int64_t until = 0;
  const auto sooner = [&until](std::int64_t when) {
    if (when != 0 && (until == 0 || when < until)) until = when;
  };
  sooner(reap_at_ns_);
  sooner(crowded_until_ns_);
  for (const Connection& connection : connections_) sooner(connection.until_ns);
  if (until == 0) return longest_ns;
  const std::int64_t wait = std::max<std::int64_t>(0, until - os::now_ns());
  return longest_ns < 0 ? wait : std::min(wait, longest_ns);
}

void JoinServer::turn(int stop, std::int64_t longest_ns) {
  std::vector<pollfd> items;
  items.reserve(connections_.size() + 2);
  items.push_back({stop, POLLIN, 0});
  items.push_back({crowded_until_ns_ == 0 ? listener_.get() : -1, POLLIN, 0});
  for (const Connection& connection : connections_) items.push_back({connection.socket.get(), POLLIN, 0});
  const std::int64_t wait = wait_ns(longest_ns);
  timespec time{};
  time.tv_sec = static_cast<time_t>(wait / 1'000'000'000);
  time.tv_nsec = static_cast<long>(wait % 1'000'000'000);
  if (::ppoll(items.data(), items.size(), wait < 0 ? nullptr : &time, nullptr) < 0) return;
  if (items[0].revents != 0) return;
  std::size_t at = 2;
  for (auto connection = connections_.begin(); connection != connections_.end(); ++at) {
    const bool stays = items[at].revents == 0 || hear(*connection);
    connection = stays ? std::next(connection) : connections_.erase(connection);
  }
  if (items[1].revents != 0) admit();
  run_timers();
}

void JoinServer::run_timers() {
  const std::int64_t now = os::now_ns();
  connections_.remove_if(
      [now](const Connection& connection) { return connection.until_ns != 0 && connection.until_ns <= now; });
  if (crowded_until_ns_ != 0 && crowded_until_ns_ <= now) crowded_until_ns_ = 0;
  if (reap_at_ns_ == 0 || reap_at_ns_ > now) return;
  node_.domain().try_reap();
  reap_at_ns_ = --reaps_left_ > 0 ? now + reap_pause(reaps_left_) : 0;
}

void JoinServer::expect_death() {
  reaps_left_ = kReaps;
  reap_at_ns_ = os::now_ns();
}

void JoinServer::admit() {
  Result<os::Fd> socket = os::accept_from(listener_);
  if (!socket) {
    const int error = socket.status().errno_value();
    // The connection that waits would make every further poll return at once.
    if (error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS)
      crowded_until_ns_ = os::now_ns() + kCrowdedNs;
    return;
  }
  const auto waits = [](const Connection& connection) { return connection.until_ns != 0; };
  if (std::count_if(connections_.begin(), connections_.end(), waits) >=
      static_cast<std::ptrdiff_t>(kMostWaiting)) {
    connections_.erase(
        std::find_if(connections_.begin(), connections_.end(), waits));  // the one that has waited longest
  }
  connections_.push_back({*std::move(socket), os::now_ns() + kHandshakeNs});
}

bool JoinServer::hear(Connection& connection) {
  std::array<std::byte, 2 * sizeof(Handshake)> buffer;
  Result<os::Packet> packet = os::receive_packet(connection.socket, buffer, 0);
  if (!packet) return packet.status().errno_value() == EAGAIN || packet.status().errno_value() == EINTR;
  const bool member = connection.until_ns == 0;
  if (packet->bytes == 0 && member) expect_death();
  // A member sends nothing more.
  if (packet->bytes == 0 || packet->cut || member) return false;
  return answer(connection, std::span(buffer).first(packet->bytes));
}

bool JoinServer::answer(Connection& connection, std::span<const std::byte> packet) {
  const std::optional<Handshake> heard = read_handshake(packet);
  if (!heard) return false;  // no program of ours, so it would understand no answer
  const auto send = [&connection](const Handshake& reply, std::span<const int> files = {}) {
    return os::send_packet(connection.socket, std::as_bytes(std::span(&reply, 1)), files).ok();
  };
  Handshake reply = handshake(MessageType::kWelcome, node_.domain().header().domain_id);
  const auto refuse = [&](MessageType type, const std::string& why) {
    reply.type = type;
    set_text(reply, why);
    (void)send(reply);
    return false;
  };
  // What the kernel knows about the peer counts, not what the peer says of itself.
  const Result<os::Credentials> peer = os::peer_of(connection.socket);
  Handshake known = *heard;
  if (peer) known.user = peer->user;
  if (!peer || peer->pid == 0) known.pid_namespace = 0;
  const Status match = check_match(reply, known, "the program that asks");
  if (!match) return refuse(verdict(match, reply, known), std::string(match.what()));
  if (heard->type == MessageType::kStandBy) {
    if (heard->domain_id != reply.domain_id) return refuse(MessageType::kOtherDomain, "");
    connection.until_ns = 0;
    return send(reply);
  }
  if (heard->type != MessageType::kJoin) return false;
  Result<node::Invitation> invitation = node_.invite();
  if (!invitation) return refuse(MessageType::kNoSlot, invitation.status().to_string());
  reply.slot = invitation->child.slot.index;
  reply.generation = invitation->child.slot.generation;
  const std::array<int, 3> files{invitation->control.get(), invitation->data.get(),
                                 invitation->child.lock.get()};
  connection.until_ns = 0;
  if (send(reply, files)) return true;
  expect_death();  // no process has the slot
  return false;
}

}  // namespace forklift::inline abi_0_1::rendezvous
