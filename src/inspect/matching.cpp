#include "inspect/matching.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace forklift::inline abi_0_1::inspect {

namespace {

using trace::EventKind;

// No block is larger: what says otherwise is wrong.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;

// One end of a message's way.
struct Transfer {
  std::uint64_t key = 0;  // {row, sequence}
  std::int64_t time =
      0;  // a put is there from its beginning on, at the earliest; a get took its message at its end, at the latest
  SliceRef slice;
  bool taken = false;

  friend bool operator<(const Transfer& one, const Transfer& other) noexcept {
    return std::tie(one.key, one.time, one.taken, one.slice) <
           std::tie(other.key, other.time, other.taken, other.slice);
  }
};

std::vector<Transfer> transfers(const Timeline& timeline, SliceKind in, SliceKind out) {
  std::vector<Transfer> found;
  for (std::uint32_t thread = 0; thread < timeline.threads.size(); ++thread) {
    const std::vector<Slice>& slices = timeline.threads[thread].slices;
    for (std::uint32_t i = 0; i < slices.size(); ++i) {
      const Slice& slice = slices[i];
      if (slice.kind != in && slice.kind != out) continue;
      const bool taken = slice.kind == out;
      found.push_back({slice.object, taken ? slice.end : slice.begin, {thread, i}, taken});
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

// `once`: a message has one taker.
void link_kind(Timeline& timeline, SliceKind in, SliceKind out, bool once) {
  const std::vector<Transfer> all = transfers(timeline, in, out);
  const Transfer* put = nullptr;
  for (const Transfer& each : all) {
    if (!each.taken) {
      put = &each;
    } else if (put != nullptr && put->key == each.key) {
      timeline.links.push_back({put->slice, each.slice});
      if (once) put = nullptr;
    }
  }
}

// What makes a number go up or down.
struct Step {
  std::uint32_t row = 0;
  std::int64_t time = 0;
  std::int64_t change = 0;

  friend bool operator<(const Step& one, const Step& other) noexcept {
    // What comes is counted before what goes at the same time.
    return std::make_tuple(one.row, one.time, -one.change) <
           std::make_tuple(other.row, other.time, -other.change);
  }
};

// The sums of steps [first, last), which are sorted, from the least beginning that keeps them from being negative.
std::vector<Sample> sums(const Step* first, const Step* last, std::int64_t began) {
  std::int64_t sum = 0;
  std::int64_t least = 0;
  for (const Step* step = first; step != last; ++step) {
    sum += step->change;
    least = std::min(least, sum);
  }
  std::vector<Sample> samples{{began, -least}};
  sum = -least;
  for (const Step* step = first; step != last; ++step) {
    sum += step->change;
    if (samples.back().time == step->time) {
      samples.back().value = sum;
    } else {
      samples.push_back({step->time, sum});
    }
  }
  return samples;
}

struct LockEvent {
  std::uint32_t lock = 0;
  std::int64_t time = 0;
  bool acquired = false;
  bool taken_over = false;
  std::uint32_t thread = 0;

  friend bool operator<(const LockEvent& one, const LockEvent& other) noexcept {
    return std::tie(one.lock, one.time, one.acquired) < std::tie(other.lock, other.time, other.acquired);
  }
};

// The holds of one lock, or of a semaphore, which has several at a time.
class LockHolders {
 public:
  explicit LockHolders(Timeline& timeline) : timeline_(timeline) {}

  void acquired(const LockEvent& event) {
    // The holder died, or its release was lost.
    if (event.taken_over) {
      while (!open_.empty()) end(0, std::min(event.time, death_of(open_.front())), true);
    }
    if (const std::optional<std::size_t> own = of_thread(event.thread)) end(*own, event.time, false);
    open_.push_back({event.thread, event.lock, event.time, event.time, event.taken_over, false});
  }
  void released(const LockEvent& event) {
    if (!open_.empty()) end(of_thread(event.thread).value_or(0), event.time, false);
  }
  // No later events of this lock.
  void finish() {
    while (!open_.empty()) end(0, death_of(open_.front()), true);
  }

 private:
  std::int64_t death_of(const Hold& hold) const {
    return timeline_.process_of(timeline_.threads[hold.thread]).ended;
  }
  std::optional<std::size_t> of_thread(std::uint32_t thread) const {
    for (std::size_t i = 0; i < open_.size(); ++i)
      if (open_[i].thread == thread) return i;
    return std::nullopt;
  }
  void end(std::size_t at, std::int64_t time, bool unfinished) {
    Hold hold = open_[at];
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(at));
    hold.end = std::max(hold.begin, time);
    hold.unfinished = unfinished;
    timeline_.holds.push_back(hold);
  }

  Timeline& timeline_;
  std::vector<Hold> open_;  // the oldest first
};

}  // namespace

void link_messages(Timeline& timeline) {
  link_kind(timeline, SliceKind::kPut, SliceKind::kGet, true);
  link_kind(timeline, SliceKind::kPublish, SliceKind::kRead, false);
  std::stable_sort(timeline.links.begin(), timeline.links.end(),
                   [](const Link& one, const Link& other) { return one.put < other.put; });
  for (std::uint32_t i = 0; i < timeline.links.size(); ++i) {
    const Link& link = timeline.links[i];
    timeline.threads[link.get.thread].slices[link.get.slice].link = i;
    Slice& put = timeline.threads[link.put.thread].slices[link.put.slice];
    put.link = std::min(put.link, i);
  }
}

void find_holds(Timeline& timeline) {
  std::vector<LockEvent> events;
  for (std::uint32_t thread = 0; thread < timeline.threads.size(); ++thread) {
    for (const Moment& moment : timeline.threads[thread].moments) {
      if (moment.kind != EventKind::kLocked && moment.kind != EventKind::kUnlocked) continue;
      const bool acquired = moment.kind == EventKind::kLocked;
      events.push_back({static_cast<std::uint32_t>(moment.object), moment.time, acquired,
                        acquired && moment.value == 1, thread});
    }
  }
  std::stable_sort(events.begin(), events.end());
  LockHolders holders(timeline);
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].acquired) {
      holders.acquired(events[i]);
    } else {
      holders.released(events[i]);
    }
    if (i + 1 == events.size() || events[i + 1].lock != events[i].lock) holders.finish();
  }
  std::stable_sort(timeline.holds.begin(), timeline.holds.end(),
                   [](const Hold& one, const Hold& other) { return one.begin < other.begin; });
}

