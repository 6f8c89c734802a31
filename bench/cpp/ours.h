// Forklift's channel as the benchmarks use it.
#pragma once

#include <cstdio>
#include <cstring>
#include <span>

#include "channel/channel.h"
#include "channel/hub.h"
#include "cpp/workers.h"

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

// One domain for the whole run: what is measured is the steady state.
inline forklift::channel::Hub& hub() {
  static forklift::channel::Hub* const one = must(forklift::channel::Hub::create()).release();
  return *one;
}

class OurQueue {
 public:
  explicit OurQueue(std::uint32_t capacity = 0)
      : channel_(must(forklift::channel::Channel::create(hub(), {.capacity = capacity}))) {}

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
