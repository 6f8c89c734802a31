#include "inspect/report_json.h"

#include <algorithm>
#include <map>

#include "inspect/downsampling.h"
#include "inspect/json.h"
#include "inspect/slice_text.h"

namespace forklift::inline abi_0_1::inspect {

namespace {

class Report {
 public:
  Report(const Timeline& timeline, const Breakdown& breakdown)
      : timeline_(timeline), recording_(*timeline.recording), breakdown_(breakdown) {}

  std::string text() {
    json_.object([&] {
      json_("version", 1)("domain", std::to_string(recording_.domain))("duration", breakdown_.duration_ns)(
          "wall", static_cast<double>(recording_.wall_ns) / 1e9)("lost", breakdown_.lost)("unknown",
                                                                                          timeline_.unknown);
      add_words();
      add_threads();
      add_links();
      add_path();
      add_tasks();
      add_queues();
      add_locks();
      json_.array("memory", [&] { add_samples(memory_in_use(timeline_)); });
      // What is above has numbered them.
      json_.array("names", [&] {
        for (const std::string& name : names_) json_.add(name);
      });
    });
    return json_.take();
  }

 private:
  std::int64_t since_begin(std::int64_t time) const noexcept { return time - timeline_.began; }
  std::size_t number_of(const std::string& name) {
    const auto [entry, is_new] = numbers_.try_emplace(name, names_.size());
    if (is_new) names_.push_back(name);
    return entry->second;
  }
  // Slices have far fewer names than there are slices.
  std::size_t name_of_slice(const Slice& slice) {
    const auto [entry, is_new] = slice_names_.try_emplace({slice.kind, slice_name_key(slice)}, 0);
    if (is_new) entry->second = number_of(slice_name(recording_, slice));
    return entry->second;
  }

  void add_words() {
    json_.array("sentences", [&] {
      for (const std::string& sentence : breakdown_.sentences) json_.add(sentence);
    });
    json_.array("shares", [&] {
      for (std::size_t i = 0; i < kShares; ++i) json_.add(name_of(static_cast<Share>(i)));
    });
    json_.array("kinds", [&] {
      for (int i = 0; i < static_cast<int>(SliceKind::kWait); ++i)
        json_.add(kind_name(static_cast<SliceKind>(i)));
      for (const char* wait : {"wait for work", "wait to put", "wait for a lock", "wait"}) json_.add(wait);
    });
  }

  void add_threads() {
    const std::size_t most = std::clamp(kMostSlices / std::max<std::size_t>(timeline_.threads.size(), 1),
                                        std::size_t{200}, kMostSlicesOfThread);
    json_.array("threads", [&] {
      for (std::size_t i = 0; i < timeline_.threads.size(); ++i)
        json_.object([&] { add_thread(timeline_.threads[i], breakdown_.threads[i], most); });
    });
  }
  void add_thread(const ThreadTimeline& thread, const ThreadTime& time, std::size_t most) {
    const ProcessTimeline& process = timeline_.process_of(thread);
    json_("process", time.pid)("thread", time.tid)("name", time.name)("service", time.service)(
        "killed", !process.left_in_order && process.ended_here)("began", since_begin(process.began))(
        "ended", since_begin(process.ended))("lifetime", time.lifetime_ns)("lost", thread.lost);
    if (time.pool) json_("pool", queue_name(recording_, *time.pool));
    json_.array("shares", [&] {
      for (const std::int64_t ns : time.ns) json_.add(ns);
    });
    json_.array("waits", [&] {
      for (const PlaceTime& wait : time.waits) json_.row(wait.text, wait.ns);
    });
    json_.array("slices", [&] {
      for (const Block& block : downsample(thread, most)) add_block(block);
    });
  }
  // In the page, waits for different things are of different kinds.
  int kind_of(const Slice& slice) const {
    const int kind = static_cast<int>(slice.kind);
    if (slice.kind != SliceKind::kWait) return kind;
    const std::string& noun = place_of(recording_, slice).noun;
    if (noun == "message" || noun == "task") return kind;
    return kind + (noun == "room" ? 1 : noun == "lock" ? 2 : 3);
  }
  // [begin, duration, row, kind, name, 1 if it has no end], then of what was sent, copied or computed [.., bytes, number] and of
  // several slices [.., how many, their sum, 1 if of one name].
  void add_block(const Block& block) {
    const Slice& slice = *block.longest;
    json_.array([&] {
      json_.add(since_begin(block.begin));
      json_.add(block.end - block.begin);
      json_.add(block.row);
      json_.add(kind_of(slice));
      json_.add(name_of_slice(slice));
      json_.add(slice.unfinished ? 1 : 0);
      if (block.count > 1) {
        json_.add(block.count);
        json_.add(block.total_ns);
        json_.add(block.same_name ? 1 : 0);
      } else if (slice.kind != SliceKind::kWait && slice.kind != SliceKind::kRange) {
        json_.add(slice.kind == SliceKind::kTask ? 0 : slice.value);
        json_.add(slice.kind == SliceKind::kCopy ? 0 : slice.object & 0xffffffffu);
      }
    });
  }