std::vector<QueueLength> queue_lengths(const Timeline& timeline) {
  std::vector<Step> steps;
  for (const ThreadTimeline& thread : timeline.threads) {
    for (const Slice& slice : thread.slices) {
      if (slice.kind == SliceKind::kGet) steps.push_back({slice.row(), slice.end, -1});
      if (slice.kind != SliceKind::kPut) continue;
      // A put returns after its message is there, which may be taken by then.
      std::int64_t there = slice.end;
      if (slice.link != Slice::kNoLink)
        there = std::min(there, timeline.at(timeline.links[slice.link].get).end);
      steps.push_back({slice.row(), there, 1});
    }
  }
  std::sort(steps.begin(), steps.end());
  std::vector<QueueLength> lengths;
  for (std::size_t first = 0, last = 0; first < steps.size(); first = last) {
    while (last < steps.size() && steps[last].row == steps[first].row) ++last;
    lengths.push_back({steps[first].row, sums(&steps[first], steps.data() + last, timeline.began)});
  }
  return lengths;
}

std::vector<Sample> memory_in_use(const Timeline& timeline) {
  std::vector<Step> steps;
  for (const ThreadTimeline& thread : timeline.threads) {
    for (const Moment& moment : thread.moments) {
      const auto bytes = static_cast<std::int64_t>(std::min(moment.value, kMostBytes));
      if (moment.kind == EventKind::kAllocated) steps.push_back({0, moment.time, bytes});
      if (moment.kind == EventKind::kReleased) steps.push_back({0, moment.time, -bytes});
    }
  }
  if (steps.empty()) return {};
  std::sort(steps.begin(), steps.end());
  return sums(steps.data(), steps.data() + steps.size(), timeline.began);
}

}  // namespace forklift::inline abi_0_1::inspect
