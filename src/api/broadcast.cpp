// The parts of Broadcast<T> and Latest<T> that are no templates.
#include "topic/topic.h"

#include <string>

#include "api/attached.h"
#include "api/stop.h"
#include "forklift/latest.h"

namespace forklift::inline abi_0_1::detail {
namespace {

static_assert(static_cast<int>(WhenSlow::kDropOldest) == static_cast<int>(topic::WhenSlow::kDropOldest));
static_assert(static_cast<int>(WhenSlow::kWait) == static_cast<int>(topic::WhenSlow::kWait));
static_assert(static_cast<int>(WhenSlow::kDisconnect) == static_cast<int>(topic::WhenSlow::kDisconnect));

constexpr std::uint64_t kLatestFlag = 2;

std::uint64_t flags_for(const TopicKind& kind) {
  return (kind.type == 0 ? std::uint64_t{channel::kPortable} : kind.type & ~std::uint64_t{0xffff}) |
         (kind.latest ? kLatestFlag : 0);
}

topic::Topic& opened(const TopicPtr& topic) {
  if (!topic)
    throw Error({Code::kClosed, "this handle on a Broadcast or Latest is empty: it was reset or moved from"});
  return *topic;
}
topic::Reader& opened(const ReaderPtr& reader) {
  if (!reader) throw Error({Code::kClosed, "this subscription was moved from"});
  return *reader;
}

}  // namespace

TopicPtr make_topic(const TopicKind& kind, const BroadcastOptions& options) {
  return value_or_throw(topic::Topic::create(attached_node().topics(),
                                             {.capacity = options.capacity,
                                              .slot_bytes = kind.slot_bytes,
                                              .keep = options.keep,
                                              .when_slow = static_cast<topic::WhenSlow>(options.when_slow),
                                              .flags = flags_for(kind)}));
}

TopicPtr topic_of_kind(const TopicRef& topic, const TopicKind& kind) {
  const std::uint64_t flags = opened(topic.get()).flags();
  if (flags == flags_for(kind)) return topic.get();
  if (((flags ^ flags_for(kind)) & kLatestFlag) != 0)
    throw TypeMismatch({Code::kInvalid, "a Latest where a Broadcast was expected, or the reverse"});
  throw TypeMismatch({Code::kInvalid, "a Broadcast or Latest of values of another type"});
}

ReaderPtr subscribe(const TopicPtr& topic, bool from_oldest) {
  return value_or_throw(opened(topic).subscribe(from_oldest));
}

bool wait_for_readers(const TopicPtr& topic, std::uint32_t count, Limit limit) {
  topic::Topic& there = opened(topic);
  const os::Deadline deadline = deadline_of(limit);
  return settled(wait_stoppable(
      limit.stop, [&](channel::WaitHooks* hooks) { return there.wait_readers(count, deadline, hooks); },
      [&] { there.wake_all(); }));
}

std::uint32_t count_readers(const TopicPtr& topic) { return opened(topic).readers(); }
void close_topic(const TopicPtr& topic) { throw_if_failed(opened(topic).finish()); }
bool topic_closed(const TopicPtr& topic) { return opened(topic).finished(); }
std::uint64_t topic_number(const TopicPtr& topic) { return opened(topic).number(); }

void unsubscribe(const ReaderPtr& reader) noexcept {
  if (reader) reader->leave();
}
std::uint64_t missed_by(const ReaderPtr& reader) { return opened(reader).missed(); }
int reader_descriptor(const ReaderPtr& reader) {
  topic::Reader& here = opened(reader);
  return value_or_throw(here.descriptor(watches_of(here.topic()->arena())));
}
std::uint64_t behind_of(const ReaderPtr& reader) { return opened(reader).behind(); }
std::uint64_t seen_by(const ReaderPtr& reader) { return opened(reader).seen(); }

ReaderPtr look_at(const TopicPtr& topic) { return opened(topic).newest(); }
bool looks_here(const ReaderPtr& reader) noexcept { return reader && reader->mine(); }

}  // namespace forklift::inline abi_0_1::detail
