// TopicRef: what lies behind a Broadcast or a Latest, whatever its type: how they are handed over.
//
//   forklift::Broadcast<Frame> frames;
//   forklift::Broadcast<Frame> same(frames.ref());       // checks the type: TypeMismatch
//
// Thread and process safety: as a shared_ptr: a copy is another handle on the same object. Invariant: it
// names one object for as long as it lives.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <utility>

namespace forklift::inline abi_0_1 {

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
  // Of the same topic, or both of none.
  friend bool operator==(const TopicRef& a, const TopicRef& b) noexcept { return a.same_as(b); }
  // Equal for handles on the same object.
  std::size_t hash() const noexcept;

 private:
  bool same_as(const TopicRef& other) const noexcept;
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

struct TopicHash {
  template <class Handle>
  std::size_t operator()(const Handle& handle) const noexcept {
    return handle.ref().hash();
  }
};

}  // namespace detail
}  // namespace forklift::inline abi_0_1
