#include "rendezvous/join.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "node/node.h"
#include "os/local_socket.h"
#include "os/proc.h"
#include "rendezvous/handshake.h"

namespace forklift::inline abi_0_1::rendezvous {
namespace {

constexpr std::int64_t kSliceNs = 100'000'000;

// The result of a conversation: an answer, or that another try is worthwhile.
struct Conversation {
  bool again = false;
  os::Fd socket;
  Handshake said;
  std::vector<os::Fd> files;
};
Conversation once_more() {
  Conversation answer;
  answer.again = true;
  return answer;
}

Status no_server(const NameLock& name_lock) {
  return {Code::kRefused, "what listens for \"" + name_lock.name() + "\" is no Forklift server"};
}

bool will_pass(int error) {
  // No socket listens (yet, or any more), the backlog is full, or the connection ended in the middle.
  return error == ENOENT || error == ECONNREFUSED || error == EAGAIN || error == ECONNRESET ||
         error == EPIPE || error == EINTR;
}

// Waits until the socket is readable. kInterrupted: `stop` (-1: none) became readable. kTimeout, or the
// hooks' status.
Status wait_readable(const os::Fd& socket, os::Deadline deadline, domain::WaitHooks* hooks, int stop) {
  for (;;) {
    std::array<pollfd, 2> items{pollfd{socket.get(), POLLIN, 0}, pollfd{stop, POLLIN, 0}};
    const std::int64_t slice = deadline.left_ns(kSliceNs);
    const timespec time{0, static_cast<long>(std::min<std::int64_t>(slice, 999'999'999))};
    const int ready = ::ppoll(items.data(), items.size(), &time, nullptr);
    if (ready > 0 && items[1].revents != 0) return {Code::kInterrupted, "the named domain is being closed"};
    if (ready > 0) return {};
    if (hooks != nullptr) {
      if (Status status = hooks->poll(); !status) return status;
    }
    if (deadline.passed()) return {Code::kTimeout, "no answer"};
  }
}

// kRefused: the process that listens there is no server of this user's. kTimeout: it does not answer.
Result<Conversation> converse(const NameLock& name_lock, const Handshake& own, os::Deadline deadline,
                              domain::WaitHooks* hooks, int stop) {
  Result<os::Fd> socket = name_lock.knock();
  if (!socket) {
    const int error = socket.status().errno_value();
    if (error == EPROTOTYPE || error == ENOTSOCK) return no_server(name_lock);
    if (will_pass(error)) return once_more();
    return socket.status();
  }
  const Result<os::Credentials> peer = os::peer_of(*socket);
  if (!peer) return peer.status();
  if (peer->user != ::geteuid()) {
    return Status(Code::kRefused, "\"" + name_lock.name() + "\" is served by user " +
                                      std::to_string(peer->user) + ", this is user " +
                                      std::to_string(::geteuid()));
  }
  if (Status sent = os::send_packet(*socket, std::as_bytes(std::span(&own, 1)), {}); !sent) {
    if (will_pass(sent.errno_value())) return once_more();
    return sent;
  }
  std::array<std::byte, 2 * sizeof(Handshake)> buffer;
  for (;;) {
    if (Status status = wait_readable(*socket, deadline, hooks, stop); !status) return status;
    Result<os::Packet> packet = os::receive_packet(*socket, buffer, 3);
    if (!packet) {
      if (packet.status().errno_value() == EAGAIN) continue;
      if (will_pass(packet.status().errno_value())) return once_more();
      return packet.status();
    }
    if (packet->bytes == 0) return once_more();
    const std::optional<Handshake> said = read_handshake(std::span(buffer).first(packet->bytes));
    if (!said || packet->cut) return no_server(name_lock);
    return Conversation{false, *std::move(socket), *said, std::move(packet->files)};
  }
}

// The server's answer as a status: ok when this process is welcome.
Status judge(const NameLock& name_lock, const Handshake& own, const Handshake& said) {
  if (Status match = check_match(own, said, "the program that serves \"" + name_lock.name() + "\""); !match)
    return match;
  switch (said.type) {
    case MessageType::kWelcome: return {};
    case MessageType::kNoSlot: return {Code::kNoSpace, "the server has no slot: " + text_of(said)};
    case MessageType::kOtherVersion: return {Code::kVersion, text_of(said)};
    case MessageType::kOtherUser:
    case MessageType::kOtherNamespace: return {Code::kRefused, text_of(said)};
    case MessageType::kOtherDomain:
      return {Code::kInvalid, "\"" + name_lock.name() + "\" is the name of another domain now"};
    default: return no_server(name_lock);
  }
}

// Ok: this process is a member, unless no node is there: then try once more. `mine` (may be null): the domain that the
// name is expected to be of; where it is of another one, that one's number is left in `other`.
Result<Joined> enter_as(NameLock& name_lock, const NamedDomainOptions& options, node::Node* mine,
                        std::uint64_t& other) {
  const Handshake own = handshake(mine ? MessageType::kStandBy : MessageType::kJoin,
                                  mine ? mine->domain().header().domain_id : 0);
  Result<Conversation> answer = converse(name_lock, own, options.deadline, options.hooks, -1);
  if (!answer) {
    return answer.code() == Code::kTimeout ? does_not_answer(name_lock) : answer.status();
  }
  if (answer->again) return Joined();
  if (mine && answer->said.type == MessageType::kOtherDomain) {
    other = answer->said.domain_id;
    return Joined();
  }
  if (Status status = judge(name_lock, own, answer->said); !status) return status;
  if (mine) return Joined{mine, std::move(answer->socket)};
  if (answer->files.size() != 3)
    return Status(Code::kCorrupt, "the server of \"" + name_lock.name() + "\" sent " +
                                      std::to_string(answer->files.size()) + " descriptors, not 3");
  domain::ChildSlot slot{{answer->said.slot, answer->said.generation}, std::move(answer->files[2])};
  Result<node::Node*> node =
      node::Node::attach_to(std::move(answer->files[0]), std::move(answer->files[1]), std::move(slot));
  if (!node) return node.status();
  return Joined{*node, std::move(answer->socket)};
}

// A member says which domain it is a member of; the answer says which one the name is of. No node: try once more.
Result<Joined> enter(NameLock& name_lock, const NamedDomainOptions& options) {
  std::uint64_t other = 0;
  node::Node* const home = node::Node::existing();
  Result<Joined> joined = enter_as(name_lock, options, home, other);
  if (!joined || joined->node != nullptr || other == 0) return joined;
  if (options.home_only)
    return Status(Code::kInvalid,
                  "this process has a domain of its own already, and can be in one only: attach to \"" +
                      name_lock.name() + "\" before the first queue, lock, tensor or child is made");
  node::Node* const member = node::Node::of_domain(other);
  other = 0;
  if (member == nullptr) {
    if (Status room = node::Node::room_for_another(); !room) return room;
  }
  return enter_as(name_lock, options, member, other);
}

}  // namespace

Status RetryPause::wait() {
  if (options_.hooks != nullptr) {
    if (Status status = options_.hooks->poll(); !status) return status;
  }
  if (options_.deadline.passed()) return {Code::kTimeout, "the deadline passed"};
  // An uneven pause, so that two processes that wait for each other do not retry in step.
  const std::int64_t uneven = (os::now_ns() / 64 + ::getpid()) % (pause_ns_ / 2);
  const timespec pause{0, static_cast<long>(options_.deadline.left_ns(pause_ns_ / 2 + uneven))};
  ::nanosleep(&pause, nullptr);
  pause_ns_ = std::min<std::int64_t>(pause_ns_ * 2, 50'000'000);
  return {};
}

Status does_not_answer(NameLock& name_lock) {
  if (Status opened = name_lock.open_lock(false); !opened) return opened;
  const Result<bool> served = name_lock.taken(Role::kServer);
  if (!served || !*served) {
    return {Code::kStalled,
            "the server of \"" + name_lock.name() +
                "\" is gone, and the programs that could take over do not: are they stopped?"};
  }
  const pid_t pid = name_lock.server();
  const char state = pid > 0 ? os::task_state(pid) : '\0';
  return {Code::kStalled, "process " + std::to_string(pid) + " serves \"" + name_lock.name() +
                              "\" and does not answer" +
                              (state == 'T' || state == 't' ? ": it is stopped (continue or kill it)" : "")};
}

Result<Joined> join_at(NameLock& name_lock, const NamedDomainOptions& options) {
  RetryPause pause(options);
  for (;;) {
    if (Status opened = name_lock.open_lock(false); !opened) return opened;
    // While this process holds the role, the name cannot go to another domain.
    const Result<bool> here = name_lock.share(Role::kJoiner);
    if (!here) return here.status();
    if (*here) {
      const Result<bool> server = name_lock.taken(Role::kServer);
      const Result<bool> members = name_lock.taken(Role::kMember);
      if (!server || !members) return server ? members.status() : server.status();
      if (!*server && !*members) {
        name_lock.clear();
        return Status(Code::kNotFound,
                      "nobody serves \"" + name_lock.name() + "\" (looked in " + name_lock.directory() + ")");
      }
      if (*server) {
        Result<Joined> joined = enter(name_lock, options);
        if (!joined) return joined;
        if (joined->node != nullptr) {
          if (options.stand_by) {
            if (const Result<bool> member = name_lock.share(Role::kMember); !member) return member.status();
          }
          if (Status left = name_lock.leave(Role::kJoiner); !left) return left;
          return joined;
        }
      }
    }
    name_lock.forget_lock();
    if (Status waited = pause.wait(); !waited)
      return waited.code() == Code::kTimeout ? does_not_answer(name_lock) : waited;
  }
}

Result<os::Fd> report_at(const NameLock& name_lock, node::Node& node, int stop, std::int64_t most_ns) {
  const Handshake own = handshake(MessageType::kStandBy, node.domain().header().domain_id);
  Result<Conversation> answer = converse(name_lock, own, os::Deadline::after_ns(most_ns), nullptr, stop);
  if (!answer) return answer.status();
  if (answer->again) return Status(Code::kTimeout, "nobody answers yet");
  if (Status status = judge(name_lock, own, answer->said); !status) return status;
  return std::move(answer->socket);
}

}  // namespace forklift::inline abi_0_1::rendezvous
