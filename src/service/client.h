// A client of a service, and its calls.
//
//   auto client = std::make_shared<Client>(calls, requests);
//   Result<Exchange*> begun = client->begin();
//   Status sent = client->send(**begun, message, deadline, hooks);
//   Status got = client->receive(**begun, incoming, kind, deadline, hooks);   // until kind is no kPart
//   client->end(*begun);
//
// Each call that is under way has a row and a channel of its own, on which only its responses come; both are used
// again by later calls. A response of an earlier call that its client has ended carries another serial and is dropped.
//
// The client notices by itself that the server that took its request is dead, or that no server is left: it looks each
// time that it has waited for a slice, and the reaper wakes it. A death is judged after the responses that were put
// before it.
//
// Thread safety: Client, any thread; an Exchange, one at a time. Fork: a child's calls get places of their own; a call
// that was under way at the fork stays its parent's.
#pragma once

#include <atomic>
#include <memory>

#include "service/calls.h"

namespace forklift::inline abi_0_1::service {

// One call at a time.
struct Exchange {
  std::uint64_t owner = 0;  // the process that made it
  std::uint32_t row = 0;
  channel::ChannelPtr replies;
  std::uint64_t serial = 0;
  std::uint32_t sequence = 0;  // of the request in its channel
  std::uint32_t news = 0;      // of the row, up to which the state was looked at
  bool over = true;            // nothing more will come
  Exchange* next = nullptr;
};

class Client {
 public:
  // How often a waiting client looks for the death of its server.
  static constexpr std::int64_t kLookNs = 50'000'000;
  // How many responses may be on their way to one call. A server that sends more waits.
  static constexpr std::uint32_t kResponses = 64;

  Client(Calls& calls, channel::ChannelPtr requests) noexcept
      : calls_(calls), requests_(std::move(requests)) {}
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  channel::Channel& requests() const noexcept { return *requests_; }
  const channel::ChannelPtr& requests_ptr() const noexcept { return requests_; }
  Calls& calls() const noexcept { return calls_; }

  // kNoSpace, kOverBudget, ...
  Result<Exchange*> begin();
  // The tag of `message` is set here. Failures as of Channel::put; kPeerDied: no server is left. Nothing was sent then.
  Status send(Exchange& exchange, channel::Outgoing message, os::Deadline deadline,
              channel::WaitHooks* hooks);
  // Failures: kTimeout, kInterrupted: the call goes on. kPeerDied, kRefused (the server gives no answer), kCorrupt,
  // kBrokenByFork: it is over.
  Status receive(Exchange& exchange, channel::Incoming& into, Kind& kind, os::Deadline deadline,
                 channel::WaitHooks* hooks);
  // Is there something that receive() answers at once?
  bool ready(const Exchange& exchange) const noexcept { return exchange.over || !exchange.replies->empty(); }
  // Ends the call if it is not over: one that is queued is never served, a server that is at it sees it.
  void cancel(Exchange& exchange) noexcept;
  // cancel(), and the place is free.
  void end(Exchange* exchange) noexcept;

 private:
  class Guard;
  std::uint64_t self() const noexcept { return owner_word(calls_.domain().self()); }
  Status look(const Exchange& exchange) const;
  Status no_server() const;
  void drop(Exchange* exchange) noexcept;

  Calls& calls_;
  channel::ChannelPtr requests_;
  // 0, or the process of the thread that changes the list. In a forked child a lock of the parent's is none.
  std::atomic<std::uint64_t> lock_{0};
  Exchange* free_ = nullptr;
  std::uint64_t free_owner_ = 0;
};

}  // namespace forklift::inline abi_0_1::service
