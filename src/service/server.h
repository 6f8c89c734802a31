// A server of a service, and the calls that it has taken.
//
//   auto server = std::make_shared<Server>(calls, requests, "Resize -> Image");
//   Status open = server->enter();
//   Taken call;
//   while (server->take(request, call, deadline, hooks)) {
//     if (!server->answer(call, message, Kind::kLast, deadline, hooks)) ...   // kClosed: nobody waits for it
//   }
//
// A server counts as one from enter() to leave(), or to its process's death. It keeps the channels of its clients open
// and gives them up when it sees that a client has gone.
//
// Thread safety: any thread; a Taken, one at a time. Fork: a child that takes calls counts as a server of its own; the
// calls that its parent has taken stay its parent's (kBrokenByFork).
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "service/calls.h"

namespace forklift::inline abi_0_1::service {

// A call that this process is to answer.
struct Taken {
  std::uint32_t row = 0;
  std::uint64_t serial = 0;     // 0: none, or answered
  std::uint64_t server = 0;     // the process that has taken it
  std::uint64_t client = 0;     // the process that waits for it
  channel::ChannelPtr replies;  // stays when the call is over
};

class Server {
 public:
  Server(Calls& calls, channel::ChannelPtr requests, std::string types)
      : calls_(calls), requests_(std::move(requests)), types_(std::move(types)) {}
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  channel::Channel& requests() const noexcept { return *requests_; }
  Calls& calls() const noexcept { return calls_; }

  // Counts as a server from now on. kNoSpace.
  Status enter();
  // Takes no more calls; those that wait in take() get kClosed.
  void leave() noexcept;
  bool left() const noexcept { return left_.load(std::memory_order_acquire); }

  // The next request of a client that still waits for it. kTimeout, kInterrupted, kClosed.
  Status take(channel::Incoming& into, Taken& call, os::Deadline deadline, channel::WaitHooks* hooks);
  // Sends a response; the tag is set here. After kLast, kEnd and kFailure the call is over. kClosed: nobody waits for it
  // any more, and it is over. Other failures, as of Channel::put: nothing was sent.
  Status answer(Taken& call, channel::Outgoing message, Kind kind, os::Deadline deadline,
                channel::WaitHooks* hooks);
  // Ends a call without an answer; waits for nothing.
  void refuse(Taken& call) noexcept;
  // Does the client still wait? `look`: also whether its process lives.
  bool wanted(const Taken& call, bool look) const;

 private:
  class Mark;
  class Guard;
  struct Known {
    std::uint64_t owner = 0;
    std::uint64_t channel = 0;
    channel::ChannelPtr replies;
  };
  std::uint64_t self() const noexcept { return owner_word(calls_.domain().self()); }
  Status accept(const Mark& mark, Taken& call);
  void forget_gone() noexcept;

  Calls& calls_;
  channel::ChannelPtr requests_;
  const std::string types_;
  std::atomic<bool> left_{false};
  // As a Client's: of the two members below and the row.
  std::atomic<std::uint64_t> lock_{0};
  std::unique_ptr<std::vector<Known>> known_;  // by the row of the call
  std::atomic<std::uint64_t> owner_{0};        // the process that has entered
  std::uint32_t row_ = 0;
  std::atomic<std::uint64_t> pid_{0};
  std::atomic<unsigned> takes_{0};
};

}  // namespace forklift::inline abi_0_1::service
