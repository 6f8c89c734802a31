// The joiner's side of the handshake: connects to the socket of a name and joins its domain.
//
// Thread safety: yes.
#pragma once

#include "node/node.h"
#include "rendezvous/named_domain.h"

namespace forklift::inline abi_0_1::rendezvous {

// Waits between tries, longer each time, until the deadline; polls the hooks.
class RetryPause {
 public:
  explicit RetryPause(const NamedDomainOptions& options) : options_(options) {}
  // kTimeout, or the hooks' status.
  Status wait();

 private:
  const NamedDomainOptions& options_;
  std::int64_t pause_ns_ = 1'000'000;
};

// A membership, and the connection to the server, which ends when the server ends.
struct Joined {
  node::Node* node = nullptr;
  os::Fd connection;
};

// Joins the domain that is served under the name, as a member that stands by if the options say so: as this process's
// home, or beside it. One that the process is in already is joined no second time. Errors: those of
// NamedDomain::attach.
Result<Joined> join_at(NameLock& name_lock, const NamedDomainOptions& options);

// For a member whose server is gone: a connection to the next server. kTimeout: none has answered (yet). The
// wait ends when `stop` becomes readable.
Result<os::Fd> report_at(const NameLock& name_lock, node::Node& node, int stop, std::int64_t most_ns);

// The error for a server that does not answer; the message says which process should.
Status does_not_answer(NameLock& name_lock);

}  // namespace forklift::inline abi_0_1::rendezvous
