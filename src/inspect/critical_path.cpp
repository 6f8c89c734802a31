#include "inspect/critical_path.h"

#include <algorithm>
#include <unordered_map>

#include "inspect/slice_text.h"

namespace forklift::inline abi_0_1::inspect {

namespace {

// What ends a wait may be noted so much later than the wait's end.
constexpr std::int64_t kSlackNs = 20'000;
// A get begins at most so long after the wait for its message.
constexpr std::int64_t kGetFollowsNs = 1'000'000;

// More tasks than these without a wait in between are one part of the path.
constexpr std::size_t kMostParts = 64;
constexpr const char* kOwnCode = "own code";

// A moment of a thread.
struct Position {
  std::size_t thread = 0;
  std::int64_t time = 0;
};

// What is looked up in a thread, each by its beginning.
struct ThreadIndex {
  std::vector<const Slice*> waits;  // that ended
  std::vector<const Slice*> gets;   // with links
  std::vector<const Slice*> puts;
  std::vector<const Slice*> tasks;   // outermost ones
  std::vector<const Slice*> ranges;  // likewise, outside of tasks
};

class PathFinder {
 public:
  explicit PathFinder(const Timeline& timeline)
      : timeline_(timeline), recording_(*timeline.recording), targets_(recording_) {
    for (std::size_t i = 0; i < timeline.threads.size(); ++i) add(i);
    for (auto& [row, ends] : ends_of_gets_) std::sort(ends.begin(), ends.end(), earlier);
    for (const Hold& hold : timeline.holds)
      if (!hold.unfinished) releases_[hold.lock].push_back({hold.thread, hold.end});
    for (auto& [lock, ends] : releases_) std::sort(ends.begin(), ends.end(), earlier);
    for (std::size_t i = timeline.threads.size(); i-- > 0;)
      if (is_main(timeline.threads[i])) main_threads_[timeline.process_of(timeline.threads[i]).pid] = i;
  }

  std::vector<PathSegment> walk() {
    std::optional<Position> at = last();
    // Events of the same time could cause each other in a circle: the walk stands still for no more steps than these.
    while (at && at->time > timeline_.began && stands_ <= 2 * threads_.size()) {
      std::optional<Position> next = step(*at);
      if (next) next->time = std::min(next->time, at->time);
      stands_ = next && next->time == at->time ? stands_ + 1 : 0;
      at = next;
    }
    std::reverse(path_.begin(), path_.end());
    return std::move(path_);
  }

 private:
  static bool earlier(const Position& one, const Position& other) noexcept { return one.time < other.time; }
  bool is_main(const ThreadTimeline& thread) const {
    return thread.thread == timeline_.process_of(thread).pid;
  }

  void add(std::size_t number) {
    ThreadIndex& index = threads_.emplace_back();
    std::int64_t task_until = timeline_.began;
    std::int64_t range_until = timeline_.began;
    for (const Slice& slice : timeline_.threads[number].slices) {
      const bool has_link = slice.link != Slice::kNoLink;
      switch (slice.kind) {
        case SliceKind::kWait:
          if (!slice.unfinished) index.waits.push_back(&slice);
          break;
        case SliceKind::kGet:
          ends_of_gets_[slice.row()].push_back({number, slice.end});
          if (has_link) index.gets.push_back(&slice);
          break;
        case SliceKind::kRead:
          if (has_link) index.gets.push_back(&slice);
          break;
        case SliceKind::kPut: index.puts.push_back(&slice); break;
        case SliceKind::kTask:
          if (slice.begin < task_until) break;
          index.tasks.push_back(&slice);
          task_until = slice.end;
          break;
        case SliceKind::kRange:
          if (slice.begin < std::max(task_until, range_until)) break;
          index.ranges.push_back(&slice);
          range_until = slice.end;
          break;
        default: break;
      }
    }
  }

  // Where the walk begins: at the end of the last thing that was done. A wait is none.
  std::optional<Position> last() const {
    std::optional<Position> found;
    for (std::size_t i = 0; i < timeline_.threads.size(); ++i) {
      const ThreadTimeline& thread = timeline_.threads[i];
      if (timeline_.process_of(thread).service) continue;
      for (const Slice& slice : thread.slices) {
        if (slice.kind == SliceKind::kWait || slice.unfinished) continue;
        if (!found || slice.end > found->time) found = Position{i, slice.end};
      }
    }
    return found;
  }

