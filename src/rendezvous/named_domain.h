// A process's part in a served name: it answers at the socket, or stands by to take over when the server is
// gone.
//
//   Result<NamedDomainPtr> served = NamedDomain::serve("camera", options);   // our domain gets the name
//   Result<NamedDomainPtr> served = NamedDomain::attach("camera", options);  // we join the name's domain
//   Result<NamedDomainPtr> served = NamedDomain::meet("camera", options);    // whichever of the two is right
//   (*served)->close();                                                    // leaves the name, not the domain
//
// A thread of this process answers or stands by. It runs from serve or attach (unless the options say
// otherwise) until close, sleeps without a time-out while nothing happens, and blocks all signals. However
// the server ends, the members that stand by notice it on their connections; the first one that takes the
// server's role takes over.
//
// Thread safety: yes. Fork: the thread stops before a fork and goes on in the parent afterwards; a child has
// the domain, but no part in the name (serving() is false, close() does nothing).
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "domain/waiting.h"
#include "node/node.h"
#include "os/clock.h"
#include "rendezvous/join_server.h"
#include "rendezvous/name_lock.h"

namespace forklift::inline abi_0_1::rendezvous {

struct NamedDomainOptions {
  // For the whole handshake, and for a server that is just being replaced.
  os::Deadline deadline = os::Deadline::after_seconds(5);
  // Take over when the server is gone. A member that does not stand by has no thread.
  bool stand_by = true;
  // serve(): a domain that is made for the name, beside what the process has; not the one in which things are made.
  bool apart = false;
  // attach() and meet(): only to the domain that the process has, if it has one; kInvalid otherwise. For Python, whose
  // objects are of one domain.
  bool home_only = false;
  domain::WaitHooks* hooks = nullptr;
};

class NamedDomain;
using NamedDomainPtr = std::shared_ptr<NamedDomain>;

class NamedDomain {
 public:
  // kExists: the name is served already. kInvalid: the name is not allowed. kRefused: an unsafe directory.
  // kStalled: the process that could serve is stopped. kInterrupted.
  static Result<NamedDomainPtr> serve(std::string_view name, const NamedDomainOptions& options = {});
  // kNotFound: no process serves the name. kVersion, kRefused (another user, another pid namespace, no server
  // of ours), kStalled (the server does not answer), kNoSpace (no slot; or this process is in as many domains as it
  // can be in). A process that has a domain is in this one beside it.
  static Result<NamedDomainPtr> attach(std::string_view name, const NamedDomainOptions& options = {});
  // Attaches if the name is served; serves it if not: with the home, or with a domain made for the name where the home
  // has another name already.
  static Result<NamedDomainPtr> meet(std::string_view name, const NamedDomainOptions& options = {});

  ~NamedDomain();
  NamedDomain(const NamedDomain&) = delete;
  NamedDomain& operator=(const NamedDomain&) = delete;

  const std::string& name() const noexcept { return name_; }
  node::Node& node() const noexcept { return node_; }
  // Does this process answer at the socket now?
  bool serving() const noexcept { return serving_.load(std::memory_order_acquire); }
  // Leaves the name; another member that stands by takes over.
  void close() noexcept;

 private:
  friend struct NamedDomains;
  NamedDomain(node::Node& node, NameLock name_lock, os::Fd listener, os::Fd connection);
  static Result<NamedDomainPtr> make(node::Node& node, NameLock name_lock, os::Fd listener, os::Fd connection,
                                     bool threaded);
  Status start();
  void stop() noexcept;
  void abandon() noexcept;
  void run();
  bool stopping() const noexcept;
  bool wait_for(int fd, std::int64_t ns) const;
  void stand_by();
  bool take_over();
  bool find_server();

  node::Node& node_;
  const std::string name_;
  NameLock name_lock_;
  os::Fd stop_;  // an eventfd
  std::unique_ptr<JoinServer> join_server_;
  os::Fd connection_;  // to the server
  std::int64_t pause_ns_ = 0;
  std::atomic<bool> serving_{false};
  bool threaded_ = false;
  // This process cannot get the name any more: the socket could not be opened, or another domain has the
  // name.
  bool lost_ = false;
  std::thread thread_;
};

}  // namespace forklift::inline abi_0_1::rendezvous
