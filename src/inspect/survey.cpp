#include "inspect/survey.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "arena/tables.h"
#include "inspect/explain.h"
#include "topic/tables.h"

namespace forklift::inline abi_0_1::inspect {

namespace {

using arena::ObjectKind;
using domain::Region;

void add_once(std::vector<pid_t>& pids, pid_t pid) {
  if (std::find(pids.begin(), pids.end(), pid) == pids.end()) pids.push_back(pid);
}

// Counts what one snapshot shows.
class Counter {
 public:
  Counter(const View& view, Holders holders, Holdings& holdings)
      : view_(view), snapshot_(view, Detail::kNumbers), holders_(holders), holdings_(holdings) {}

  Survey count() {
    find_waiting();
    find_rights();
    survey_.domain = view_.header().domain_id;
    survey_.now_ns = snapshot_.now_ns();
    count_arena();
    count_processes();
    count_queues();
    count_topics();
    count_locks();
    count_holdings();
    return std::move(survey_);
  }

 private:
  pid_t pid_of(std::size_t member) const { return snapshot_.members()[member].state.pid; }

  void find_waiting() {
    for (const Wait& wait : snapshot_.waits()) {
      for (const Target& target : wait.targets)
        waiting_[target.object.pack()].emplace_back(target.need, pid_of(wait.who.member));
    }
  }
  // For this need of the object, or for any.
  std::vector<pid_t> waiting(const arena::Object& object, std::optional<Need> need = std::nullopt) const {
    std::vector<pid_t> pids;
    const auto found = waiting_.find(object.pack());
    if (found == waiting_.end()) return pids;
    for (const auto& [theirs, pid] : found->second)
      if (!need || theirs == *need) add_once(pids, pid);
    return pids;
  }
  // Of pools' tasks in any case: their holders are the workers.
  void find_rights() {
    snapshot_.find_rights([this](const arena::Object& object) {
      if (holders_ == Holders::kAll) return !arena::travels(object.kind);
      const channel::ChannelRow* const row = snapshot_.channel(object);
      return row != nullptr && row->label.is(channel::kPoolTasks);
    });
  }
  std::vector<pid_t> holders(const arena::Object& object) const {
    std::vector<pid_t> pids;
    for (const std::size_t member : snapshot_.holders(object)) add_once(pids, pid_of(member));
    return pids;
  }

  void count_arena() {
    const auto& state = *reinterpret_cast<const arena::ArenaState*>(view_.region(Region::kArena).data());
    ArenaUse& use = survey_.arena;
    use.reserved = view_.header().data_bytes;
    use.budget = load(view_.header().budget);
    use.committed = load(state.committed);
    use.warm = load(state.cached);
    use.messages = load(state.chunk_bytes);
  }

  void count_processes() {
    const Words words(snapshot_);
    for (std::size_t member = 0; member < snapshot_.members().size(); ++member) {
      const Member& process = snapshot_.members()[member];
      if (!process.slot) continue;
      ProcessUse use;
      use.pid = process.state.pid;
      use.parent = process.state.parent;
      use.name = process.name();
      use.state = state_of(process.state);
      use.service = process.service;
      use.cpu_seconds = process.state.cpu_seconds;
      use.own_bytes = process.state.own_bytes;
      if (const Wait* wait = snapshot_.wait_of({member, use.pid})) {
        use.waits_for = words.wait(*wait);
        use.waits_seconds = snapshot_.seconds(*wait);
      }
      use_of_[member] = survey_.processes.size();
      survey_.processes.push_back(std::move(use));
    }
  }

  void count_queues() {
    const auto rows = view_.rows<channel::ChannelRow, channel::ChannelTable>(Region::kChannels);
    const auto& table =
        *reinterpret_cast<const channel::ChannelTable*>(view_.region(Region::kChannels).data());
    const std::uint64_t used = std::min<std::uint64_t>(load(table.rows_used), rows.size());
    for (std::uint32_t index = 0; index < used; ++index) {
      const channel::ChannelRow& row = rows[index];
      const std::uint64_t meta = load(row.meta);
      if ((meta & 1) == 0) continue;
      QueueUse use = queue(row, {ObjectKind::kChannel, index});
      use.generation = static_cast<std::uint32_t>(meta >> 32);
      if (use.label == channel::kPoolTasks)
        count_pool(use, row);
      else if (use.label != channel::kPoolAnswers)
        survey_.queues.push_back(std::move(use));
    }
  }

  QueueUse queue(const channel::ChannelRow& row, const arena::Object& object) const {
    const Level level = level_of(row);
    QueueUse use;
    use.index = object.index;
    use.label = row.label.text();
    use.length = level.messages;
    use.capacity = level.capacity;
    use.put = level.put;
    use.got = level.got;
    use.put_bytes = load(row.tail_bytes[channel::Position::unpack(load(row.tail)).sequence() & 1]);
    use.unfinished = level.unfinished;
    use.waiting_to_get = waiting(object, Need::kMessage);
    use.waiting_to_put = waiting(object, Need::kRoom);
    use.holders = holders(object);
    return use;
  }

