#include "inspect/explain.h"

#include <algorithm>
#include <set>

namespace forklift::inline abi_0_1::inspect {

namespace {

// "load.py:12 in read" of "/srv/load.py:12 in read < main.py:30 in main": the report tells the rest elsewhere.
std::string innermost(const std::string& call_site) {
  const std::string frame = call_site.substr(0, call_site.find(" < "));
  return frame.substr(frame.find_last_of('/', frame.find(':')) + 1);
}

// Collects findings, one cause after another. A wait that a finding is about is not the subject of a lighter one.
class Explainer {
 public:
  Explainer(const Snapshot& snapshot, const Stuck& stuck)
      : snapshot_(snapshot), stuck_(stuck), words_(snapshot) {}

  std::vector<Finding> all() {
    for (const Wait* wait : stuck_.waits()) find_stopped(*wait);
    for (const Wait* wait : stuck_.waits()) find_lock_cycle(*wait);
    for (const Wait* wait : stuck_.waits()) find_lost_holder(*wait);
    for (const Wait* wait : stuck_.waits()) find_mixed_cycle(*wait);
    for (const Actor& actor : stuck_.forlorn()) find_lost_thread(actor);
    for (const Wait& wait : snapshot_.waits()) find_input(wait);
    for (const Wait* wait : stuck_.waits()) find_busy_pool(*wait);
    for (const Wait* wait : stuck_.waits()) find_lost_worker(*wait);
    for (const Wait* wait : stuck_.waits()) find_full(*wait);
    for (const Wait* wait : stuck_.waits()) find_not_done(*wait);
    for (const Wait* wait : stuck_.waits()) find_short(*wait);
    if (findings_.empty()) {
      for (const Wait* wait : stuck_.waits()) find_silence(*wait);
    }
    if (findings_.empty()) {
      for (const Wait* wait : stuck_.waits()) find_other(*wait);
    }
    std::stable_sort(findings_.begin(), findings_.end(),
                     [](const Finding& one, const Finding& other) { return one.cause < other.cause; });
    return std::move(findings_);
  }

 private:
  void add(Cause cause, std::string text, std::string advice, const std::vector<Actor>& about) {
    Finding finding{cause, std::move(text), std::move(advice), {}};
    for (const Actor& actor : about) {
      finding.processes.push_back(pid(actor));
      covered_.insert(actor);
    }
    findings_.push_back(std::move(finding));
  }
  pid_t pid(const Actor& actor) const { return snapshot_.members()[actor.member].state.pid; }
  bool is_covered(const Wait& wait) const { return covered_.count(wait.who) != 0; }
  static const Target* target_with(const Wait& wait, std::initializer_list<Need> needs) {
    for (const Target& target : wait.targets)
      if (std::find(needs.begin(), needs.end(), target.need) != needs.end()) return &target;
    return nullptr;
  }
  std::string since(const Wait& wait) const {
    return " (for " + seconds_text(snapshot_.seconds(wait)) +
           (wait.call_site.empty() ? "" : ", at " + innermost(wait.call_site)) + ")";
  }
  std::string waiting(const Wait& wait) const {
    return words_.actor(wait.who) + " waits for " + words_.wait(wait) + since(wait);
  }
  // "; process 12 waits for ..., and process 13 for ..."
  std::string what_they_do(const std::vector<Actor>& actors) const {
    constexpr std::size_t kMost = 3;
    std::string text;
    std::size_t told = 0;
    for (const Actor& actor : actors) {
      const Wait* const wait = snapshot_.wait_of(actor);
      if (wait == nullptr || told == kMost) continue;
      ++told;
      text += (text.empty() ? "" : "; ") + words_.actor(actor) + " waits for " + words_.wait(*wait);
    }
    return text;
  }

  void find_stopped(const Wait& wait) {
    if (is_covered(wait)) return;
    for (const Actor& ender : stuck_.enders(wait)) {
      const ThreadState* const thread = snapshot_.thread(ender);
      if (thread == nullptr || !thread->is_stopped() || stopped_.count(ender.member) != 0) continue;
      stopped_.insert(ender.member);
      const Target* const lock = target_with(wait, {Need::kLock, Need::kOnce});
      std::string text = words_.process(ender.member) + " is stopped (SIGSTOP, Ctrl-Z or a debugger)";
      std::string advice = "continue it: kill -CONT " + std::to_string(pid(ender));
      if (lock != nullptr) {
        text += " while it holds " + words_.object(lock->object) + ", for which " + words_.actor(wait.who) +
                " waits";
        advice += "; or kill it, and the lock is taken over";
      } else {
        text +=
            " and could end the wait of " + words_.actor(wait.who) + ", which waits for " + words_.wait(wait);
      }
      add(Cause::kStopped, text + since(wait), advice, {ender, wait.who});
      return;
    }
  }

