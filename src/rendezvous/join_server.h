// Answers at the socket of a served domain: takes joining processes in, checks them, hands slots and
// descriptors out, and hears when one is gone.
//
//   JoinServer join_server(node, listener);
//   while (!stopped) join_server.turn(stop_fd);       // waits until there is something to do
//
// A joining process has five seconds for its handshake, and no joining process keeps another waiting: nothing
// here blocks but the wait for all of them together. A member's connection stays open; its end means that the
// member is gone (or has left the name), and the dead are reaped at once and shortly afterwards, since a
// process that ends closes one descriptor after the other.
//
// Thread safety: one thread at a time. At rest it uses no CPU.
#pragma once

#include <cstdint>
#include <list>

#include "node/node.h"
#include "os/clock.h"
#include "os/fd.h"

namespace forklift::rendezvous {

inline constexpr std::int64_t kHandshakeNs = 5'000'000'000;

class JoinServer {
 public:
  JoinServer(node::Node& node, os::Fd listener) : node_(node), listener_(std::move(listener)) {}

  // Waits for whatever happens first, `stop` (readable) included, and sees to it. `longest_ns`: of the wait.
  void turn(int stop, std::int64_t longest_ns = kNever);

  // A member is about to be found dead: now, or within the next tenth of a second.
  void expect_death();

  // Guests and members.
  std::size_t connections() const noexcept { return connections_.size(); }
  void close() noexcept;

  static constexpr std::int64_t kNever = -1;

 private:
  struct Connection {
    os::Fd socket;
    std::int64_t until_ns;  // of the handshake; 0: it is a member
  };
  void admit();
  // False: the connection is over.
  bool hear(Connection& connection);
  bool answer(Connection& connection, std::span<const std::byte> packet);
  std::int64_t wait_ns(std::int64_t longest_ns) const;
  void see_to_time();

  node::Node& node_;
  os::Fd listener_;
  std::list<Connection> connections_;
  std::int64_t crowded_until_ns_ = 0;  // no descriptors left: nobody is admitted before
  std::int64_t reap_at_ns_ = 0;        // 0: nobody is expected to have died
  int reaps_left_ = 0;
};

}  // namespace forklift::rendezvous
