// ChannelRef: the channel behind a queue, whatever its type. It is what a program can be given:
//
//   forklift::Queue<Frame> frames;
//   auto peer = forklift::Process::program({"./consumer"}, {{"frames", frames}});   // Queue -> ChannelRef
//
// Thread and process safety: a handle, as shared_ptr; in a forked child it means the same channel.
// Invariant: empty, or on one channel for as long as it lives.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace forklift::inline abi_0_1 {

namespace channel {
class Channel;
class PipeEnd;
}  // namespace channel

// Every Queue<T> converts to it.
class ChannelRef {
 public:
  ChannelRef() noexcept = default;
  explicit ChannelRef(std::shared_ptr<channel::Channel> channel) noexcept : channel_(std::move(channel)) {}
  // For the library's own parts; null: of an empty handle.
  const std::shared_ptr<channel::Channel>& get() const noexcept { return channel_; }
  // Of the same channel, or both of none.
  friend bool operator==(const ChannelRef& a, const ChannelRef& b) noexcept { return a.same_as(b); }
  // Equal for handles on the same object.
  std::size_t hash() const noexcept;

 private:
  bool same_as(const ChannelRef& other) const noexcept;
  std::shared_ptr<channel::Channel> channel_;
};

// Names (letters, digits, anything but '=' and ';') and the queues that a program finds under them.
using Channels = std::vector<std::pair<std::string, ChannelRef>>;

namespace detail {
using ChannelPtr = std::shared_ptr<channel::Channel>;
}  // namespace detail

}  // namespace forklift::inline abi_0_1
