// Forklift as the benchmarks use it: the public queue, and the channel below it.
#pragma once

#include <array>
#include <cstdio>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "channel/channel.h"
#include "cpp/workers.h"
#include "forklift/claim.h"
#include "forklift/queue.h"
#include "node/node.h"

namespace bench {

inline void must(const forklift::Status& status) {
  if (status) return;
  std::fprintf(stderr, "forklift: %s\n", status.to_string().c_str());
  fail("forklift");
}

template <class T>
T must(forklift::Result<T> result) {
  must(result.status());
  return *std::move(result);
}

// The process's own domain, for the whole run: what is measured is the steady state.
inline forklift::node::Node& node() { return *must(forklift::node::Node::current()); }

// Queue<T> of structs of `Bytes` bytes.
template <std::size_t Bytes>
class OurQueue {
 public:
  explicit OurQueue(std::uint32_t capacity = 0) : queue_({.capacity = capacity}) {}
  void send(std::span<const std::byte> bytes) {
    queue_.put(*std::launder(reinterpret_cast<const Message*>(bytes.data())));
  }
  // `Message message = queue.get()`, with the message in the caller's buffer.
  void receive(std::span<std::byte> into) { ::new (into.data()) Message(queue_.get()); }

 private:
  using Message = std::array<std::byte, Bytes>;
  forklift::Queue<Message> queue_;
};

// The same with claims: got, copied, acknowledged at the end of the scope.
template <std::size_t Bytes>
class OurClaimedQueue {
 public:
  explicit OurClaimedQueue(std::uint32_t capacity = 0) : queue_({.capacity = capacity}) {}
  void send(std::span<const std::byte> bytes) {
    queue_.put(*std::launder(reinterpret_cast<const Message*>(bytes.data())));
  }
  void receive(std::span<std::byte> into) {
    const forklift::Claim<Message> message = queue_.get();
    ::new (into.data()) Message(*message);
  }

 protected:
  using Message = std::array<std::byte, Bytes>;
  forklift::Queue<Message, forklift::Delivery::kAtLeastOnce> queue_;
};

// The same as a loop over the queue does it: a claim ends with the get of the next one.
template <std::size_t Bytes>
class OurClaimLoop : public OurClaimedQueue<Bytes> {
 public:
  using OurClaimedQueue<Bytes>::OurClaimedQueue;
  void receive(std::span<std::byte> into) {
    if (!claim_) {
      claim_.emplace(this->queue_.get());
    } else if (!this->queue_.try_get_into(*claim_, forklift::Wait::forever())) {
      fail("a wait without a limit ended");
    }
    ::new (into.data()) Message(**claim_);
  }

 private:
  using Message = std::array<std::byte, Bytes>;
  std::optional<forklift::Claim<Message>> claim_;
};

// Queue<std::vector<std::byte>>: each put copies once, and so does each get, into a vector that exists
// already.
class OurVectorQueue {
 public:
  explicit OurVectorQueue(std::uint32_t capacity = 0) : queue_({.capacity = capacity}) {}
  void send(std::span<const std::byte> bytes) {
    if (message_.empty()) message_.assign(bytes.begin(), bytes.end());
    queue_.put(message_);
  }
  void receive(std::span<std::byte> into) {
    queue_.get_into(message_);
    if (message_.size() != into.size()) fail("a message of another size");
    keep(message_.data());
  }

 private:
  forklift::Queue<std::vector<std::byte>> queue_;
  std::vector<std::byte> message_;
};

class OurChannel {
 public:
  explicit OurChannel(std::uint32_t capacity = 0)
      : channel_(must(forklift::channel::Channel::create(node().channels(), {.capacity = capacity}))) {}

  void send(std::span<const std::byte> bytes) {
    must(channel_->put({.bytes = bytes}, forklift::os::Deadline::never()));
  }
  void receive(std::span<std::byte> into) {
    must(channel_->get(message_, forklift::os::Deadline::never()));
    if (message_.bytes().size() != into.size()) fail("a message of another size");
    copy_bytes(into.data(), message_.bytes().data(), into.size());
    message_.clear();
  }
  forklift::channel::Channel& channel() { return *channel_; }

 private:
  forklift::channel::ChannelPtr channel_;
  forklift::channel::Incoming message_;
};

}  // namespace bench
