// The joiner's side of the handshake: knocks at the socket of a name and comes back as a member of its
// domain.
//
// Thread safety: yes.
#pragma once

#include "node/node.h"
#include "rendezvous/named_domain.h"

namespace forklift::rendezvous {

// Waits between tries, longer each time, until the deadline; asks the hooks.
class RetryPause {
 public:
  explicit RetryPause(const NamedDomainOptions& options) : options_(options) {}
  // kTimeout, or what the hooks say.
  Status wait();

 private:
  const NamedDomainOptions& options_;
  std::int64_t pause_ns_ = 1'000'000;
};

// Joins the domain that is served at `place`, as a member that stands by if so asked. The connection to its
// server; its end is the server's. Errors as of NamedDomain::attach.
Result<os::Fd> join_at(NameLock& name_lock, const NamedDomainOptions& options);

// Of a member whose server is gone: a connection to the next one. kTimeout: nobody answered (yet).
// `stop` ends the wait when it is readable.
Result<os::Fd> report_at(const NameLock& name_lock, node::Node& node, int stop, std::int64_t most_ns);

// Whoever should answer does not: in words.
Status does_not_answer(NameLock& name_lock);

}  // namespace forklift::rendezvous
