#include "forklift/label.h"

#include "api/transfer.h"
#include "channel/channel.h"
#include "forklift/error.h"
#include "locks/table.h"
#include "topic/topic.h"

namespace forklift::inline abi_0_1 {

namespace {

template <class Ref>
auto& label_in(const Ref& ref) {
  if (ref.get() == nullptr) detail::throw_empty_handle();
  return ref.get()->label();
}

}  // namespace

void set_label(const ChannelRef& queue, std::string_view label) {
  throw_if_failed(label_in(queue).set(label));
}
void set_label(const LockRef& lock, std::string_view label) { throw_if_failed(label_in(lock).set(label)); }
void set_label(const TopicRef& topic, std::string_view label) { throw_if_failed(label_in(topic).set(label)); }
std::string label_of(const ChannelRef& queue) { return label_in(queue).text(); }
std::string label_of(const LockRef& lock) { return label_in(lock).text(); }
std::string label_of(const TopicRef& topic) { return label_in(topic).text(); }

}  // namespace forklift::inline abi_0_1
