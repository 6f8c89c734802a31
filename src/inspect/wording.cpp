#include <algorithm>
#include <cstdio>

#include "inspect/explain.h"

namespace forklift::inline abi_0_1::inspect {

namespace {

std::string counted(std::uint64_t count, const char* one, const char* many) {
  return std::to_string(count) + ' ' + (count == 1 ? one : many);
}

}  // namespace

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, seconds < 10 ? "%.1f s" : "%.0f s", seconds);
  return text;
}

std::string state_of(const ProcessState& state) {
  if (!state.there) return "is gone";
  if (state.is_zombie()) return ending_of(state.wait_status);
  if (state.is_stopped()) return "is stopped";
  const auto runs = [](const ThreadState& each) { return each.state == 'R'; };
  if (state.state == 'R' || std::any_of(state.threads.begin(), state.threads.end(), runs)) return "runs";
  return state.state == 'D' ? "waits for a device" : "sleeps";
}

const char* name_of(Cause cause) noexcept {
  switch (cause) {
    case Cause::kStopped: return "stopped-process";
    case Cause::kDeadlock: return "lock-cycle";
    case Cause::kLostHolder: return "lost-holder";
    case Cause::kMixedCycle: return "mixed-cycle";
    case Cause::kLostThread: return "lost-thread";
    case Cause::kInput: return "waits-for-input";
    case Cause::kLostWorker: return "lost-worker";
    case Cause::kNoFreeWorker: return "no-free-worker";
    case Cause::kFull: return "queue-full";
    case Cause::kNotDone: return "not-marked-done";
    case Cause::kShort: return "too-few-parties";
    case Cause::kNoUnit: return "no-unit";
    case Cause::kNoNotice: return "no-notification";
    case Cause::kNoMessage: return "no-writer";
    case Cause::kOther: break;
  }
  return "stuck";
}

Level level_of(const channel::ChannelRow& row) noexcept {
  const auto position = [](const sync::Word& end) { return channel::Position::unpack(load(end)).sequence(); };
  const auto since = [](std::uint64_t now, std::uint64_t then) {
    return (now - then) & channel::kSequenceMask;
  };
  const std::uint64_t head = position(row.head), tail = position(row.tail), first = load(row.first);
  Level level;
  level.messages = since(tail, head);
  level.capacity = load(row.capacity);
  level.put = since(tail, first);
  level.got = since(head, first);
  level.acknowledges = load(row.receipts) != 0;
  if (!level.acknowledges) level.unfinished = since(tail, load(row.done));
  return level;
}

std::string Words::process(std::size_t member) const {
  const Member& process = snapshot_.members()[member];
  std::string text = "process " + std::to_string(process.state.pid);
  return process.name().empty() ? text : text + " (" + process.name() + ")";
}

std::string Words::actor(const Actor& actor) const {
  std::string text = process(actor.member);
  if (actor.thread != snapshot_.members()[actor.member].state.pid)
    text = "thread " + std::to_string(actor.thread) + " of " + text;
  return text;
}

std::string Words::object(const arena::Object& object) const { return text_of(snapshot_.view(), object); }

std::string Words::target(const Target& target) const {
  std::string thing = object(target.object);
  const channel::ChannelRow* const channel = snapshot_.channel(target.object);
  const Level level = channel != nullptr ? level_of(*channel) : Level{};
  const locks::LockRow* const lock = snapshot_.lock(target.object);
  switch (target.need) {
    case Need::kLock: {
      const auto owner = snapshot_.owner(target.object);
      return thing + (owner ? ", which " + actor(*owner) + " holds" : "");
    }
    case Need::kOnce: return "the initialisation of " + thing;
    case Need::kReadersGone: return "the readers of " + thing;
    case Need::kUnit: return "a unit of " + thing;
    case Need::kNotice: return "a notification of " + thing;
    case Need::kSetting: return thing + " to be set";
    case Need::kParties:
      if (lock == nullptr) return thing;
      return thing + ", at which " + std::to_string(load(lock->inside)) + " of " +
             counted(load(lock->most), "party is", "parties are");
    case Need::kCountDown: return thing + " to reach zero";
    case Need::kMessage: return "a message in " + thing;
    case Need::kRoom:
      return "room in " + thing + ", which holds " + std::to_string(level.messages) +
             (level.capacity != 0   ? " of " + counted(level.capacity, "message", "messages")
              : level.messages == 1 ? " message"
                                    : " messages");
    case Need::kAllDone:
      thing = "the end of all work of " + thing;
      return level.acknowledges ? thing
                                : thing + ", of which " +
                                      counted(level.unfinished, "message is", "messages are") + " unfinished";
    case Need::kNews: return "a message of " + thing;
    case Need::kReaders: return "the slowest reader of " + thing;
    case Need::kEnd: {
      const auto member = snapshot_.member_of(target.process);
      return "the end of " + (member ? process(*member) : "process " + std::to_string(target.process));
    }
    case Need::kTask: return "its pool";
    case Need::kRanks: return "the other ranks of its group";
    case Need::kContainer: return "the writer of a shared container";
    case Need::kUnknown: break;
  }
  return "something that is not recorded";
}

std::string Words::wait(const Wait& wait) const {
  constexpr std::size_t kMost = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(wait.targets.size(), kMost); ++i)
    text += (i == 0 ? "" : " or ") + target(wait.targets[i]);
  if (wait.targets.size() > kMost || !wait.all_known) text += " or others";
  return text;
}

}  // namespace forklift::inline abi_0_1::inspect