  // The wait of the one who holds the lock that `wait` is for.
  const Wait* wait_of_holder(const Wait& wait) const {
    const Target* const lock = target_with(wait, {Need::kLock, Need::kOnce});
    const auto owner = lock != nullptr ? snapshot_.owner(lock->object) : std::nullopt;
    return owner ? snapshot_.wait_of(*owner) : nullptr;
  }

  void find_lock_cycle(const Wait& first) {
    if (is_covered(first)) return;
    std::vector<const Wait*> path{&first};
    for (const Wait* wait = wait_of_holder(first); wait != &first; wait = wait_of_holder(*wait)) {
      if (wait == nullptr || std::find(path.begin(), path.end(), wait) != path.end()) return;
      path.push_back(wait);
    }
    const auto lock_of = [&](const Wait& wait) {
      return words_.object(target_with(wait, {Need::kLock, Need::kOnce})->object);
    };
    if (path.size() == 1) {
      add(Cause::kDeadlock,
          "Deadlock: " + words_.actor(first.who) + " waits for " + lock_of(first) +
              ", which it holds itself" + since(first),
          "do not acquire it twice, or use an RLock", {first.who});
      return;
    }
    std::string text = "Deadlock: ";
    std::vector<Actor> about;
    for (std::size_t i = 0; i < path.size(); ++i) {
      // The lock that this one holds is what the one before it in the cycle waits for.
      const Wait& before = *path[(i + path.size() - 1) % path.size()];
      text += (i == 0 ? "" : "; ") + words_.actor(path[i]->who) + " holds " + lock_of(before) +
              " and waits for " + lock_of(*path[i]) + since(*path[i]);
      about.push_back(path[i]->who);
    }
    add(Cause::kDeadlock, text, "take these locks in the same order everywhere, or with a time-out", about);
  }

  void find_lost_holder(const Wait& wait) {
    const Target* const lock = target_with(wait, {Need::kLock});
    const auto owner = lock != nullptr ? snapshot_.owner(lock->object) : std::nullopt;
    if (!owner || is_covered(wait) || snapshot_.thread(*owner) != nullptr) return;
    add(Cause::kLostHolder,
        words_.object(lock->object) + " was acquired by " + words_.actor(*owner) +
            ", which has ended without releasing it, and " + words_.actor(wait.who) + " waits for it" +
            since(wait),
        "release it in the thread that acquires it (with lock: ...)", {wait.who});
  }

  // One holds a lock and waits for something that another one could do, who waits for the lock.
  void find_mixed_cycle(const Wait& wait) {
    const Target* const lock = target_with(wait, {Need::kLock, Need::kOnce});
    const Wait* const held = lock != nullptr ? wait_of_holder(wait) : nullptr;
    if (held == nullptr || is_covered(wait)) return;
    const std::vector<Actor> enders = stuck_.enders(*held);
    const bool closes = std::any_of(enders.begin(), enders.end(), [&](const Actor& each) {
      return each == wait.who || each.member == wait.who.member;
    });
    if (!closes) return;
    const std::string lock_text = words_.object(lock->object);
    add(Cause::kMixedCycle,
        "Deadlock: " + words_.actor(held->who) + " holds " + lock_text + " and waits for " +
            words_.wait(*held) + since(*held) + "; " + words_.actor(wait.who) +
            ", which could end that, waits for " + lock_text + since(wait),
        "do not wait for other processes while a lock is held that they need", {held->who, wait.who});
  }

  void find_lost_thread(const Actor& actor) {
    const Member& process = snapshot_.members()[actor.member];
    const auto parent = snapshot_.member_of(process.state.parent);
    const bool alone =
        std::count_if(process.state.threads.begin(), process.state.threads.end(),
                      [&](const ThreadState& each) { return !each.is_internal(process.state.pid); }) == 1;
    if (!alone) {
      add(Cause::kLostThread,
          "all threads of " + words_.process(actor.member) +
              " wait for locks in its own memory, and none is left that "
              "could release one",
          "look at their stacks (py-spy dump, gdb)", {actor});
      return;
    }
    add(Cause::kLostThread,
        words_.process(actor.member) +
            " waits for a lock in its own memory that no thread of it can release: its only "
            "thread is the one that waits" +
            (parent ? "; it was forked from " + words_.process(*parent) +
                          ", and a thread that held the lock there was not copied"
                    : ""),
        "start it with spawn or forkserver, or fork before threads are started (forklift fork-report)",
        {actor});
  }

