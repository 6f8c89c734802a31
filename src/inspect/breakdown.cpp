#include "inspect/breakdown.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "inspect/critical_path.h"
#include "inspect/sentences.h"
#include "inspect/slice_text.h"

namespace forklift::inline abi_0_1::inspect {

namespace {

constexpr std::size_t kMostSlowTasks = 10;

// What is counted while a thread's slices are gone through. Where several are open, the first of these tells the share.
enum Activity : std::uint8_t {
  kRoom,
  kLock,
  kWork,
  kOther,
  kCopies,
  kTransfers,
  kTasks,
  kRanges,
  kActivities
};

Activity activity_of(const Recording& recording, const Slice& slice) {
  switch (slice.kind) {
    case SliceKind::kTask: return kTasks;
    case SliceKind::kRange: return kRanges;
    case SliceKind::kCopy: return kCopies;
    case SliceKind::kWait: break;
    default: return kTransfers;
  }
  const std::string& noun = place_of(recording, slice).noun;
  if (noun == "room") return kRoom;
  if (noun == "lock") return kLock;
  return noun == "message" || noun == "task" ? kWork : kOther;
}

Share share_of(const std::array<int, kActivities>& open, bool starting) {
  if (open[kRoom] > 0) return Share::kWaitingForRoom;
  if (open[kLock] > 0) return Share::kWaitingForLocks;
  if (open[kWork] > 0) return open[kTasks] > 0 ? Share::kWaitingOther : Share::kWaitingForWork;
  if (open[kOther] > 0) return Share::kWaitingOther;
  if (open[kCopies] > 0) return Share::kCopying;
  if (open[kTransfers] > 0) return Share::kPassing;
  if (open[kTasks] > 0 || open[kRanges] > 0) return Share::kWorking;
  return starting ? Share::kStarting : Share::kUnknown;
}

// Where the time of one thread went.
class ThreadClock {
 public:
  ThreadClock(const Timeline& timeline, const PlaceTargets& targets, std::size_t number)
      : recording_(*timeline.recording),
        targets_(targets),
        thread_(timeline.threads[number]),
        process_(timeline.process_of(thread_)) {
    time_.thread = number;
    time_.pid = process_.pid;
    time_.tid = thread_.thread;
    time_.name = thread_name(timeline, thread_);
    time_.service = process_.service;
    find_life();
  }

  ThreadTime take() {
    add_shares();
    add_waits();
    return std::move(time_);
  }

 private:
  struct Edge {
    std::int64_t time = 0;
    Activity activity = kOther;
    std::int8_t change = 0;
  };

  // A main thread lives as long as its process; of another one is known when it did something.
  void find_life() {
    began_ = process_.began;
    ended_ = process_.ended;
    if (thread_.thread == process_.pid) return;
    std::int64_t first = ended_;
    std::int64_t last = began_;
    for (const Slice& slice : thread_.slices) {
      first = std::min(first, slice.begin);
      last = std::max(last, slice.end);
    }
    for (const Moment& moment : thread_.moments) {
      first = std::min(first, moment.time);
      last = std::max(last, moment.time);
    }
    began_ = std::max(began_, first);
    ended_ = std::max(began_, std::min(ended_, last));
  }
  // When it was ready to work; without anything that tells, from the beginning on.
  std::int64_t ready() const {
    if (!process_.began_here || thread_.thread != process_.pid) return began_;
    for (const Slice& slice : thread_.slices) {
      const Activity activity = activity_of(recording_, slice);
      if (activity == kWork || activity == kTransfers || activity == kTasks || activity == kRanges)
        return std::clamp(slice.begin, began_, ended_);
    }
    return began_;
  }

  void add_shares() {
    std::vector<Edge> edges;
    edges.reserve(2 * thread_.slices.size() + 2);
    for (const Slice& slice : thread_.slices) {
      const std::int64_t begin = std::clamp(slice.begin, began_, ended_);
      const std::int64_t end = std::clamp(slice.end, began_, ended_);
      if (begin == end) continue;
      const Activity activity = activity_of(recording_, slice);
      edges.push_back({begin, activity, 1});
      edges.push_back({end, activity, -1});
    }
    const std::int64_t ready_at = ready();
    edges.push_back({ready_at, kOther, 0});
    edges.push_back({ended_, kOther, 0});
    std::sort(edges.begin(), edges.end(),
              [](const Edge& one, const Edge& other) { return one.time < other.time; });
    std::array<int, kActivities> open{};
    std::int64_t now = began_;
    for (const Edge& edge : edges) {
      time_.ns[static_cast<std::size_t>(share_of(open, now < ready_at))] += edge.time - now;
      now = edge.time;
      open[edge.activity] += edge.change;
    }
    time_.lifetime_ns = ended_ - began_;
  }

