// TopicRef: what lies behind a Broadcast or a Latest, whatever its type: how they are handed over.
//
//   forklift::Broadcast<Frame> frames;
//   forklift::Broadcast<Frame> same(frames.ref());       // checks the type: TypeMismatch
//
// Thread and process safety: as a shared_ptr: a copy is another handle on the same object. Invariant: it
// names one object for as long as it lives.
#pragma once

#include <concepts>
#include <memory>
#include <utility>

namespace forklift {

// The core's; programs have no use for them.
namespace topic {
class Topic;
class Reader;
}  // namespace topic

class TopicRef {
 public:
  TopicRef() noexcept = default;
  explicit TopicRef(std::shared_ptr<topic::Topic> topic) noexcept : topic_(std::move(topic)) {}
  // For the library's own parts; null: closed.
  const std::shared_ptr<topic::Topic>& get() const noexcept { return topic_; }

 private:
  std::shared_ptr<topic::Topic> topic_;
};

namespace detail {

using TopicPtr = std::shared_ptr<topic::Topic>;
using ReaderPtr = std::shared_ptr<topic::Reader>;

template <class T>
concept TopicHandle = std::constructible_from<T, TopicRef> && requires(const T& handle) {
  { handle.ref() } -> std::same_as<TopicRef>;
};

// A Subscription, a Latest: what has something to read now and then.
template <class T>
concept ReaderHandle = requires(const T& handle) {
  { handle.reader() } -> std::same_as<const ReaderPtr&>;
};

}  // namespace detail
}  // namespace forklift