  void find_input(const Wait& wait) {
    const Target* const end = target_with(wait, {Need::kEnd});
    if (end == nullptr || wait.is_timed() || snapshot_.now_ns() - wait.since_ns < kLongWaitNs) return;
    const auto member = snapshot_.member_of(end->process);
    const ThreadState* const main = member ? snapshot_.thread({*member, end->process}) : nullptr;
    if (main == nullptr || !main->reads_input()) return;
    add(Cause::kInput,
        words_.process(*member) + " waits for input: it reads its standard input, and " +
            words_.actor(wait.who) + " waits for its end" + since(wait),
        "give it its input, or none (stdin = /dev/null)", {Actor{*member, end->process}, wait.who});
  }

  void find_busy_pool(const Wait& wait) {
    const Target* const answers = target_with(wait, {Need::kMessage});
    if (answers == nullptr || is_covered(wait) ||
        label_of(snapshot_.view(), answers->object) != channel::kPoolAnswers)
      return;
    std::vector<Actor> workers;
    for (const Actor& each : stuck_.enders(wait)) {
      const Wait* const theirs = each.member == wait.who.member ? nullptr : snapshot_.wait_of(each);
      if (theirs == nullptr || theirs->who.thread != pid(each)) continue;
      const Target* const task = target_with(*theirs, {Need::kMessage, Need::kTask});
      const bool idle = task != nullptr && (task->need == Need::kTask ||
                                            label_of(snapshot_.view(), task->object) == channel::kPoolTasks);
      if (!idle) workers.push_back(each);
    }
    if (workers.empty()) return;
    std::vector<Actor> about = workers;
    about.push_back(wait.who);
    add(Cause::kNoFreeWorker,
        "no worker of the pool of " + words_.process(wait.who.member) +
            " is free: " + std::to_string(workers.size()) +
            (workers.size() == 1 ? " task waits itself: " : " tasks wait themselves: ") +
            what_they_do(workers),
        "a task must not wait for what another task of its pool or the submitter does later: use more "
        "workers, or another pool",
        about);
  }

  void find_lost_worker(const Wait& wait) {
    const Target* const message = target_with(wait, {Need::kMessage, Need::kAllDone, Need::kParties});
    if (message == nullptr || is_covered(wait)) return;
    for (std::size_t member = 0; member < snapshot_.members().size(); ++member) {
      const ProcessState& child = snapshot_.members()[member].state;
      if (!child.is_zombie() || child.parent != pid(wait.who)) continue;
      add(Cause::kLostWorker,
          words_.process(member) + ", a child of " + words_.process(wait.who.member) + ", " +
              ending_of(child.wait_status) + ", and " + words_.actor(wait.who) + " still waits for " +
              words_.wait(wait) + since(wait),
          "wait for the children's ends, too (wait_any, connection.wait on their sentinels), or use a Pool, "
          "which starts tasks again",
          {wait.who, Actor{member, child.pid}});
      return;
    }
  }

  void find_full(const Wait& wait) {
    const Target* const room = target_with(wait, {Need::kRoom, Need::kReaders});
    if (room == nullptr || is_covered(wait)) return;
    const std::vector<Actor> readers = stuck_.enders(wait);
    for (const Actor& reader : readers) {
      const Wait* const theirs = snapshot_.wait_of(reader);
      const Target* const end = theirs != nullptr ? target_with(*theirs, {Need::kEnd}) : nullptr;
      if (end == nullptr || end->process != pid(wait.who)) continue;
      add(Cause::kFull,
          words_.object(room->object) + " is full: " + words_.actor(reader) + " waits for the end of " +
              words_.process(wait.who.member) + since(*theirs) + ", which waits for " + words_.wait(wait) +
              since(wait),
          "take the messages before join(): a process with messages to put does not end", {reader, wait.who});
      return;
    }
    add(Cause::kFull,
        words_.object(room->object) + " is full, and nobody is left who takes from it: " + waiting(wait) +
            (what_they_do(readers).empty() ? "" : "; " + what_they_do(readers)),
        "let a process read it, or put with a time-out", {wait.who});
  }