  void add_waits() {
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::int64_t> sums;
    std::map<std::uint32_t, std::size_t> pools;
    for (const Slice& slice : thread_.slices) {
      if (slice.kind == SliceKind::kWait) sums[{slice.object, slice.value}] += slice.duration();
      if (slice.kind == SliceKind::kTask) ++pools[slice.row()];
      // A worker without a task yet.
      if (slice.kind == SliceKind::kWait && place_of(recording_, slice).noun == "task") {
        if (const auto row = targets_.queue_of(recording_, slice)) pools[*row] += 0;
      }
    }
    std::map<std::pair<std::string, std::string>, std::int64_t> by_text;
    for (const auto& [key, ns] : sums) {
      const auto place = recording_.places.find(key);
      if (place == recording_.places.end()) {
        by_text[{"", ""}] += ns;
      } else {
        by_text[{place->second.noun, utf8(place->second.text)}] += ns;
      }
    }
    for (const auto& [place, ns] : by_text) time_.waits.push_back({place.first, place.second, ns});
    std::stable_sort(time_.waits.begin(), time_.waits.end(),
                     [](const PlaceTime& one, const PlaceTime& other) { return one.ns > other.ns; });
    const auto pool = std::max_element(pools.begin(), pools.end(), [](const auto& one, const auto& other) {
      return one.second < other.second;
    });
    if (pool != pools.end()) time_.pool = pool->first;
  }

