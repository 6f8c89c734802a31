#include "process/join.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "os/local_socket.h"
#include "os/proc.h"
#include "process/greeting.h"

namespace forklift::process {
namespace {

constexpr std::int64_t kSliceNs = 100'000'000;

// What came of a conversation: an answer, or that it is worth another try.
struct Conversation {
  bool again = false;
  os::Fd socket;
  Greeting said;
  std::vector<os::Fd> files;
};
Conversation once_more() {
  Conversation answer;
  answer.again = true;
  return answer;
}

Status no_server(const Place& place) {
  return {Code::kRefused, "what listens for \"" + place.name() + "\" is no Forklift server"};
}

bool will_pass(int error) {
  // Nobody listens (yet, or any more), too many wait, or the end came in the middle.
  return error == ENOENT || error == ECONNREFUSED || error == EAGAIN || error == ECONNRESET ||
         error == EPIPE || error == EINTR;
}

// Readable, or a reason to stop. `stop`: -1 or what ends the wait with kInterrupted.
Status wait_readable(const os::Fd& socket, os::Deadline deadline, domain::WaitHooks* hooks, int stop) {
  for (;;) {
    std::array<pollfd, 2> items{pollfd{socket.get(), POLLIN, 0}, pollfd{stop, POLLIN, 0}};
    const std::int64_t slice = deadline.left_ns(kSliceNs);
    const timespec time{0, static_cast<long>(std::min<std::int64_t>(slice, 999'999'999))};
    const int ready = ::ppoll(items.data(), items.size(), &time, nullptr);
    if (ready > 0 && items[1].revents != 0) return {Code::kInterrupted, "the door is being closed"};
    if (ready > 0) return {};
    if (hooks != nullptr) {
      if (Status status = hooks->poll(); !status) return status;
    }
    if (deadline.passed()) return {Code::kTimeout, "no answer"};
  }
}

// kRefused: what listens there is none of this user's servers. kTimeout: it does not answer.
Result<Conversation> converse(const Place& place, const Greeting& own, os::Deadline deadline,
                              domain::WaitHooks* hooks, int stop) {
  Result<os::Fd> socket = place.knock();
  if (!socket) {
    const int error = socket.status().errno_value();
    if (error == EPROTOTYPE || error == ENOTSOCK) return no_server(place);
    if (will_pass(error)) return once_more();
    return socket.status();
  }
  const Result<os::Credentials> peer = os::peer_of(*socket);
  if (!peer) return peer.status();
  if (peer->user != ::geteuid()) {
    return Status(Code::kRefused, "\"" + place.name() + "\" is served by user " + std::to_string(peer->user) +
                                      ", this is user " + std::to_string(::geteuid()));
  }
  if (Status sent = os::send_packet(*socket, std::as_bytes(std::span(&own, 1)), {}); !sent) {
    if (will_pass(sent.errno_value())) return once_more();
    return sent;
  }
  std::array<std::byte, 2 * sizeof(Greeting)> buffer;
  for (;;) {
    if (Status status = wait_readable(*socket, deadline, hooks, stop); !status) return status;
    Result<os::Packet> packet = os::receive_packet(*socket, buffer, 3);
    if (!packet) {
      if (packet.status().errno_value() == EAGAIN) continue;
      if (will_pass(packet.status().errno_value())) return once_more();
      return packet.status();
    }
    if (packet->bytes == 0) return once_more();
    const std::optional<Greeting> said = read_greeting(std::span(buffer).first(packet->bytes));
    if (!said || packet->cut) return no_server(place);
    return Conversation{false, *std::move(socket), *said, std::move(packet->files)};
  }
}

// What the server said, as a status: ok when this process is welcome.
Status judge(const Place& place, const Greeting& own, const Greeting& said) {
  if (Status match = check_match(own, said, "the program that serves \"" + place.name() + "\""); !match)
    return match;
  switch (said.says) {
    case Says::kWelcome: return {};
    case Says::kNoSlot: return {Code::kNoSpace, "the server has no slot: " + text_of(said)};
    case Says::kOtherVersion: return {Code::kVersion, text_of(said)};
    case Says::kOtherUser:
    case Says::kOtherNamespace: return {Code::kRefused, text_of(said)};
    case Says::kOtherDomain:
      return {Code::kInvalid,
              "this process has a domain of its own already, and can be in one only: attach to \"" +
                  place.name() + "\" before the first queue, lock, tensor or child is made"};
    default: return no_server(place);
  }
}

// Ok: a member. `again`: try once more.
Result<os::Fd> enter(Place& place, const DoorOptions& options, bool& again) {
  channel::Hub* const mine = channel::Hub::existing();
  const Greeting own =
      greeting(mine ? Says::kStandBy : Says::kJoin, mine ? mine->domain().header().domain_id : 0);
  Result<Conversation> answer = converse(place, own, options.deadline, options.hooks, -1);
  if (!answer) {
    return answer.code() == Code::kTimeout ? does_not_answer(place) : answer.status();
  }
  again = answer->again;
  if (again) return os::Fd();
  if (Status status = judge(place, own, answer->said); !status) return status;
  if (mine) return std::move(answer->socket);
  if (answer->files.size() != 3)
    return Status(Code::kCorrupt, "the server of \"" + place.name() + "\" sent " +
                                      std::to_string(answer->files.size()) + " descriptors, not 3");
  domain::ChildSlot slot{{answer->said.slot, answer->said.generation}, std::move(answer->files[2])};
  Result<channel::Hub*> hub =
      channel::Hub::join(std::move(answer->files[0]), std::move(answer->files[1]), std::move(slot));
  if (!hub) return hub.status();
  return std::move(answer->socket);
}

}  // namespace

Status Patience::wait() {
  if (options_.hooks != nullptr) {
    if (Status status = options_.hooks->poll(); !status) return status;
  }
  if (options_.deadline.passed()) return {Code::kTimeout, "the deadline passed"};
  // Two that wait for each other shall not do so in step.
  const std::int64_t uneven = (os::now_ns() / 64 + ::getpid()) % (pause_ns_ / 2);
  const timespec pause{0, static_cast<long>(options_.deadline.left_ns(pause_ns_ / 2 + uneven))};
  ::nanosleep(&pause, nullptr);
  pause_ns_ = std::min<std::int64_t>(pause_ns_ * 2, 50'000'000);
  return {};
}

Status does_not_answer(Place& place) {
  if (Status opened = place.open_lock(false); !opened) return opened;
  const Result<bool> served = place.taken(Stand::kServer);
  if (!served || !*served) {
    return {Code::kStalled,
            "the server of \"" + place.name() +
                "\" is gone, and the programs that could take over do not: are they stopped?"};
  }
  const pid_t pid = place.server();
  const char state = pid > 0 ? os::task_state(pid) : '\0';
  return {Code::kStalled, "process " + std::to_string(pid) + " serves \"" + place.name() +
                              "\" and does not answer" +
                              (state == 'T' || state == 't' ? ": it is stopped (continue or kill it)" : "")};
}

Result<os::Fd> join_at(Place& place, const DoorOptions& options) {
  Patience patience(options);
  for (;;) {
    if (Status opened = place.open_lock(false); !opened) return opened;
    // While this is held the name cannot go to another domain.
    const Result<bool> here = place.share(Stand::kJoiner);
    if (!here) return here.status();
    if (*here) {
      const Result<bool> server = place.taken(Stand::kServer);
      const Result<bool> members = place.taken(Stand::kMember);
      if (!server || !members) return server ? members.status() : server.status();
      if (!*server && !*members) {
        place.clear();
        return Status(Code::kNotFound,
                      "nobody serves \"" + place.name() + "\" (looked in " + place.directory() + ")");
      }
      if (*server) {
        bool again = false;
        Result<os::Fd> connection = enter(place, options, again);
        if (!connection) return connection;
        if (!again) {
          if (options.stand_by) {
            if (const Result<bool> member = place.share(Stand::kMember); !member) return member.status();
          }
          if (Status left = place.leave(Stand::kJoiner); !left) return left;
          return connection;
        }
      }
    }
    place.forget_lock();
    if (Status waited = patience.wait(); !waited)
      return waited.code() == Code::kTimeout ? does_not_answer(place) : waited;
  }
}

Result<os::Fd> report_at(const Place& place, channel::Hub& hub, int stop, std::int64_t most_ns) {
  const Greeting own = greeting(Says::kStandBy, hub.domain().header().domain_id);
  Result<Conversation> answer = converse(place, own, os::Deadline::after_ns(most_ns), nullptr, stop);
  if (!answer) return answer.status();
  if (answer->again) return Status(Code::kTimeout, "nobody answers yet");
  if (Status status = judge(place, own, answer->said); !status) return status;
  return std::move(answer->socket);
}

}  // namespace forklift::process
