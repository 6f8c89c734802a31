#include "inspect/timeline.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "inspect/matching.h"

namespace forklift::inline abi_0_1::inspect {

namespace {

using trace::Event;
using trace::EventKind;

// Slices of a wait with less than this in between are one wait.
constexpr std::int64_t kMergeNs = 20'000;
constexpr std::uint64_t kPlaceMask = 0xff;
constexpr std::uint64_t kUnfinishedWait = 2;  // in the second byte of a wait's value
// What overlaps more than this many others is cut off where the last of these ends.
constexpr std::size_t kMostLanes = 8;

std::int64_t end_of(const Event& event) noexcept {
  if (event.duration <= 0) return event.time;
  if (event.time > std::numeric_limits<std::int64_t>::max() - event.duration)
    return std::numeric_limits<std::int64_t>::max();
  return event.time + event.duration;
}

bool is_span(EventKind kind) noexcept { return kind >= EventKind::kPut && kind <= EventKind::kRange; }
bool is_moment(EventKind kind) noexcept { return kind >= EventKind::kThread && kind <= EventKind::kCounter; }

SliceKind slice_kind(EventKind kind) noexcept {
  switch (kind) {
    case EventKind::kPut: return SliceKind::kPut;
    case EventKind::kGet: return SliceKind::kGet;
    case EventKind::kPublish: return SliceKind::kPublish;
    case EventKind::kRead: return SliceKind::kRead;
    case EventKind::kWait: return SliceKind::kWait;
    case EventKind::kTask: return SliceKind::kTask;
    case EventKind::kCopy: return SliceKind::kCopy;
    default: return SliceKind::kRange;
  }
}

// The time that the recording covers; where it does not say so, that of its events.
std::pair<std::int64_t, std::int64_t> bounds_of(const Recording& recording) {
  if (recording.ended_ns > recording.began_ns) return {recording.began_ns, recording.ended_ns};
  std::int64_t began = std::numeric_limits<std::int64_t>::max();
  std::int64_t ended = std::numeric_limits<std::int64_t>::min();
  for (const RecordedThread& thread : recording.threads) {
    for (const Event& event : thread.events) {
      began = std::min(began, event.time);
      ended = std::max(ended, end_of(event));
    }
  }
  return began <= ended ? std::pair{began, ended} : std::pair{recording.began_ns, recording.began_ns};
}

// Makes the slices and moments of one thread.
class ThreadBuilder {
 public:
  ThreadBuilder(const Timeline& timeline, ThreadTimeline& thread)
      : timeline_(timeline), thread_(thread), death_(timeline.process_of(thread).ended) {}

  // How many events were of unknown kinds.
  std::uint64_t build(std::vector<Event> events) {
    const auto earlier = [](const Event& one, const Event& other) { return one.time < other.time; };
    if (!std::is_sorted(events.begin(), events.end(), earlier))
      std::stable_sort(events.begin(), events.end(), earlier);
    std::uint64_t unknown = 0;
    for (const Event& event : events) {
      const bool may_go_on = std::exchange(wait_may_go_on_, false);
      if (is_span(event.kind)) {
        add_span(event, may_go_on);
      } else if (is_moment(event.kind)) {
        add_moment(event);
      } else {
        ++unknown;
      }
    }
    for (const Open& open : open_) add_unfinished(open, death_);
    nest();
    return unknown;
  }

 private:
  // A task or a range whose beginning was seen.
  struct Open {
    SliceKind kind = SliceKind::kTask;
    std::uint64_t key = 0;
    Event event;
  };
  static std::uint64_t key_of(SliceKind kind, const Event& event) noexcept {
    return kind == SliceKind::kTask ? event.object : event.value;
  }

