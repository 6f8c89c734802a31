#include "inspect/snapshot.h"

#include <algorithm>
#include <set>

#include "os/clock.h"
#include "os/proc.h"

namespace forklift::inline abi_0_1::inspect {

namespace {

using arena::Object;
using domain::Region;
using domain::WaitKind;

// The records keep 27 bits of a slot's generation, locks 29.
constexpr std::uint32_t kGeneration = (1U << 27) - 1;

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
        if (view_.within(Region::kWaitSets, seen.values[0])) seen.values = watched_by(view_, seen.values[0]);
        [[fallthrough]];
      case WaitKind::kSeveral:
        for (const std::uint64_t offset : seen.values) wait.targets.push_back(target_at(view_, offset));
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

}  // namespace forklift::inline abi_0_1::inspect
