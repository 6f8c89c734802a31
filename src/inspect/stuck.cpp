#include "inspect/stuck.h"

#include <algorithm>

namespace forklift::inline abi_0_1::inspect {

Stuck::Stuck(const Snapshot& snapshot) : snapshot_(snapshot) {
  for (std::size_t member = 0; member < snapshot.members().size(); ++member) {
    for (const ThreadState& thread : snapshot.members()[member].state.threads) {
      const Actor actor{member, thread.thread};
      if (!may_end_by_itself(actor)) actors_.insert(actor);
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (auto at = actors_.begin(); at != actors_.end();) {
      const bool ends = can_end(*at);
      at = ends ? actors_.erase(at) : std::next(at);
      changed = changed || ends;
    }
  }
  for (const Wait& wait : snapshot.waits()) {
    if (!is_stuck(wait.who)) continue;
    const ThreadState* const thread = snapshot.thread(wait.who);
    // Of a thread that was killed the record stays until its process is reaped: it waits no more.
    const bool waits = thread != nullptr && !thread->has_ended() &&
                       !thread->is_internal(snapshot.members()[wait.who.member].state.pid);
    if (waits && !snapshot.members()[wait.who.member].service) waits_.push_back(&wait);
  }
  std::sort(waits_.begin(), waits_.end(),
            [](const Wait* one, const Wait* other) { return one->since_ns < other->since_ns; });
  for (std::size_t member = 0; member < snapshot.members().size(); ++member) {
    const Member& process = snapshot.members()[member];
    const bool all_within =
        std::all_of(process.state.threads.begin(), process.state.threads.end(), [&](const ThreadState& each) {
          const Actor actor{member, each.thread};
          return waits_within(actor) ||
                 (each.is_internal(process.state.pid) && snapshot.wait_of(actor) == nullptr);
        });
    const Actor main{member, process.state.pid};
    if (!process.service && is_stuck(main) && all_within) forlorn_.push_back(main);
  }
}

bool Stuck::waits_within(const Actor& actor) const {
  if (snapshot_.wait_of(actor) != nullptr) return false;
  const ThreadState* const thread = snapshot_.thread(actor);
  return thread != nullptr && thread->waits_for_memory(snapshot_.members()[actor.member].state.pid);
}

// Whether this thread goes on, or ends its wait, whatever others do. Those for whom that is not so are examined further.
bool Stuck::may_end_by_itself(const Actor& actor) const {
  const ThreadState* const thread = snapshot_.thread(actor);
  if (thread == nullptr || thread->has_ended()) return false;
  if (thread->is_stopped()) return false;
  if (const Wait* wait = snapshot_.wait_of(actor)) {
    if (wait->is_timed() || !wait->all_known) return true;
    return snapshot_.now_ns() - wait->since_ns < kLongWaitNs;
  }
  if (thread->waits_for_process() != 0)
    return snapshot_.member_of(thread->waits_for_process()) == std::nullopt;
  // This library's own threads act for others: asleep, they do nothing by themselves.
  if (thread->is_internal(snapshot_.members()[actor.member].state.pid)) return thread->state != 'S';
  return !thread->waits_for_memory(snapshot_.members()[actor.member].state.pid);
}

bool Stuck::can_end(const Actor& actor) const {
  const ThreadState* const thread = snapshot_.thread(actor);
  if (thread == nullptr || thread->is_stopped()) return false;
  // A thread that has ended does nothing, even if it holds something still.
  const auto goes_on = [this](const Actor& each) {
    return !is_stuck(each) && snapshot_.thread(each) != nullptr;
  };
  if (const Wait* wait = snapshot_.wait_of(actor)) {
    bool unknown = false;
    for (const Target& target : wait->targets) {
      const std::vector<Actor> enders = enders_of(target, actor, unknown);
      if (unknown || std::any_of(enders.begin(), enders.end(), goes_on)) return true;
    }
    return false;
  }
  if (const pid_t process = thread->waits_for_process(); process != 0) {
    const auto member = snapshot_.member_of(process);
    return !member || goes_on({*member, process});
  }
  // Any other thread of the process may be what it waits for, one of this library's with a wait of its own, too.
  const Member& process = snapshot_.members()[actor.member];
  return std::any_of(process.state.threads.begin(), process.state.threads.end(),
                     [&](const ThreadState& each) {
                       return each.thread != actor.thread && goes_on({actor.member, each.thread});
                     });
}

void Stuck::add_threads(std::size_t member, const Actor& but, std::vector<Actor>& into) const {
  const Member& process = snapshot_.members()[member];
  if (process.service) return;
  for (const ThreadState& thread : process.state.threads) {
    const Actor actor{member, thread.thread};
    if (actor != but && !thread.is_internal(process.state.pid)) into.push_back(actor);
  }
}

std::vector<Actor> Stuck::enders(const Wait& wait) const {
  std::vector<Actor> all;
  bool unknown = false;
  for (const Target& target : wait.targets) {
    const std::vector<Actor> some = enders_of(target, wait.who, unknown);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::vector<Actor> Stuck::enders_of(const Target& target, const Actor& who, bool& unknown) const {
  std::vector<Actor> all;
  switch (target.need) {
    case Need::kLock:
    case Need::kOnce:
      if (const auto owner = snapshot_.owner(target.object)) {
        all.push_back(*owner);
      } else {
        unknown = true;  // it was released a moment ago
      }
      break;
    case Need::kReadersGone:
      for (const std::size_t member : snapshot_.recorded(target.object)) add_threads(member, who, all);
      unknown = all.empty();
      break;
    case Need::kEnd: {
      const auto member = snapshot_.member_of(target.process);
      if (!member || snapshot_.members()[*member].state.is_zombie() ||
          !snapshot_.members()[*member].state.there)
        unknown = true;
      else
        all.push_back({*member, target.process});
      break;
    }
    case Need::kUnit:
    case Need::kNotice:
    case Need::kSetting:
    case Need::kParties:
    case Need::kCountDown:
    case Need::kMessage:
    case Need::kRoom:
    case Need::kAllDone:
    case Need::kNews:
    case Need::kReaders:
      unknown = snapshot_.may_be_opened(target.object);
      for (const std::size_t member : snapshot_.holders(target.object)) add_threads(member, who, all);
      break;
    case Need::kTask:
      if (const auto parent = snapshot_.member_of(snapshot_.members()[who.member].state.parent))
        add_threads(*parent, who, all);
      else
        unknown = true;
      break;
    case Need::kRanks:
    case Need::kContainer:
    case Need::kUnknown: unknown = true; break;
  }
  return all;
}

}  // namespace forklift::inline abi_0_1::inspect