  // A worker waits for tasks, or works; the process that made the pool is their parent.
  void count_pool(const QueueUse& tasks, const channel::ChannelRow& row) {
    PoolUse use;
    use.tasks = tasks.index;
    use.deaths = load(row.deaths);
    use.retries = load(row.sent_again);
    use.waiting = tasks.length;
    use.submitted = tasks.put;
    for (const std::size_t member : snapshot_.holders({ObjectKind::kChannel, tasks.index})) {
      const ProcessState& process = snapshot_.members()[member].state;
      const auto parent = snapshot_.member_of(process.parent);
      const bool is_worker = parent && std::find(tasks.holders.begin(), tasks.holders.end(),
                                                 process.parent) != tasks.holders.end();
      if (!is_worker) {
        if (use.owner == 0) use.owner = process.pid;
        continue;
      }
      const Wait* const wait = snapshot_.wait_of({member, process.pid});
      const bool idle =
          wait != nullptr && std::any_of(wait->targets.begin(), wait->targets.end(), [&](const Target& each) {
            return each.need == Need::kTask ||
                   (each.object == arena::Object{ObjectKind::kChannel, tasks.index});
          });
      (idle ? use.idle : use.busy).push_back(process.pid);
    }
    survey_.pools.push_back(std::move(use));
  }

  void count_topics() {
    const auto rows = view_.rows<topic::TopicRow, topic::TopicTable>(Region::kTopics);
    const auto& table = *reinterpret_cast<const topic::TopicTable*>(view_.region(Region::kTopics).data());
    const std::uint64_t used = std::min<std::uint64_t>(load(table.rows_used), rows.size());
    for (std::uint32_t index = 0; index < used; ++index) {
      const topic::TopicRow& row = rows[index];
      if ((load(row.meta) & 1) == 0) continue;
      const arena::Object object{ObjectKind::kTopic, index};
      survey_.topics.push_back(
          {index, row.label.text(), load(row.tail), load(row.oldest), waiting(object, Need::kNews)});
    }
  }

  void count_locks() {
    const auto& table = *reinterpret_cast<const locks::LockTable*>(view_.region(Region::kLocks).data());
    for (std::uint32_t index = 0; index < load(table.rows_used); ++index) {
      const arena::Object object{ObjectKind::kLock, index};
      const locks::LockRow* const row = snapshot_.lock(object);
      if (row == nullptr) break;
      const locks::Kind kind = locks::kind_in(load(row->meta));
      if (kind == locks::Kind::kNone) continue;
      LockUse use{index, noun_of(kind), row->label.text(), 0, 0, {}};
      if (const auto owner = snapshot_.owner(object)) use.owner = pid_of(owner->member);
      use.waiting = waiting(object);
      if (kind == locks::Kind::kBarrier) use.value = load(row->inside);
      if (!locks::has_owner(kind) && kind != locks::Kind::kBarrier) use.value = load(row->state);
      if (use.owner != 0 || !use.waiting.empty()) survey_.locks.push_back(std::move(use));
    }
  }

  // Whose blocks are how large, and which have lain with one process for long.
  void count_holdings() {
    holdings_.look(view_, snapshot_.leases(), survey_.now_ns);
    survey_.arena.blocks = holdings_.leases();
    for (const Holding& holding : holdings_.blocks()) {
      for (const domain::SlotRef slot : holding.processes) add_holder(holding, slot);
    }
    list_largest();
  }
  void add_holder(const Holding& holding, domain::SlotRef slot) {
    const auto member = snapshot_.member_in(slot);
    const auto use = member ? use_of_.find(*member) : use_of_.end();
    if (use == use_of_.end()) return;
    ProcessUse& process = survey_.processes[use->second];
    process.arena_bytes += holding.bytes;
    ++process.blocks;
    if (holding.held_seconds(survey_.now_ns) >= kOldSeconds) process.old_bytes += holding.bytes;
  }
  void list_largest() {
    std::vector<const Holding*> all;
    for (const Holding& holding : holdings_.blocks()) all.push_back(&holding);
    const std::size_t most = std::min(all.size(), kMostBlocks);
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(most), all.end(),
                      [](const Holding* a, const Holding* b) { return a->bytes > b->bytes; });
    all.resize(most);
    for (const Holding* const holding : all) {
      BlockUse use{
          holding->index, holding->generation, holding->bytes, {}, 0, holding->held_seconds(survey_.now_ns)};
      if (const auto member = holding->only() ? snapshot_.member_in(*holding->only()) : std::nullopt)
        use.process = pid_of(*member);
      use.holder = holder_text(*holding, use.process);
      survey_.blocks.push_back(std::move(use));
    }
  }
  std::string holder_text(const Holding& holding, pid_t process) const {
    if (process != 0) return std::to_string(process);
    if (holding.leases == 1)
      return holding.processes.empty() ? text_of(view_, holding.other) : "a process that is gone";
    return std::to_string(holding.leases) + " holders";
  }

  const View& view_;
  Snapshot snapshot_;
  const Holders holders_;
  Holdings& holdings_;
  std::map<std::uint64_t, std::vector<std::pair<Need, pid_t>>> waiting_;  // by object, packed
  std::map<std::size_t, std::size_t> use_of_;                             // of a member, in survey_.processes
  Survey survey_;
};

}  // namespace

Survey survey_of(const View& view, Holders holders, Holdings* before) {
  Holdings first;
  return Counter(view, holders, before != nullptr ? *before : first).count();
}

}  // namespace forklift::inline abi_0_1::inspect