  // One step back from there; the position before it. nullopt: it goes no further.
  std::optional<Position> step(const Position& at) {
    const ThreadTimeline& thread = timeline_.threads[at.thread];
    const ProcessTimeline& process = timeline_.process_of(thread);
    const auto& waits = threads_[at.thread].waits;
    const auto next = std::partition_point(waits.begin(), waits.end(),
                                           [&](const Slice* wait) { return wait->begin < at.time; });
    if (next == waits.begin() || (*std::prev(next))->begin < process.began) {
      add_work(at.thread, process.began, at.time);
      if (!process.began_here) return std::nullopt;
      const auto parent = main_threads_.find(process.parent);
      if (parent == main_threads_.end() || parent->second == at.thread) return std::nullopt;
      return Position{parent->second, process.began};
    }
    const Slice& wait = **std::prev(next);
    const std::int64_t until = std::min(wait.end, at.time);
    add_work(at.thread, until, at.time);
    const std::optional<Position> cause = wait.end <= at.time ? cause_of(at.thread, wait) : std::nullopt;
    if (!cause || cause->time <= wait.begin || cause->thread == at.thread || stands_ > threads_.size()) {
      add(at.thread, slice_name(recording_, wait), wait.begin, until);
      return Position{at.thread, wait.begin};
    }
    const std::int64_t ended = std::min(cause->time, until);
    add(at.thread, "wakes up", ended, until);
    return Position{cause->thread, ended};
  }

  // What ended a wait.
  std::optional<Position> cause_of(std::size_t thread, const Slice& wait) const {
    const std::string& noun = place_of(recording_, wait).noun;
    if (noun == "room") return taker(thread, wait);
    if (noun == "lock") return releaser(thread, wait);
    if (noun == "process") return end_of_process(wait);
    return putter(thread, wait);
  }
  // The first of the slices that lies around the wait, or follows it soon.
  static const Slice* following(const std::vector<const Slice*>& slices, const Slice& wait) {
    const auto next = std::partition_point(slices.begin(), slices.end(),
                                           [&](const Slice* slice) { return slice->end < wait.end; });
    if (next == slices.end() || (*next)->begin > wait.end + kGetFollowsNs) return nullptr;
    return *next;
  }
  std::optional<Position> putter(std::size_t thread, const Slice& wait) const {
    const Slice* const get = following(threads_[thread].gets, wait);
    if (get == nullptr) return std::nullopt;
    const SliceRef put = timeline_.links[get->link].put;
    return Position{put.thread, std::min(timeline_.at(put).end, wait.end)};
  }
  std::optional<Position> taker(std::size_t thread, const Slice& wait) const {
    const Slice* const put = following(threads_[thread].puts, wait);
    const std::optional<std::uint32_t> row =
        put != nullptr ? std::optional(put->row()) : targets_.queue_of(recording_, wait);
    return row ? last_before(ends_of_gets_, *row, thread, wait.end + kSlackNs) : std::nullopt;
  }
  std::optional<Position> releaser(std::size_t thread, const Slice& wait) const {
    std::optional<std::uint32_t> lock = targets_.lock_of(recording_, wait);
    if (!lock) {
      const auto& moments = timeline_.threads[thread].moments;
      for (auto moment =
               std::partition_point(moments.begin(), moments.end(),
                                    [&](const Moment& each) { return each.time < wait.end - kSlackNs; });
           moment != moments.end() && moment->time <= wait.end + kGetFollowsNs && !lock; ++moment)
        if (moment->kind == trace::EventKind::kLocked) lock = static_cast<std::uint32_t>(moment->object);
    }
    return lock ? last_before(releases_, *lock, thread, wait.end + kSlackNs) : std::nullopt;
  }
  std::optional<Position> end_of_process(const Slice& wait) const {
    const auto main = main_threads_.find(static_cast<pid_t>(wait.object));
    if (main == main_threads_.end()) return std::nullopt;
    const ProcessTimeline& process = timeline_.process_of(timeline_.threads[main->second]);
    if (!process.ended_here) return std::nullopt;
    return Position{main->second, std::min(process.ended, wait.end)};
  }
  using Ends = std::unordered_map<std::uint32_t, std::vector<Position>>;
  static std::optional<Position> last_before(const Ends& ends, std::uint32_t key, std::size_t but_of,
                                             std::int64_t time) {
    const auto all = ends.find(key);
    if (all == ends.end()) return std::nullopt;
    auto next = std::upper_bound(all->second.begin(), all->second.end(), Position{0, time}, earlier);
    while (next != all->second.begin()) {
      --next;
      if (next->thread != but_of) return *next;
    }
    return std::nullopt;
  }

