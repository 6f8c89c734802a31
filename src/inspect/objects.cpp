#include "inspect/objects.h"

#include <algorithm>

#include "topic/tables.h"
#include "watch/tables.h"

namespace forklift::inline abi_0_1::inspect {

namespace {

using arena::Object;
using arena::ObjectKind;
using domain::Region;

// Is the event at `offset` of the row that begins at a multiple of its size this one?
template <class Row>
bool is_event(std::uint64_t offset, const sync::EventCount Row::* event) {
  alignas(Row) static const std::byte place[sizeof(Row)] = {};
  const auto* const row = reinterpret_cast<const Row*>(place);
  const auto at =
      reinterpret_cast<const std::byte*>(&(row->*event)) - reinterpret_cast<const std::byte*>(row);
  return offset % sizeof(Row) == static_cast<std::uint64_t>(at);
}

template <class Row>
std::uint32_t index_at(std::uint64_t offset) noexcept {
  return static_cast<std::uint32_t>(offset / sizeof(Row));
}

Need need_of(locks::Kind kind) noexcept {
  switch (kind) {
    case locks::Kind::kLock:
    case locks::Kind::kRLock:
    case locks::Kind::kReadWrite: return Need::kLock;
    case locks::Kind::kSemaphore:
    case locks::Kind::kRecovering: return Need::kUnit;
    case locks::Kind::kCondition: return Need::kNotice;
    case locks::Kind::kEvent: return Need::kSetting;
    case locks::Kind::kBarrier: return Need::kParties;
    case locks::Kind::kLatch: return Need::kCountDown;
    case locks::Kind::kOnce: return Need::kOnce;
    case locks::Kind::kNone: break;
  }
  return Need::kUnknown;
}

}  // namespace

const char* noun_of(locks::Kind kind) noexcept {
  switch (kind) {
    case locks::Kind::kLock: return "Lock";
    case locks::Kind::kRLock: return "RLock";
    case locks::Kind::kSemaphore:
    case locks::Kind::kRecovering: return "Semaphore";
    case locks::Kind::kCondition: return "Condition";
    case locks::Kind::kEvent: return "Event";
    case locks::Kind::kBarrier: return "Barrier";
    case locks::Kind::kReadWrite: return "RWLock";
    case locks::Kind::kLatch: return "Latch";
    case locks::Kind::kOnce: return "Once";
    case locks::Kind::kNone: break;
  }
  return "lock";
}

std::string text_of(const View& view, const Object& object) {
  const char* noun = "object";
  if (const locks::LockRow* row = lock_at(view, object)) noun = noun_of(locks::kind_in(load(row->meta)));
  if (object.kind == ObjectKind::kChannel) noun = "queue";
  if (object.kind == ObjectKind::kTopic) noun = "topic";
  const std::string label = label_of(view, object);
  return std::string(noun) + ' ' + (label.empty() ? std::to_string(object.index) : '"' + label + '"');
}

std::string text_of(const View& view, const arena::Holder& holder) {
  const auto object = [&](ObjectKind kind) { return text_of(view, Object{kind, holder.channel()}); };
  if (holder.is_message()) return "a message in " + object(ObjectKind::kChannel);
  if (holder == arena::Holder::receipts(holder.channel())) return object(ObjectKind::kChannel);
  if (holder.is_receipt()) return "a claimed message of " + object(ObjectKind::kChannel);
  if (holder.is_topic()) return "a message of " + object(ObjectKind::kTopic);
  if (holder.is_ring()) return object(ObjectKind::kTopic);
  return holder.is_name() ? "a name" : "something that is not known";
}

const locks::LockRow* lock_at(const View& view, const Object& object) noexcept {
  if (object.kind != ObjectKind::kLock) return nullptr;
  const std::span<const std::byte> region = view.region(Region::kLocks);
  if (object.index >= locks::rows_in(region.size())) return nullptr;
  const std::byte* const rows =
      region.data() + sizeof(locks::LockTable) + locks::cells_in(region.size()) * sizeof(locks::Cell);
  return reinterpret_cast<const locks::LockRow*>(rows) + object.index;
}

const channel::ChannelRow* channel_at(const View& view, const Object& object) noexcept {
  const auto rows = view.rows<channel::ChannelRow, channel::ChannelTable>(Region::kChannels);
  if (object.kind != ObjectKind::kChannel || object.index >= rows.size()) return nullptr;
  return &rows[object.index];
}

std::string label_of(const View& view, const Object& object) {
  if (const locks::LockRow* row = lock_at(view, object)) return row->label.text();
  if (const channel::ChannelRow* row = channel_at(view, object)) return row->label.text();
  const auto topics = view.rows<topic::TopicRow, topic::TopicTable>(Region::kTopics);
  if (object.kind == ObjectKind::kTopic && object.index < topics.size())
    return topics[object.index].label.text();
  return {};
}

std::vector<std::uint64_t> watched_by(const View& view, std::uint64_t offset) {
  std::vector<std::uint64_t> events;
  const std::uint64_t within = *view.within(Region::kWaitSets, offset);
  if (within < sizeof(watch::SetTable)) return events;
  const std::uint32_t set = index_at<watch::SetRow>(within - sizeof(watch::SetTable));
  const auto& table = *reinterpret_cast<const watch::WatchTable*>(view.region(Region::kWatches).data());
  const auto rows = view.rows<watch::WatchRow, watch::WatchTable>(Region::kWatches);
  for (const watch::WatchRow& row : rows.first(std::min<std::uint64_t>(load(table.rows_used), rows.size()))) {
    if ((load(row.meta) & 1) != 0 && load(row.target) >> 32 == set) events.push_back(load(row.event));
  }
  return events;
}

Target target_at(const View& view, std::uint64_t offset) {
  if (const auto at = view.within(Region::kChannels, offset); at && *at >= sizeof(channel::ChannelTable)) {
    using Row = channel::ChannelRow;
    const std::uint64_t place = *at - sizeof(channel::ChannelTable);
    const Need need = is_event(place, &Row::items)      ? Need::kMessage
                      : is_event(place, &Row::space)    ? Need::kRoom
                      : is_event(place, &Row::all_done) ? Need::kAllDone
                                                        : Need::kUnknown;
    return {need, {ObjectKind::kChannel, index_at<Row>(place)}, 0};
  }
  if (const auto at = view.within(Region::kTopics, offset); at && *at >= sizeof(topic::TopicTable)) {
    using Row = topic::TopicRow;
    const std::uint64_t place = *at - sizeof(topic::TopicTable);
    const Need need = is_event(place, &Row::items)   ? Need::kNews
                      : is_event(place, &Row::space) ? Need::kReaders
                                                     : Need::kUnknown;
    return {need, {ObjectKind::kTopic, index_at<Row>(place)}, 0};
  }
  const auto at = view.within(Region::kLocks, offset);
  if (!at || *at < sizeof(locks::LockTable)) return {};
  const std::span<const std::byte> region = view.region(Region::kLocks);
  const std::uint64_t cells = locks::cells_in(region.size()) * sizeof(locks::Cell);
  std::uint64_t place = *at - sizeof(locks::LockTable);
  if (place < cells) {
    const auto* const cell = reinterpret_cast<const locks::Cell*>(region.data() + *at);
    return {Need::kNotice, {ObjectKind::kLock, static_cast<std::uint32_t>(load(cell->object))}, 0};
  }
  place -= cells;
  const Object object{ObjectKind::kLock, index_at<locks::LockRow>(place)};
  const locks::LockRow* const row = lock_at(view, object);
  if (row == nullptr) return {};
  if (is_event(place, &locks::LockRow::drained)) return {Need::kReadersGone, object, 0};
  return {need_of(locks::kind_in(load(row->meta))), object, 0};
}

}  // namespace forklift::inline abi_0_1::inspect