  const Recording& recording_;
  const PlaceTargets& targets_;
  const ThreadTimeline& thread_;
  const ProcessTimeline& process_;
  std::int64_t began_ = 0;
  std::int64_t ended_ = 0;
  ThreadTime time_;
};

// The least value that at least such a share of the sorted values does not exceed.
std::int64_t quantile(const std::vector<std::int64_t>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

void add_tasks(const Timeline& timeline, Breakdown& breakdown) {
  const Recording& recording = *timeline.recording;
  struct Kind {
    std::vector<std::int64_t> ns;
    std::uint64_t unfinished = 0;
  };
  std::map<std::uint64_t, Kind> kinds;
  const auto slower = [](const SlowTask& one, const SlowTask& other) { return one.ns > other.ns; };
  for (const ThreadTimeline& thread : timeline.threads) {
    for (const Slice& slice : thread.slices) {
      if (slice.kind != SliceKind::kTask) continue;
      Kind& kind = kinds[slice.value];
      if (slice.unfinished) {
        ++kind.unfinished;
      } else {
        kind.ns.push_back(slice.duration());
      }
      if (breakdown.slowest.size() == kMostSlowTasks && slice.duration() <= breakdown.slowest.back().ns)
        continue;
      SlowTask slow{slice_name(recording, slice), thread_name(timeline, thread), slice.begin - timeline.began,
                    slice.duration(), slice.unfinished};
      breakdown.slowest.insert(
          std::upper_bound(breakdown.slowest.begin(), breakdown.slowest.end(), slow, slower), slow);
      if (breakdown.slowest.size() > kMostSlowTasks) breakdown.slowest.pop_back();
    }
  }
  for (auto& [number, kind] : kinds) {
    std::sort(kind.ns.begin(), kind.ns.end());
    TaskTimes times;
    times.name = utf8(recording.name(number));
    times.count = kind.ns.size();
    times.unfinished = kind.unfinished;
    for (const std::int64_t ns : kind.ns) times.total_ns += ns;
    times.median_ns = quantile(kind.ns, 0.5);
    times.p99_ns = quantile(kind.ns, 0.99);
    times.most_ns = quantile(kind.ns, 1);
    breakdown.tasks.push_back(std::move(times));
  }
  std::stable_sort(
      breakdown.tasks.begin(), breakdown.tasks.end(),
      [](const TaskTimes& one, const TaskTimes& other) { return one.total_ns > other.total_ns; });
}

// The time that at least one of the intervals covers.
std::int64_t covered(std::vector<std::pair<std::int64_t, std::int64_t>>& intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::int64_t sum = 0;
  std::int64_t until = std::numeric_limits<std::int64_t>::min();
  for (const auto& [begin, end] : intervals) {
    if (end <= until) continue;
    sum += end - std::max(begin, until);
    until = end;
  }
  return sum;
}

// What happens at queues and locks.
class Places {
 public:
  explicit Places(const Timeline& timeline)
      : timeline_(timeline), recording_(*timeline.recording), targets_(recording_) {
    for (std::size_t i = 0; i < timeline.threads.size(); ++i) {
      for (const Slice& slice : timeline.threads[i].slices) add(i, slice);
    }
    for (const Hold& hold : timeline.holds) add(hold);
  }

  std::vector<QueueTimes> queues() {
    for (const QueueLength& length : queue_lengths(timeline_)) add_length(length);
    std::vector<QueueTimes> all;
    for (auto& [row, queue] : queues_) {
      queue.times.row = row;
      queue.times.name = queue_name(recording_, row);
      queue.times.labelled = recording_.queues.count(row) != 0;
      queue.times.full_ns = covered(queue.full);
      queue.times.empty_ns = covered(queue.empty);
      std::sort(queue.transits.begin(), queue.transits.end());
      queue.times.transit_ns = quantile(queue.transits, 0.5);
      all.push_back(std::move(queue.times));
    }
    return all;
  }

  std::vector<LockTimes> locks() {
    std::vector<LockTimes> all;
    for (auto& [index, lock] : locks_) {
      lock.times.index = index;
      lock.times.name = lock_name(recording_, index);
      for (const auto& [thread, ns] : lock.held) {
        if (ns <= lock.times.holder_ns) continue;
        lock.times.holder_ns = ns;
        lock.times.holder = thread;
      }
      all.push_back(std::move(lock.times));
    }
    std::stable_sort(all.begin(), all.end(), [](const LockTimes& one, const LockTimes& other) {
      return std::pair(one.waited_ns, one.held_ns) > std::pair(other.waited_ns, other.held_ns);
    });
    return all;
  }

 private:
  using Intervals = std::vector<std::pair<std::int64_t, std::int64_t>>;
  struct Queue {
    QueueTimes times;
    Intervals full, empty;
    std::vector<std::int64_t> transits;
  };
  struct Lock {
    LockTimes times;
    std::map<std::size_t, std::int64_t> held;
  };

  // Threads come in their order, so the last one is the only one that may be there already.
  static void note(std::vector<std::size_t>& threads, std::size_t thread) {
    if (threads.empty() || threads.back() != thread) threads.push_back(thread);
  }
  void add(std::size_t thread, const Slice& slice) {
    if (slice.kind == SliceKind::kPut) {
      Queue& queue = queues_[slice.row()];
      ++queue.times.puts;
      queue.times.bytes += slice.value;
      note(queue.times.writers, thread);
    } else if (slice.kind == SliceKind::kGet) {
      Queue& queue = queues_[slice.row()];
      ++queue.times.gets;
      note(queue.times.readers, thread);
      if (slice.link != Slice::kNoLink)
        queue.transits.push_back(slice.end - timeline_.at(timeline_.links[slice.link].put).begin);
    } else if (slice.kind == SliceKind::kWait) {
      add_wait(thread, slice);
    }
  }
  void add_wait(std::size_t thread, const Slice& wait) {
    const std::string& noun = place_of(recording_, wait).noun;
    if (noun == "room" || noun == "message" || noun == "task") {
      if (const auto row = targets_.queue_of(recording_, wait))
        (noun == "room" ? queues_[*row].full : queues_[*row].empty).emplace_back(wait.begin, wait.end);
    } else if (noun == "lock") {
      if (const auto index = targets_.lock_of(recording_, wait)) {
        LockTimes& times = locks_[*index].times;
        times.waited_ns += wait.duration();
        note(times.waiting, thread);
      }
    }
  }
  void add(const Hold& hold) {
    Lock& lock = locks_[hold.lock];
    ++lock.times.holds;
    lock.times.held_ns += hold.end - hold.begin;
    lock.held[hold.thread] += hold.end - hold.begin;
  }
  void add_length(const QueueLength& length) {
    QueueTimes& times = queues_[length.row].times;
    double area = 0;
    for (std::size_t i = 0; i < length.samples.size(); ++i) {
      const Sample& sample = length.samples[i];
      const std::int64_t until = i + 1 < length.samples.size() ? length.samples[i + 1].time : timeline_.ended;
      times.most = std::max(times.most, sample.value);
      area += static_cast<double>(sample.value) * static_cast<double>(until - sample.time);
    }
    if (timeline_.duration() > 0) times.mean = area / static_cast<double>(timeline_.duration());
  }

  const Timeline& timeline_;
  const Recording& recording_;
  PlaceTargets targets_;
  std::map<std::uint32_t, Queue> queues_;
  std::map<std::uint32_t, Lock> locks_;
};

}  // namespace

const char* name_of(Share share) noexcept {
  switch (share) {
    case Share::kStarting: return "starting";
    case Share::kWaitingForWork: return "waiting for work";
    case Share::kWorking: return "working";
    case Share::kCopying: return "copying";
    case Share::kPassing: return "passing messages";
    case Share::kWaitingForRoom: return "waiting to put";
    case Share::kWaitingForLocks: return "waiting for locks";
    case Share::kWaitingOther: return "waiting for other";
    case Share::kUnknown: return "not recorded";
  }
  return "?";
}

Breakdown breakdown_of(const Timeline& timeline) {
  Breakdown breakdown;
  breakdown.duration_ns = timeline.duration();
  const PlaceTargets targets(*timeline.recording);
  for (std::size_t i = 0; i < timeline.threads.size(); ++i) {
    breakdown.threads.push_back(ThreadClock(timeline, targets, i).take());
    breakdown.lost += timeline.threads[i].lost;
  }
  add_tasks(timeline, breakdown);
  Places places(timeline);
  breakdown.queues = places.queues();
  breakdown.locks = places.locks();
  breakdown.path = critical_path(timeline);
  breakdown.path_shares = shares_of(breakdown.path);
  breakdown.sentences = sentences_of(timeline, breakdown);
  return breakdown;
}

}  // namespace forklift::inline abi_0_1::inspect