  // The outermost tasks and ranges of that time, the last one first.
  std::vector<const Slice*> work_of(std::size_t thread, std::int64_t begin, std::int64_t end) const {
    std::vector<const Slice*> found;
    for (const auto* slices : {&threads_[thread].tasks, &threads_[thread].ranges}) {
      auto slice = std::partition_point(slices->begin(), slices->end(),
                                        [&](const Slice* each) { return each->end <= begin; });
      for (; slice != slices->end() && (*slice)->begin < end; ++slice) found.push_back(*slice);
    }
    std::sort(found.begin(), found.end(),
              [](const Slice* one, const Slice* other) { return one->begin > other->begin; });
    return found;
  }
  void add_work(std::size_t thread, std::int64_t begin, std::int64_t end) {
    const std::vector<const Slice*> work = work_of(thread, begin, end);
    if (work.size() > kMostParts) return add(thread, most_of(work), begin, end);
    for (const Slice* slice : work) {
      if (slice->begin >= end) continue;  // ranges that overlap
      add(thread, kOwnCode, std::min(slice->end, end), end);
      add(thread, slice_name(recording_, *slice), std::max(slice->begin, begin), std::min(slice->end, end));
      end = std::max(slice->begin, begin);
    }
    add(thread, kOwnCode, begin, end);
  }
  // The name on which most time is spent.
  std::string most_of(const std::vector<const Slice*>& work) const {
    std::map<std::uint64_t, std::int64_t> by_name;
    for (const Slice* slice : work) by_name[slice->value] += slice->duration();
    const auto most =
        std::max_element(by_name.begin(), by_name.end(),
                         [](const auto& one, const auto& other) { return one.second < other.second; });
    return utf8(recording_.name(most->first));
  }
  void add(std::size_t thread, const std::string& what, std::int64_t begin, std::int64_t end) {
    if (begin >= end) return;
    if (!path_.empty() && path_.back().thread == thread && path_.back().what == what &&
        path_.back().begin == end) {
      path_.back().begin = begin;
      return;
    }
    path_.push_back({thread, thread_name(timeline_, timeline_.threads[thread]), what, begin, end});
  }

  const Timeline& timeline_;
  const Recording& recording_;
  PlaceTargets targets_;
  std::vector<ThreadIndex> threads_;
  Ends ends_of_gets_;  // by row
  Ends releases_;      // by lock
  std::map<pid_t, std::size_t> main_threads_;
  std::vector<PathSegment> path_;  // backwards
  std::size_t stands_ = 0;         // steps since the last one that went back in time
};

}  // namespace

PlaceTargets::PlaceTargets(const Recording& recording) {
  for (const auto& [row, name] : recording.pools) queues_[name] = row;
  for (const auto& [row, name] : recording.queues) queues_[name] = row;
  for (const auto& [index, name] : recording.locks) locks_[name] = index;
}

std::optional<std::uint32_t> PlaceTargets::find(const Names& names, std::string_view text) {
  for (;;) {
    const auto found = names.find(text);
    if (found != names.end()) return found->second;
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    text.remove_prefix(space + 1);
  }
}

std::optional<std::uint32_t> PlaceTargets::queue_of(const Recording& recording, const Slice& wait) const {
  return find(queues_, place_of(recording, wait).text);
}
std::optional<std::uint32_t> PlaceTargets::lock_of(const Recording& recording, const Slice& wait) const {
  return find(locks_, place_of(recording, wait).text);
}

std::vector<PathSegment> critical_path(const Timeline& timeline) { return PathFinder(timeline).walk(); }

std::vector<PathShare> shares_of(const std::vector<PathSegment>& path) {
  std::map<std::pair<std::string, std::string>, std::int64_t> sums;
  for (const PathSegment& segment : path)
    sums[{segment.process, segment.what}] += segment.end - segment.begin;
  std::vector<PathShare> shares;
  shares.reserve(sums.size());
  for (const auto& [key, ns] : sums) shares.push_back({key.first, key.second, ns});
  std::stable_sort(shares.begin(), shares.end(),
                   [](const PathShare& one, const PathShare& other) { return one.ns > other.ns; });
  return shares;
}

}  // namespace forklift::inline abi_0_1::inspect
