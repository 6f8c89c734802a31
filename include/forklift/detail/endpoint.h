// Where messages go and come from, whatever it is; included by queue.h. What is done with it is in node/endpoint.h.
//
// Thread and process safety: a value that refers to what somebody else keeps alive.
#pragma once

#include <cstdint>

#include "forklift/detail/channel_ref.h"
#include "forklift/detail/topic_ref.h"

namespace forklift::inline abi_0_1::detail {

class ClaimHold;

// Where messages go and come from: a queue's channel, a pipe's end (pipe.h), a topic or who reads one
// (broadcast.h, latest.h). Two words, so that it travels in registers.
class Endpoint {
 public:
  enum Peek {
    kPeek
  };
  // Null: closed.
  Endpoint(channel::Channel* queue) noexcept : end_(queue), kind_(Kind::kChannel) {}
  Endpoint(channel::PipeEnd* end) noexcept : end_(end), kind_(Kind::kPipe) {}
  Endpoint(topic::Topic* writer) noexcept : end_(writer), kind_(Kind::kTopic) {}
  Endpoint(topic::Reader* subscriber) noexcept : end_(subscriber), kind_(Kind::kReader) {}
  // The newest message, seen or not.
  Endpoint(topic::Reader* looker, Peek) noexcept : end_(looker), kind_(Kind::kPeek) {}
  // A queue's channel that delivers at least once, and where to note what was taken from it (claim.h).
  Endpoint(ClaimHold& hold) noexcept : end_(&hold), kind_(Kind::kClaim) {}
  Endpoint(channel::Channel& queue) noexcept : Endpoint(&queue) {}
  Endpoint(channel::PipeEnd& end) noexcept : Endpoint(&end) {}
  Endpoint(topic::Topic& writer) noexcept : Endpoint(&writer) {}

  // Null: it is something else, or closed.
  channel::Channel* channel() const noexcept { return as<channel::Channel>(Kind::kChannel); }
  channel::PipeEnd* pipe() const noexcept { return as<channel::PipeEnd>(Kind::kPipe); }
  topic::Topic* topic() const noexcept { return as<topic::Topic>(Kind::kTopic); }
  topic::Reader* reader() const noexcept { return as<topic::Reader>(peek() ? Kind::kPeek : Kind::kReader); }
  ClaimHold* hold() const noexcept { return as<ClaimHold>(Kind::kClaim); }
  bool peek() const noexcept { return kind_ == Kind::kPeek; }

 private:
  enum class Kind : std::uint8_t {
    kChannel,
    kPipe,
    kTopic,
    kReader,
    kPeek,
    kClaim
  };
  template <class End>
  End* as(Kind kind) const noexcept {
    return kind_ == kind ? static_cast<End*>(end_) : nullptr;
  }
  void* end_;
  Kind kind_;
};

}  // namespace forklift::inline abi_0_1::detail
