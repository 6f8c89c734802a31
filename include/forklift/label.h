// Labels: names for people, which messages show.
//
//   forklift::Queue<Frame> frames({.capacity = 8, .label = "frames"});
//   forklift::Lock journal;
//   forklift::set_label(journal, "journal");
//   frames.close();
//   frames.put(frame);        // throws Closed: the queue "frames" is closed: nothing more can be put
//   forklift::label_of(journal);                        // "journal"
//
// A label belongs to the object, not to the handle: every process sees it. It need not be unique, and nothing is found
// by it (Domain::publish is for that, which also labels what has no label yet).
//
// Queues, locks and their kin, Broadcast, Latest: what has a ChannelRef, LockRef or TopicRef.
// Thread and process safety: any time. Errors: Error (kInvalid) for more than 64 bytes or control characters; kClosed for
// an empty handle.
#pragma once

#include <string>
#include <string_view>

#include "forklift/detail/channel_ref.h"
#include "forklift/detail/lock_ref.h"
#include "forklift/detail/topic_ref.h"

namespace forklift::inline abi_0_1 {

// Gives the object a label, or with "" none.
void set_label(const ChannelRef& queue, std::string_view label);
void set_label(const LockRef& lock, std::string_view label);
void set_label(const TopicRef& topic, std::string_view label);
// Empty: it has none.
std::string label_of(const ChannelRef& queue);
std::string label_of(const LockRef& lock);
std::string label_of(const TopicRef& topic);

namespace detail {
// Locks, Broadcast and Latest; a queue converts by itself.
template <class T>
concept Referred = requires(const T& handle) { handle.ref(); };
}  // namespace detail

// The same, of handles.
template <detail::Referred T>
void set_label(const T& object, std::string_view label) {
  set_label(object.ref(), label);
}
template <detail::Referred T>
std::string label_of(const T& object) {
  return label_of(object.ref());
}

}  // namespace forklift::inline abi_0_1
