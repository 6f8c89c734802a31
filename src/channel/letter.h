// A message in the hands of its sender, and of its receiver: see Channel::put and get.
//
//   Status sent = channel.put({.bytes = bytes, .leases = leases}, deadline);
//   Incoming message;
//   Status got = channel.get(message, deadline);
//   use(message.bytes(), message.leases());
//
// Ownership: an Outgoing borrows its bytes and leases; an Incoming owns what it received, until clear() or the next get.
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "channel/channels.h"

namespace forklift::inline abi_0_1::topic {
class Topic;
}  // namespace forklift::inline abi_0_1::topic

namespace forklift::inline abi_0_1::channel {

class Batch;
class Channel;

struct Outgoing {
  std::span<const std::byte> bytes{};
  // They become empty when the put succeeds; otherwise they stay as they are.
  std::span<const arena::LeasePtr> leases{};
  std::uint8_t codec = 0;
  std::uint64_t tag = 0;
  bool quiet = false;              // wakes nobody: the sender notifies items() later
  std::uint64_t copied_bytes = 0;  // how much of the leases' memory was copied for this message
};

// A received message. Reuse the object: its buffer is kept.
class Incoming {
 public:
  Incoming() = default;
  // A message that has come by another way than a channel.
  Incoming(std::unique_ptr<std::byte[]> bytes, std::size_t size, std::vector<arena::LeasePtr> leases,
           std::uint8_t codec) noexcept
      : buffer_(std::move(bytes)),
        buffer_bytes_(size),
        bytes_(buffer_.get(), size),
        leases_(std::move(leases)),
        codec_(codec) {}
  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  // False when the bytes lie in a block, where another process could still change them: copy before checking.
  bool bytes_are_private() const noexcept { return !spill_; }
  std::vector<arena::LeasePtr>& leases() noexcept { return leases_; }
  std::uint8_t codec() const noexcept { return codec_; }
  std::uint64_t tag() const noexcept { return tag_; }
  void clear() noexcept {
    bytes_ = {};
    if (spill_ || !leases_.empty() || !handles_.empty()) drop();
  }
  // The caller's memory for inline bytes, used if they fit; bytes() says where they are. It must stay valid
  // until aim() is called again with an empty span.
  void aim(std::span<std::byte> target) noexcept { target_ = target; }
  // The block that bytes() lie in, where that is one; bytes() are valid for as long as it is held.
  arena::LeasePtr take_spill() noexcept { return std::move(spill_); }
  // Moves the message out, into no more memory than it needs. This object is empty afterwards.
  Incoming extract();

 private:
  friend class Batch;
  friend class Channel;
  friend class topic::Topic;
  void drop() noexcept;
  // kCorrupt; what Arena::share answers.
  Status share(arena::Arena& arena, arena::Holder keeper, bool spilled);
  void make_buffer() {
    constexpr std::size_t kMostBytes = std::size_t{kChunkUnits} * kUnitBytes;
    if (buffer_bytes_ >= kMostBytes) return;
    buffer_ = std::make_unique_for_overwrite<std::byte[]>(kMostBytes);
    buffer_bytes_ = kMostBytes;
  }
  std::unique_ptr<std::byte[]> buffer_;  // for the next get: kInlineBytes and a record header
  std::size_t buffer_bytes_ = 0;
  std::span<std::byte> target_;
  std::span<const std::byte> bytes_;  // in buffer_, target_ or spill_
  arena::LeasePtr spill_;
  std::vector<arena::LeasePtr> leases_;
  std::vector<arena::Handle> handles_;
  std::uint8_t codec_ = 0;
  std::uint64_t tag_ = 0;
};

}  // namespace forklift::inline abi_0_1::channel
