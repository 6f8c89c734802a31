// Handles of queues, locks and topics are equal where they are on the same object, and have its hash.
#include "channel/channel.h"
#include "forklift/detail/channel_ref.h"
#include "forklift/detail/lock_ref.h"
#include "forklift/detail/topic_ref.h"
#include "locks/table.h"
#include "topic/topic.h"

namespace forklift::inline abi_0_1 {

namespace {

// A process may have opened one object twice, so the objects' rows are compared, not their addresses here.
template <class Object>
bool same(const Object* a, const Object* b) noexcept {
  if (a == b) return true;
  if (a == nullptr || b == nullptr) return false;
  return &a->arena() == &b->arena() && a->id().index == b->id().index &&
         a->id().generation == b->id().generation;
}

template <class Object>
std::size_t hash(const Object* object) noexcept {
  if (object == nullptr) return 0;
  const std::uint64_t row = (std::uint64_t{object->id().generation} << 32) | object->id().index;
  return static_cast<std::size_t>((row + 1) * 0x9e3779b97f4a7c15ULL);
}

}  // namespace

bool ChannelRef::same_as(const ChannelRef& other) const noexcept {
  return same(channel_.get(), other.channel_.get());
}
std::size_t ChannelRef::hash() const noexcept { return forklift::hash(channel_.get()); }

bool LockRef::same_as(const LockRef& other) const noexcept {
  return same(object_.get(), other.object_.get());
}
std::size_t LockRef::hash() const noexcept { return forklift::hash(object_.get()); }

bool TopicRef::same_as(const TopicRef& other) const noexcept {
  return same(topic_.get(), other.topic_.get());
}
std::size_t TopicRef::hash() const noexcept { return forklift::hash(topic_.get()); }

}  // namespace forklift::inline abi_0_1
