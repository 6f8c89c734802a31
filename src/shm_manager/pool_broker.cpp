#include "shm_manager/pool_broker.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <span>

#include "os/local_socket.h"
#include "shm_manager/answer.h"

namespace forklift::inline abi_0_1::shm_manager {

using memory_pool::BrokerAnswer;
using memory_pool::BrokerRequest;
using memory_pool::PoolRef;
using memory_pool::Verb;

namespace {

template <class Value>
std::span<const std::byte> bytes_of(const Value& value) {
  return std::as_bytes(std::span(&value, 1));
}

// As many descriptors as the user may have.
void raise_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Result<std::unique_ptr<PoolBroker>> PoolBroker::start(const segment::ManagerArguments& arguments) {
  std::unique_ptr<PoolBroker> broker(new PoolBroker);
  // The address is the lock: whoever has it is the broker.
  Result<os::Fd> listener = os::listen_at(memory_pool::broker_address(arguments.token));
  if (!listener) {
    if (listener.status().errno_value() == EADDRINUSE) return std::unique_ptr<PoolBroker>();
    return listener.status();
  }
  broker->listener_ = *std::move(listener);
  Result<std::unique_ptr<node::Node>> node =
      node::Node::attach(os::Fd(arguments.control), os::Fd(arguments.data), std::nullopt);
  if (!node) return node.status();
  broker->node_ = *std::move(node);
  broker->node_->domain().mark_service();
  broker->pools().begin_broker();
  return broker;
}

PoolBroker::~PoolBroker() { stop_stand_by(); }

void PoolBroker::serve() {
  began_ns_ = os::now_ns();
  for (;;) {
    node_->domain().try_reap();
    drop_gone();
    if (!node_->domain().has_users()) return;
    if (look_after_stand_by()) {
      began_ns_ = os::now_ns();
      continue;
    }
    members_.watch(node_->domain());
    // A member may have died before it was watched.
    if (node_->domain().try_reap() == 0) wait();
  }
}

void PoolBroker::drop_gone() {
  std::erase_if(kept_, [&](const auto& entry) { return !pools().exists(entry.first); });
}

void PoolBroker::wait() {
  std::vector<pollfd> items;
  items.push_back({full_ ? -1 : listener_.get(), POLLIN, 0});
  items.push_back({stand_by_channel_.get(), POLLIN, 0});
  const std::size_t members = items.size();
  members_.add_to(items);
  const std::size_t clients = items.size();
  std::int64_t slice_ns = std::int64_t{kSliceMs} * 1'000'000;
  for (const Client& client : clients_) {
    items.push_back({client.socket.get(), POLLIN, 0});
    slice_ns = client.until.left_ns(slice_ns);
  }
  if (::poll(items.data(), items.size(), static_cast<int>(slice_ns / 1'000'000) + 1) <= 0) {
    for (pollfd& item : items) item.revents = 0;
  }
  full_ = false;
  members_.look_at(items, members);
  if (items[1].revents != 0) stand_by_channel_.close();  // it never writes: it is gone
  drop_gone();
  std::vector<Client> stay;
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    if (serve_client(clients_[i], items[clients + i].revents != 0)) stay.push_back(std::move(clients_[i]));
  }
  clients_ = std::move(stay);
  if (items[0].revents != 0) accept_all();
}

void PoolBroker::accept_all() {
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

bool PoolBroker::serve_client(Client& client, bool readable) {
  const auto answer = [&](BrokerAnswer what) { (void)os::send_packet(client.socket, bytes_of(what), {}); };
  if (client.wants) {
    // Whatever it says now, it has gone or does not keep to the protocol.
    if (readable || give(client, *client.wants)) return false;
    if (!client.until.passed()) return true;
    answer(BrokerAnswer::kUnknown);
    return false;
  }
  if (!readable) return true;
  BrokerRequest request;
  Result<os::Packet> packet =
      os::receive_packet(client.socket, std::as_writable_bytes(std::span(&request, 1)), 1);
  if (!packet || packet->bytes != sizeof request) return false;
  if (request.verb == Verb::kKeep) {
    const BrokerAnswer done = keep(request.pool, std::move(packet->files));
    answer(done);
    return false;
  }
  if (request.verb != Verb::kGive || give(client, request.pool)) return false;
  client.wants = request.pool;
  client.until =
      os::Deadline::after_ns(std::max(began_ns_ + memory_pool::kPatienceNs - os::now_ns(), std::int64_t{0}));
  return serve_client(client, false);
}

// False: it is not here.
bool PoolBroker::give(const Client& client, PoolRef pool) {
  const auto known = kept_.find(pool);
  if (known == kept_.end()) {
    if (pools().exists(pool)) return false;
    (void)os::send_packet(client.socket, bytes_of(BrokerAnswer::kGone), {});
    return true;
  }
  const int file = known->second.get();
  (void)os::send_packet(client.socket, bytes_of(BrokerAnswer::kDone), std::span(&file, 1));
  return true;
}

BrokerAnswer PoolBroker::keep(PoolRef pool, std::vector<os::Fd> files) {
  if (files.size() != 1) return BrokerAnswer::kFull;
  if (!pools().exists(pool)) return BrokerAnswer::kGone;
  const auto [place, is_new] = kept_.try_emplace(pool, std::move(files[0]));
  // The next one is forked, with all descriptors, before anybody else is served.
  if (is_new && !send_to_stand_by(pool, place->second)) stop_stand_by();
  return BrokerAnswer::kDone;
}

// --- the one who stands by

bool PoolBroker::send_to_stand_by(PoolRef pool, const os::Fd& file) {
  const int number = file.get();
  return stand_by_ > 0 && os::send_packet(stand_by_channel_, bytes_of(BrokerRequest{Verb::kKeep, pool, 0}),
                                          std::span(&number, 1))
                              .ok();
}

bool PoolBroker::look_after_stand_by() {
  if (stand_by_ > 0) {
    if (stand_by_channel_.valid() && ::waitpid(stand_by_, nullptr, WNOHANG) == 0) return false;
    const bool soon = os::now_ns() - stand_by_began_ns_ < kSoonNs;
    stop_stand_by();
    if (soon) return false;
  }
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return false;
  os::Fd mine(ends[0]);
  os::Fd its(ends[1]);
  const pid_t pid = ::fork();
  if (pid == 0) {
    mine.close();
    stand_by(std::move(its));
    return true;
  }
  if (pid < 0) return false;
  stand_by_ = pid;
  stand_by_channel_ = std::move(mine);
  stand_by_began_ns_ = os::now_ns();
  return false;
}

void PoolBroker::stop_stand_by() {
  stand_by_channel_.close();
  if (stand_by_ <= 0) return;
  ::kill(stand_by_, SIGKILL);
  while (::waitpid(stand_by_, nullptr, 0) < 0 && errno == EINTR) {
  }
  stand_by_ = -1;
}

void PoolBroker::stand_by(os::Fd channel) {
  clients_.clear();  // copies, by which they would not see the end of the one who serves them
  members_.clear();
  stand_by_ = -1;
  stand_by_channel_.close();
  node_->domain().mark_service();
  for (;;) {
    pollfd item{channel.get(), POLLIN, 0};
    (void)::poll(&item, 1, kSliceMs);
    drop_gone();
    if (item.revents == 0) continue;
    BrokerRequest request;
    Result<os::Packet> packet =
        os::receive_packet(channel, std::as_writable_bytes(std::span(&request, 1)), 1);
    if (packet.status().errno_value() == EAGAIN) continue;
    if (!packet || packet->bytes == 0) break;
    if (packet->files.size() == 1) kept_.try_emplace(request.pool, std::move(packet->files[0]));
  }
  if (node_->domain().attached()) return;
  // There was no slot for it at the fork.
  if (node_->domain().try_attach()) node_->domain().mark_service();
}

int run_broker(const segment::ManagerArguments& arguments) {
  raise_limit();
  Result<std::unique_ptr<PoolBroker>> broker = PoolBroker::start(arguments);
  if (!broker) {
    say(arguments.ready, broker.status().to_string());
    return EXIT_FAILURE;
  }
  say(arguments.ready, "R");
  if (*broker) (*broker)->serve();
  return EXIT_SUCCESS;
}

}  // namespace forklift::inline abi_0_1::shm_manager