  void add_span(const Event& event, bool may_go_on) {
    const SliceKind kind = slice_kind(event.kind);
    if (kind == SliceKind::kTask || kind == SliceKind::kRange) close(kind, event);
    if (end_of(event) < timeline_.began || event.time > timeline_.ended) return;
    Slice slice;
    slice.begin = std::max(event.time, timeline_.began);
    slice.end = std::min(end_of(event), timeline_.ended);
    slice.object = event.object;
    slice.value = event.value;
    slice.kind = kind;
    if (kind == SliceKind::kWait) {
      slice.value = event.value & kPlaceMask;
      slice.unfinished = (event.value >> 8 & kPlaceMask) == kUnfinishedWait;
      wait_may_go_on_ = true;
      if (may_go_on && goes_on(thread_.slices.back(), slice)) {
        thread_.slices.back().end = std::max(thread_.slices.back().end, slice.end);
        thread_.slices.back().unfinished = slice.unfinished;
        return;
      }
    }
    thread_.slices.push_back(slice);
  }
  static bool goes_on(const Slice& wait, const Slice& next) noexcept {
    return wait.object == next.object && wait.value == next.value && next.begin - wait.end < kMergeNs;
  }

  void add_moment(const Event& event) {
    if (event.kind == EventKind::kThread || event.time > timeline_.ended) return;
    if (event.kind == EventKind::kTaskBegan || event.kind == EventKind::kRangeBegan) {
      open(event.kind == EventKind::kTaskBegan ? SliceKind::kTask : SliceKind::kRange, event);
      return;
    }
    if (event.time < timeline_.began) return;
    thread_.moments.push_back({event.time, event.object, event.value, event.kind});
  }

  // The moment of a span's beginning may stand before the span or behind it: they have nearly the same time.
  void open(SliceKind kind, const Event& event) {
    const std::uint64_t key = key_of(kind, event);
    Event& last = last_span_[kind == SliceKind::kRange ? 1 : 0];
    if (last.kind != EventKind::kNone && key_of(kind, last) == key && event.time <= end_of(last)) {
      last.kind = EventKind::kNone;
      return;
    }
    if (kind == SliceKind::kTask) abandon_task(event.time);
    open_.push_back({kind, key, event});
  }
  void close(SliceKind kind, const Event& event) {
    const std::uint64_t key = key_of(kind, event);
    for (auto open = open_.rbegin(); open != open_.rend(); ++open) {
      if (open->kind != kind || open->key != key) continue;
      open_.erase(std::next(open).base());
      return;
    }
    if (kind == SliceKind::kTask) abandon_task(event.time);
    last_span_[kind == SliceKind::kRange ? 1 : 0] = event;
  }
  // A thread has one task at a time: the end of the one before was lost.
  void abandon_task(std::int64_t now) {
    const auto task = std::find_if(open_.begin(), open_.end(),
                                   [](const Open& open) { return open.kind == SliceKind::kTask; });
    if (task == open_.end()) return;
    add_unfinished(*task, now);
    open_.erase(task);
  }
  void add_unfinished(const Open& open, std::int64_t end) {
    Slice slice;
    if (end < timeline_.began) return;
    slice.begin = std::max(open.event.time, timeline_.began);
    slice.end = std::clamp(end, slice.begin, timeline_.ended);
    slice.object = open.event.object;
    slice.value = open.event.value;
    slice.kind = open.kind;
    slice.unfinished = true;
    thread_.slices.push_back(slice);
  }

  // Sorts the slices and finds what each lies in.
  void nest() {
    std::stable_sort(thread_.slices.begin(), thread_.slices.end(), [](const Slice& one, const Slice& other) {
      if (one.begin != other.begin) return one.begin < other.begin;
      if (one.end != other.end) return one.end > other.end;
      return one.kind < other.kind;
    });
    std::vector<std::vector<std::int64_t>> lanes(1);  // the ends of the slices that are open in each
    for (Slice& slice : thread_.slices) {
      for (std::size_t lane = 0;; ++lane) {
        if (lane == lanes.size()) lanes.emplace_back();
        std::vector<std::int64_t>& ends = lanes[lane];
        while (!ends.empty() && ends.back() <= slice.begin) ends.pop_back();
        if (!ends.empty() && ends.back() < slice.end) {
          if (!slice.unfinished && lane + 1 < kMostLanes) continue;
          slice.end = ends.back();
        }
        slice.lane = static_cast<std::uint16_t>(lane);
        slice.depth = static_cast<std::uint16_t>(std::min<std::size_t>(ends.size(), 0xffff));
        ends.push_back(slice.end);
        break;
      }
    }
    thread_.lanes = static_cast<std::uint16_t>(lanes.size());
  }