  void find_not_done(const Wait& wait) {
    const Target* const done = target_with(wait, {Need::kAllDone});
    const channel::ChannelRow* const row = done != nullptr ? snapshot_.channel(done->object) : nullptr;
    if (row == nullptr || is_covered(wait)) return;
    const Level level = level_of(*row);
    const std::string queue = words_.object(done->object);
    const std::string joins = words_.actor(wait.who) + " waits in join()" + since(wait);
    const bool one = (level.messages == 0 ? level.unfinished : level.messages) == 1;
    if (level.messages != 0) {
      add(Cause::kNotDone,
          std::to_string(level.messages) + (one ? " message is" : " messages are") + " left in " + queue +
              ", which nobody takes, and " + joins,
          "let a process take them", {wait.who});
    } else if (level.acknowledges) {
      add(Cause::kNotDone, "messages of " + queue + " were taken and never acknowledged, and " + joins,
          "acknowledge each message that was got, or give it back, in a finally clause", {wait.who});
    } else {
      add(Cause::kNotDone,
          std::to_string(level.unfinished) + (one ? " message of " : " messages of ") + queue +
              (one ? " was" : " were") + " taken and never marked done, and " + joins,
          "call task_done() once for each message that was got, in a finally clause", {wait.who});
    }
  }

  void find_short(const Wait& wait) {
    const Target* const target =
        target_with(wait, {Need::kParties, Need::kCountDown, Need::kUnit, Need::kNotice, Need::kSetting});
    const locks::LockRow* const row = target != nullptr ? snapshot_.lock(target->object) : nullptr;
    if (row == nullptr || is_covered(wait) || told_.count(target->object.pack()) != 0) return;
    told_.insert(target->object.pack());
    const std::string thing = words_.object(target->object);
    switch (target->need) {
      case Need::kParties:
        add(Cause::kShort,
            thing + " lacks " + std::to_string(load(row->most) - load(row->inside)) + " of its " +
                std::to_string(load(row->most)) +
                " parties, and nobody is left who could come: " + waiting(wait),
            "make it for as many parties as there are, or wait with a time-out", {wait.who});
        break;
      case Need::kCountDown:
        add(Cause::kShort,
            thing + " stands at " + std::to_string(load(row->state)) +
                ", and nobody is left who counts it down: " + waiting(wait),
            "count down once for each part, also when it fails", {wait.who});
        break;
      case Need::kUnit:
        add(Cause::kNoUnit,
            thing + " has no unit left, and nobody is left who could release one: " + waiting(wait),
            "release each unit in a finally clause; with recover=True those of killed processes come back",
            {wait.who});
        break;
      default:
        add(Cause::kNoNotice,
            (target->need == Need::kNotice ? "nobody is left who could notify "
                                           : "nobody is left who could set ") +
                thing + ": " + waiting(wait),
            target->need == Need::kNotice
                ? "notify after each change, with the lock held; wait_for(predicate) misses none"
                : "set it in a finally clause, or wait with a time-out",
            {wait.who});
    }
  }

  void find_silence(const Wait& wait) {
    const Target* const message = target_with(wait, {Need::kMessage, Need::kNews});
    if (message == nullptr || is_covered(wait)) return;
    const std::string others = what_they_do(stuck_.enders(wait));
    add(Cause::kNoMessage,
        waiting(wait) + ", and nobody is left who could put one" + (others.empty() ? "" : ": " + others),
        "put an end mark, or close the queue, when the last writer ends; or get with a time-out", {wait.who});
  }

  void find_other(const Wait& wait) {
    if (is_covered(wait)) return;
    const std::string others = what_they_do(stuck_.enders(wait));
    add(Cause::kOther,
        waiting(wait) + ", and nobody is left who could end that" + (others.empty() ? "" : ": " + others),
        "look at the waits below", {wait.who});
  }

  const Snapshot& snapshot_;
  const Stuck& stuck_;
  const Words words_;
  std::vector<Finding> findings_;
  std::set<Actor> covered_;
  std::set<std::size_t> stopped_;  // members
  std::set<std::uint64_t> told_;   // objects
};

}  // namespace

std::vector<Finding> explain(const Snapshot& snapshot, const Stuck& stuck) {
  return Explainer(snapshot, stuck).all();
}

}  // namespace forklift::inline abi_0_1::inspect