  void add_links() {
    const std::size_t step = timeline_.links.size() / kMostLinks + 1;
    json_("links_total", timeline_.links.size())("links_step", step);
    json_.array("links", [&] {
      for (std::size_t i = 0; i < timeline_.links.size(); i += step) {
        const Link& link = timeline_.links[i];
        json_.row(link.put.thread, since_begin(timeline_.at(link.put).begin), link.get.thread,
                  since_begin(timeline_.at(link.get).end));
      }
    });
  }

  void add_path() {
    json_("path_total", breakdown_.path.size());
    json_.array("path", [&] {
      for (const PathSegment& segment : downsample(breakdown_.path, kMostSegments))
        json_.row(segment.thread, since_begin(segment.begin), since_begin(segment.end),
                  number_of(segment.what));
    });
    json_.array("path_shares", [&] {
      for (const PathShare& share : breakdown_.path_shares) json_.row(share.process, share.what, share.ns);
    });
  }

  void add_tasks() {
    json_.array("tasks", [&] {
      for (const TaskTimes& task : breakdown_.tasks) {
        json_.object([&] {
          json_("name", task.name)("count", task.count)("unfinished", task.unfinished)(
              "total", task.total_ns)("median", task.median_ns)("p99", task.p99_ns)("most", task.most_ns);
        });
      }
    });
    json_.array("slowest", [&] {
      for (const SlowTask& task : breakdown_.slowest) {
        json_.object([&] {
          json_("name", task.name)("process", task.process)("begin", task.begin)("ns", task.ns)(
              "unfinished", task.unfinished);
        });
      }
    });
  }

  void add_samples(const std::vector<Sample>& samples) {
    for (const Sample& sample : downsample(samples, kMostSamples))
      json_.row(since_begin(sample.time), sample.value);
  }
  void add_queues() {
    const std::vector<QueueLength> lengths = queue_lengths(timeline_);
    json_.array("queues", [&] {
      for (const QueueTimes& queue : breakdown_.queues) {
        json_.object([&] {
          json_("row", queue.row)("name", queue.name)("puts", queue.puts)("gets", queue.gets)(
              "bytes", queue.bytes)("most", queue.most)("mean", queue.mean)("full", queue.full_ns)(
              "empty", queue.empty_ns)("transit", queue.transit_ns);
          const auto length = std::find_if(lengths.begin(), lengths.end(),
                                           [&](const QueueLength& each) { return each.row == queue.row; });
          json_.array("length", [&] {
            if (length != lengths.end()) add_samples(length->samples);
          });
        });
      }
    });
  }

  void add_locks() {
    json_.array("locks", [&] {
      for (const LockTimes& lock : breakdown_.locks) {
        json_.object([&] {
          json_("name", lock.name)("holds", lock.holds)("held", lock.held_ns)("waited", lock.waited_ns)(
              "waiting", lock.waiting.size());
          if (lock.holder) json_("holder", breakdown_.threads[*lock.holder].name);
        });
      }
    });
  }

  const Timeline& timeline_;
  const Recording& recording_;
  const Breakdown& breakdown_;
  Json json_;
  std::vector<std::string> names_;
  std::map<std::string, std::size_t> numbers_;
  std::map<std::pair<SliceKind, std::uint64_t>, std::size_t> slice_names_;
};

}  // namespace

std::string report_json(const Timeline& timeline, const Breakdown& breakdown) {
  return Report(timeline, breakdown).text();
}

std::string report_json(const Recording& recording) {
  const Timeline timeline = timeline_of(recording);
  return report_json(timeline, breakdown_of(timeline));
}

}  // namespace forklift::inline abi_0_1::inspect
