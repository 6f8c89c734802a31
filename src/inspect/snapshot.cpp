#include "inspect/snapshot.h"

#include <algorithm>
#include <set>

#include "os/clock.h"
#include "os/proc.h"
#include "topic/tables.h"
#include "watch/tables.h"

namespace forklift::inline abi_0_1::inspect {

namespace {

using arena::Object;
using arena::ObjectKind;
using domain::Region;
using domain::WaitKind;

// The records keep 27 bits of a slot's generation, locks 29.
constexpr std::uint32_t kGeneration = (1U << 27) - 1;

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

Snapshot::Snapshot(View view, Detail detail) : view_(std::move(view)), now_ns_(os::now_ns()) {
  find_members(detail);
  find_waits();
  if (detail == Detail::kNumbers) return;
  std::set<std::uint64_t> waited_for;
  for (const Wait& wait : waits_) {
    for (const Target& target : wait.targets) waited_for.insert(target.object.pack());
  }
  find_rights([&](const Object& object) { return waited_for.count(object.pack()) != 0; });
}

std::size_t Snapshot::add_member(pid_t pid, Detail detail) {
  if (const auto known = member_of(pid)) return *known;
  members_.push_back({look_at(pid, detail), std::nullopt, false, {}});
  return members_.size() - 1;
}

void Snapshot::find_members(Detail detail) {
  const std::span<const domain::Slot> slots = view_.slots();
  for (std::uint32_t index = 0; index < slots.size(); ++index) {
    const domain::Slot& slot = slots[index];
    const std::uint64_t state = load(slot.state);
    const auto pid = static_cast<pid_t>(load(slot.pid));
    if (static_cast<domain::SlotState>(state & 0xff) != domain::SlotState::kLive || pid == 0) continue;
    const std::size_t member = add_member(pid, detail);
    members_[member].slot = domain::SlotRef{index, static_cast<std::uint32_t>(state >> 32)};
    members_[member].service = load(slot.service) != 0;
    members_[member].label = domain::name_in(slot);
    by_slot_[index] = member;
  }
}

void Snapshot::find_waits() {
  for (domain::Waiting& seen : domain::read_waits(view_.region(Region::kWaits))) {
    const auto member = member_in(seen.slot);
    if (!member) continue;
    Wait wait{
        {*member, static_cast<pid_t>(seen.thread)}, {}, true, seen.since_ns, seen.until_ns, seen.call_site};
    switch (seen.kind) {
      case WaitKind::kProcess:
        if (!seen.values.empty())
          wait.targets.push_back({Need::kEnd, {}, static_cast<pid_t>(seen.values[0])});
        break;
      case WaitKind::kTask: wait.targets.push_back({Need::kTask, {}, 0}); break;
      case WaitKind::kRanks: wait.targets.push_back({Need::kRanks, {}, 0}); break;
      case WaitKind::kContainer: wait.targets.push_back({Need::kContainer, {}, 0}); break;
      case WaitKind::kEvent:
        if (seen.values.empty()) break;
        if (view_.within(Region::kWaitSets, seen.values[0])) seen.values = watched_by(seen.values[0]);
        [[fallthrough]];
      case WaitKind::kSeveral:
        for (const std::uint64_t offset : seen.values) wait.targets.push_back(target_at(offset));
        wait.all_known = seen.kind != WaitKind::kSeveral || seen.count == seen.values.size();
        break;
      case WaitKind::kAwake: break;
    }
    if (wait.targets.empty()) wait.targets.push_back({});
    waits_.push_back(std::move(wait));
  }
  // Processes that are no members, but waited for; and children that have ended.
  const std::size_t count = members_.size();
  for (const Wait& wait : waits_) {
    for (const Target& target : wait.targets)
      if (target.need == Need::kEnd) add_member(target.process);
  }
  for (std::size_t member = 0; member < count; ++member) {
    for (const pid_t child : std::vector<pid_t>(members_[member].state.children))
      if (os::task_state(child) == 'Z') add_member(child);
  }
}

void Snapshot::find_rights(const std::function<bool(const Object&)>& wanted) {
  for (const arena::LeaseRow& row : leases()) {
    const std::uint64_t object = load(row.object);
    if (object == 0 || !wanted(Object::unpack(object))) continue;
    const arena::Holder holder{load(row.holder)};
    if (holder.is_message() || holder.is_topic() || holder.is_ring() || holder.is_name() ||
        holder.is_receipt())
      openable_[object] = true;
    if (!holder.is_process()) continue;
    if (const auto member = member_in(holder.slot())) {
      std::vector<std::size_t>& members = rights_[object];
      if (std::find(members.begin(), members.end(), *member) == members.end()) members.push_back(*member);
    } else {
      openable_[object] = true;  // of a child that has not begun yet
    }
  }
}

std::span<const arena::LeaseRow> Snapshot::leases() const noexcept {
  const auto& state = *reinterpret_cast<const arena::ArenaState*>(view_.region(Region::kArena).data());
  const std::span<const std::byte> region = view_.region(Region::kLeases);
  const std::span<const arena::LeaseRow> rows{reinterpret_cast<const arena::LeaseRow*>(region.data()),
                                              region.size() / sizeof(arena::LeaseRow)};
  return rows.first(std::min<std::uint64_t>(load(state.leases_used), rows.size()));
}

std::optional<std::size_t> Snapshot::member_in(domain::SlotRef slot) const noexcept {
  const auto found = by_slot_.find(slot.index);
  if (found == by_slot_.end()) return std::nullopt;
  const Member& member = members_[found->second];
  if ((member.slot->generation & kGeneration) != (slot.generation & kGeneration)) return std::nullopt;
  return found->second;
}

std::optional<std::size_t> Snapshot::member_of(pid_t pid) const noexcept {
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (members_[i].state.pid == pid) return i;
  return std::nullopt;
}

const Wait* Snapshot::wait_of(const Actor& actor) const noexcept {
  const auto found =
      std::find_if(waits_.begin(), waits_.end(), [&](const Wait& wait) { return wait.who == actor; });
  return found == waits_.end() ? nullptr : &*found;
}

const ThreadState* Snapshot::thread(const Actor& actor) const noexcept {
  for (const ThreadState& each : members_[actor.member].state.threads)
    if (each.thread == actor.thread) return &each;
  return nullptr;
}

std::vector<std::size_t> Snapshot::holders(const Object& object) const {
  const auto found = rights_.find(object.pack());
  return found == rights_.end() ? std::vector<std::size_t>() : found->second;
}

bool Snapshot::may_be_opened(const Object& object) const { return openable_.count(object.pack()) != 0; }

const locks::LockRow* Snapshot::lock(const Object& object) const noexcept {
  if (object.kind != ObjectKind::kLock) return nullptr;
  const std::span<const std::byte> region = view_.region(Region::kLocks);
  if (object.index >= locks::rows_in(region.size())) return nullptr;
  const std::byte* const rows =
      region.data() + sizeof(locks::LockTable) + locks::cells_in(region.size()) * sizeof(locks::Cell);
  return reinterpret_cast<const locks::LockRow*>(rows) + object.index;
}

const channel::ChannelRow* Snapshot::channel(const Object& object) const noexcept {
  const auto rows = view_.rows<channel::ChannelRow, channel::ChannelTable>(Region::kChannels);
  if (object.kind != ObjectKind::kChannel || object.index >= rows.size()) return nullptr;
  return &rows[object.index];
}

std::string Snapshot::label(const Object& object) const {
  if (const locks::LockRow* row = lock(object)) return row->label.text();
  if (const channel::ChannelRow* row = channel(object)) return row->label.text();
  const auto topics = view_.rows<topic::TopicRow, topic::TopicTable>(Region::kTopics);
  if (object.kind == ObjectKind::kTopic && object.index < topics.size())
    return topics[object.index].label.text();
  return {};
}

std::optional<Actor> Snapshot::owner(const Object& object) const {
  const locks::LockRow* const row = lock(object);
  if (row == nullptr || !locks::has_owner(locks::kind_in(load(row->meta)))) return std::nullopt;
  const std::uint64_t word = load(row->state);
  if (locks::Owner::is_free(word)) return std::nullopt;
  const auto generation = static_cast<std::uint32_t>(word >> locks::Owner::kGenerationShift);
  const auto member = member_in({locks::Owner::slot(word), generation});
  if (!member) return std::nullopt;
  return Actor{*member, static_cast<pid_t>(word & locks::Owner::kThreadMask)};
}

std::vector<std::size_t> Snapshot::recorded(const Object& object) const {
  std::vector<std::size_t> members;
  const locks::LockRow* const row = lock(object);
  if (row == nullptr) return members;
  const std::uint64_t id = (load(row->meta) >> 32 << 32) | object.index;
  const std::span<const std::byte> region = view_.region(Region::kLocks);
  const auto& table = *reinterpret_cast<const locks::LockTable*>(region.data());
  const auto* const cells = reinterpret_cast<const locks::Cell*>(&table + 1);
  const std::uint64_t used = std::min(load(table.cells_used), locks::cells_in(region.size()));
  for (std::uint64_t i = 0; i < used; ++i) {
    const std::uint64_t owner = load(cells[i].owner);
    if (owner == 0 || load(cells[i].object) != id) continue;
    const bool reads = locks::kind_in(load(row->meta)) == locks::Kind::kReadWrite;
    if (reads && load(cells[i].units) == 0) continue;
    const auto generation = static_cast<std::uint32_t>(owner >> locks::Owner::kGenerationShift);
    if (const auto member = member_in({locks::Owner::slot(owner), generation})) members.push_back(*member);
  }
  return members;
}

std::vector<std::uint64_t> Snapshot::watched_by(std::uint64_t offset) const {
  std::vector<std::uint64_t> events;
  const std::uint64_t within = *view_.within(Region::kWaitSets, offset);
  if (within < sizeof(watch::SetTable)) return events;
  const std::uint32_t set = index_at<watch::SetRow>(within - sizeof(watch::SetTable));
  const auto& table = *reinterpret_cast<const watch::WatchTable*>(view_.region(Region::kWatches).data());
  const auto rows = view_.rows<watch::WatchRow, watch::WatchTable>(Region::kWatches);
  for (const watch::WatchRow& row : rows.first(std::min<std::uint64_t>(load(table.rows_used), rows.size()))) {
    if ((load(row.meta) & 1) != 0 && load(row.target) >> 32 == set) events.push_back(load(row.event));
  }
  return events;
}

Target Snapshot::target_at(std::uint64_t offset) const {
  if (const auto at = view_.within(Region::kChannels, offset); at && *at >= sizeof(channel::ChannelTable)) {
    using Row = channel::ChannelRow;
    const std::uint64_t place = *at - sizeof(channel::ChannelTable);
    const Need need = is_event(place, &Row::items)      ? Need::kMessage
                      : is_event(place, &Row::space)    ? Need::kRoom
                      : is_event(place, &Row::all_done) ? Need::kAllDone
                                                        : Need::kUnknown;
    return {need, {ObjectKind::kChannel, index_at<Row>(place)}, 0};
  }
  if (const auto at = view_.within(Region::kTopics, offset); at && *at >= sizeof(topic::TopicTable)) {
    using Row = topic::TopicRow;
    const std::uint64_t place = *at - sizeof(topic::TopicTable);
    const Need need = is_event(place, &Row::items)   ? Need::kNews
                      : is_event(place, &Row::space) ? Need::kReaders
                                                     : Need::kUnknown;
    return {need, {ObjectKind::kTopic, index_at<Row>(place)}, 0};
  }
  const auto at = view_.within(Region::kLocks, offset);
  if (!at || *at < sizeof(locks::LockTable)) return {};
  const std::span<const std::byte> region = view_.region(Region::kLocks);
  const std::uint64_t cells = locks::cells_in(region.size()) * sizeof(locks::Cell);
  std::uint64_t place = *at - sizeof(locks::LockTable);
  if (place < cells) {
    const auto* const cell = reinterpret_cast<const locks::Cell*>(region.data() + *at);
    return {Need::kNotice, {ObjectKind::kLock, static_cast<std::uint32_t>(load(cell->object))}, 0};
  }
  place -= cells;
  const Object object{ObjectKind::kLock, index_at<locks::LockRow>(place)};
  const locks::LockRow* const row = lock(object);
  if (row == nullptr) return {};
  if (is_event(place, &locks::LockRow::drained)) return {Need::kReadersGone, object, 0};
  return {need_of(locks::kind_in(load(row->meta))), object, 0};
}

}  // namespace forklift::inline abi_0_1::inspect