  const Timeline& timeline_;
  ThreadTimeline& thread_;
  std::int64_t death_;
  bool wait_may_go_on_ = false;  // the event before was a wait
  Event last_span_[2];           // the last task and the last range whose beginning was not seen yet
  std::vector<Open> open_;
};

// Finds processes by their pids, and adds those that the recording does not name.
class Processes {
 public:
  explicit Processes(Timeline& timeline) : timeline_(timeline) {
    for (const RecordedProcess& process : timeline.recording->processes) add(process);
  }
  std::size_t find(pid_t pid) {
    const auto found = by_pid_.find(pid);
    if (found != by_pid_.end()) return found->second;
    RecordedProcess unknown;
    unknown.pid = pid;
    return add(unknown);
  }

 private:
  std::size_t add(const RecordedProcess& process) {
    ProcessTimeline line;
    line.pid = process.pid;
    line.parent = process.parent;
    line.name = process.name.empty() ? "process " + std::to_string(process.pid) : process.name;
    line.service = process.service;
    line.left_in_order = process.left_in_order;
    line.began_here = process.began_ns > timeline_.began && process.began_ns <= timeline_.ended;
    line.began = line.began_here ? process.began_ns : timeline_.began;
    line.ended_here =
        process.ended_ns >= line.began && process.ended_ns != 0 && process.ended_ns < timeline_.ended;
    line.ended = line.ended_here ? process.ended_ns : timeline_.ended;
    // The last process with a pid is the one that threads are said to be of.
    by_pid_[process.pid] = timeline_.processes.size();
    timeline_.processes.push_back(std::move(line));
    return timeline_.processes.size() - 1;
  }

  Timeline& timeline_;
  std::map<pid_t, std::size_t> by_pid_;
};

}  // namespace

Timeline timeline_of(const Recording& recording) {
  Timeline timeline;
  timeline.recording = &recording;
  std::tie(timeline.began, timeline.ended) = bounds_of(recording);
  Processes processes(timeline);
  // Rings of the same thread are put together: each thread has one track.
  std::map<std::pair<pid_t, pid_t>, std::size_t> index;
  std::vector<std::vector<std::size_t>> rings;
  for (std::size_t i = 0; i < recording.threads.size(); ++i) {
    const RecordedThread& recorded = recording.threads[i];
    const auto [entry, is_new] = index.try_emplace({recorded.pid, recorded.thread}, rings.size());
    if (is_new) {
      ThreadTimeline& thread = timeline.threads.emplace_back();
      thread.process = processes.find(recorded.pid);
      thread.thread = recorded.thread;
      thread.name = recorded.name;
      rings.emplace_back();
    }
    rings[entry->second].push_back(i);
    timeline.threads[entry->second].lost += recorded.lost;
  }
  for (std::size_t i = 0; i < rings.size(); ++i) {
    std::vector<Event> events;
    for (const std::size_t ring : rings[i]) {
      const std::vector<Event>& more = recording.threads[ring].events;
      events.insert(events.end(), more.begin(), more.end());
    }
    timeline.unknown += ThreadBuilder(timeline, timeline.threads[i]).build(std::move(events));
  }
  link_messages(timeline);
  find_holds(timeline);
  return timeline;
}

}  // namespace forklift::inline abi_0_1::inspect
