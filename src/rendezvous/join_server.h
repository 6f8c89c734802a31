// Answers at the socket of a served domain: accepts joining processes, checks them, gives them slots and
// descriptors, and notices when one of them is gone.
//
//   JoinServer join_server(node, listener);
//   while (!stopped) join_server.turn(stop_fd);       // waits until there is something to do
//
// A joining process has five seconds for its handshake, and no joining process delays another one: the only
// call that blocks is the wait for all of them together. A member's connection stays open; its end means that
// the member is gone (or has left the name). Dead processes are then reaped at once and again shortly
// afterwards, since a process that ends closes one descriptor after the other.
//
// Thread safety: one thread at a time. While nothing happens it uses no CPU.
#pragma once

#include <cstdint>
#include <list>

#include "node/node.h"
#include "os/clock.h"
#include "os/fd.h"

namespace forklift::inline abi_0_1::rendezvous {

inline constexpr std::int64_t kHandshakeNs = 5'000'000'000;

class JoinServer {
 public:
  JoinServer(node::Node& node, os::Fd listener) : node_(node), listener_(std::move(listener)) {}

  // Waits until something happens, at most `longest_ns`, and handles it. Returns also when `stop` is
  // readable.
  void turn(int stop, std::int64_t longest_ns = kNever);

  // Schedules reaping: a member is dead, and its slot will show it now or within the next tenth of a second.
  void expect_death();

  // The number of joining processes and members.
  std::size_t connections() const noexcept { return connections_.size(); }
  void close() noexcept;

  static constexpr std::int64_t kNever = -1;

 private:
  struct Connection {
    os::Fd socket;
    std::int64_t until_ns;  // deadline of the handshake; 0: it is a member
  };
  void admit();
  // False: the connection is over.
  bool hear(Connection& connection);
  bool answer(Connection& connection, std::span<const std::byte> packet);
  std::int64_t wait_ns(std::int64_t longest_ns) const;
  void run_timers();

  node::Node& node_;
  os::Fd listener_;
  std::list<Connection> connections_;
  std::int64_t crowded_until_ns_ = 0;  // descriptors had run out: no process is admitted before
  std::int64_t reap_at_ns_ = 0;        // 0: no death is expected
  int reaps_left_ = 0;
};

}  // namespace forklift::inline abi_0_1::rendezvous
