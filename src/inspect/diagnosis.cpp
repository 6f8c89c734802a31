#include "inspect/diagnosis.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>

#include "os/thread.h"

namespace forklift::inline abi_0_1::inspect {

namespace {

WaitLine line_of(const Snapshot& snapshot, const Stuck& stuck, const Wait& wait) {
  const Words words(snapshot);
  WaitLine line;
  line.process = snapshot.members()[wait.who.member].state.pid;
  line.thread = wait.who.thread;
  line.who = words.actor(wait.who);
  line.what = words.wait(wait);
  line.seconds = snapshot.seconds(wait);
  line.seconds_left = wait.is_timed() ? static_cast<double>(wait.until_ns - snapshot.now_ns()) / 1e9
                                      : std::numeric_limits<double>::infinity();
  line.stuck = stuck.is_stuck(wait.who);
  line.call_site = wait.call_site;
  for (const Actor& ender : stuck.enders(wait)) {
    const pid_t pid = snapshot.members()[ender.member].state.pid;
    if (std::find(line.enders.begin(), line.enders.end(), pid) == line.enders.end())
      line.enders.push_back(pid);
  }
  return line;
}

Diagnosis look(const Snapshot& snapshot, const Stuck& stuck) {
  Diagnosis report;
  report.domain = snapshot.view().header().domain_id;
  report.findings = explain(snapshot, stuck);
  for (const Wait& wait : snapshot.waits()) {
    const ThreadState* const thread = snapshot.thread(wait.who);
    const Member& member = snapshot.members()[wait.who.member];
    if (thread == nullptr || thread->has_ended()) continue;
    if (member.service || thread->is_internal(member.state.pid)) continue;
    report.waits.push_back(line_of(snapshot, stuck, wait));
  }
  std::stable_sort(report.waits.begin(), report.waits.end(),
                   [](const WaitLine& one, const WaitLine& other) { return one.seconds > other.seconds; });
  for (const Member& member : snapshot.members()) {
    report.processes.push_back(
        {member.state.pid, member.state.parent, member.name(), state_of(member.state), member.service});
  }
  return report;
}

// Is whoever is stuck there stuck here, too, in the same wait?
bool confirms(const Snapshot& now, const Stuck& again, const Snapshot& before, const Stuck& stuck) {
  const auto same_wait = [&](const Wait* each) {
    return std::any_of(again.waits().begin(), again.waits().end(), [&](const Wait* other) {
      return other->who.thread == each->who.thread && other->since_ns == each->since_ns;
    });
  };
  const auto pid_in = [](const Snapshot& snapshot, const Actor& actor) {
    return snapshot.members()[actor.member].state.pid;
  };
  const auto forlorn_again = [&](const Actor& each) {
    return std::any_of(again.forlorn().begin(), again.forlorn().end(),
                       [&](const Actor& other) { return pid_in(now, other) == pid_in(before, each); });
  };
  return std::all_of(stuck.waits().begin(), stuck.waits().end(), same_wait) &&
         std::all_of(stuck.forlorn().begin(), stuck.forlorn().end(), forlorn_again);
}

}  // namespace

Diagnosis diagnose(const View& view) {
  constexpr int kTries = 4;
  for (int i = 1;; ++i) {
    const Snapshot snapshot(view);
    const Stuck stuck(snapshot);
    const bool suspects = !stuck.waits().empty() || !stuck.forlorn().empty();
    if (!suspects) return look(snapshot, stuck);
    const Snapshot now(view);
    if (confirms(now, Stuck(now), snapshot, stuck)) return look(snapshot, stuck);
    if (i < kTries) continue;
    // Whoever goes on each time that one looks again may end the others' waits.
    Diagnosis moving = look(snapshot, stuck);
    moving.findings.clear();
    for (WaitLine& wait : moving.waits) wait.stuck = false;
    return moving;
  }
}

Result<std::vector<Diagnosis>> diagnose(pid_t pid) {
  Result<std::vector<View>> views = views_of(pid);
  if (!views) return views.status();
  std::vector<Diagnosis> reports;
  for (const View& view : *views) reports.push_back(diagnose(view));
  return reports;
}

namespace {

// A pool's worker that waits for a task, or a spare one for its turn: no result will come of it.
bool waits_for_task(const Snapshot& snapshot, const Wait& wait) {
  return std::any_of(wait.targets.begin(), wait.targets.end(), [&](const Target& each) {
    return each.need == Need::kTask ||
           (each.need == Need::kMessage && label_of(snapshot.view(), each.object) == channel::kPoolTasks);
  });
}

// Waits at the same barrier itself.
bool is_there(const Wait& wait, const Target& barrier) {
  return std::any_of(wait.targets.begin(), wait.targets.end(), [&](const Target& each) {
    return each.need == Need::kParties && each.object == barrier.object;
  });
}

}  // namespace

std::string prospects(const domain::Domain& domain, const Target& target) {
  Snapshot snapshot{View(domain)};
  snapshot.find_rights([&](const arena::Object& object) { return object == target.object; });
  const Stuck stuck(snapshot);
  const Words words(snapshot);
  const auto self = snapshot.member_of(::getpid());
  Wait wait;
  wait.who = {self.value_or(0), static_cast<pid_t>(os::thread_id())};
  wait.targets.push_back(target);
  const bool pool =
      target.need == Need::kMessage && label_of(snapshot.view(), target.object) == channel::kPoolAnswers;
  std::string text = pool ? "a result of the pool" : words.target(target);
  if (target.need == Need::kParties) text = "a party of " + text + ",";
  constexpr std::size_t kMost = 5;
  std::size_t told = 0;
  for (const Actor& ender : stuck.enders(wait)) {
    const ThreadState* const thread = snapshot.thread(ender);
    if (thread == nullptr || ender.thread != snapshot.members()[ender.member].state.pid) continue;
    const Wait* const theirs = snapshot.wait_of(ender);
    if (pool && (ender.member == wait.who.member || (theirs != nullptr && waits_for_task(snapshot, *theirs))))
      continue;
    if (target.need == Need::kParties && theirs != nullptr && is_there(*theirs, target)) continue;
    if (told++ == kMost) return text + "; or others";
    text += (told == 1 ? " could come from " : "; ") + words.actor(ender) + ", which ";
    text += theirs != nullptr ? "waits for " + words.wait(*theirs)
                              : state_of(snapshot.members()[ender.member].state);
  }
  if (told != 0) return text;
  return text + (pool ? ": no worker has a task" : ": no other process could bring it about");
}

std::string Diagnosis::text() const {
  std::string text;
  for (const Finding& finding : findings) {
    text += finding.text + ".\n    -> " + finding.advice + '\n';
  }
  const auto users = std::count_if(processes.begin(), processes.end(),
                                   [](const ProcessLine& each) { return !each.service; });
  if (findings.empty()) {
    text += "Nothing is stuck: " + std::to_string(users) + (users == 1 ? " process, " : " processes, ") +
            std::to_string(waits.size()) + (waits.size() == 1 ? " wait" : " waits");
    text += waits.empty() ? ".\n" : ", the longest for " + seconds_text(waits.front().seconds) + ".\n";
  }
  if (!waits.empty()) text += "\nWaits:\n";
  for (const WaitLine& wait : waits) {
    text += "  " + wait.who + ", for " + seconds_text(wait.seconds) + ": " + wait.what;
    if (wait.seconds_left != std::numeric_limits<double>::infinity())
      text += " (" + seconds_text(std::max(0.0, wait.seconds_left)) + " left)";
    if (wait.stuck) text += " (stuck)";
    text += '\n';
    if (!wait.call_site.empty()) text += "      at " + wait.call_site + '\n';
    if (wait.enders.empty()) continue;
    text += "      could be ended by";
    constexpr std::size_t kMost = 8;
    for (std::size_t i = 0; i < std::min(wait.enders.size(), kMost); ++i)
      text += (i == 0 ? " " : ", ") + std::to_string(wait.enders[i]);
    if (wait.enders.size() > kMost) text += " and " + std::to_string(wait.enders.size() - kMost) + " more";
    text += '\n';
  }
  text += "\nProcesses:\n";
  for (const ProcessLine& process : processes) {
    text += "  " + std::to_string(process.pid) + (process.name.empty() ? "" : " (" + process.name + ")") +
            ' ' + process.state + (process.service ? ", serves the others" : "") + '\n';
  }
  return text;
}

}  // namespace forklift::inline abi_0_1::inspect
