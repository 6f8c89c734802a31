#include "inspect/perfetto.h"

#include <fcntl.h>

#include <bit>
#include <cerrno>
#include <cmath>
#include <ctime>
#include <map>

#include "inspect/perfetto_packets.h"
#include "inspect/slice_text.h"
#include "os/fd.h"

namespace forklift::inline abi_0_1::inspect {

namespace {

using namespace perfetto;
using trace::EventKind;

std::int64_t boottime_offset() noexcept {
  const auto now = [](clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  return now(CLOCK_BOOTTIME) - now(CLOCK_MONOTONIC);
}

class TraceWriter {
 public:
  TraceWriter(const Timeline& timeline, int fd)
      : timeline_(timeline), recording_(*timeline.recording), output_(fd), shared_(output_, 1, 0) {}

  Status write() {
    write_clock();
    for (const ProcessTimeline& process : timeline_.processes) write_process(process);
    group_holds();
    for (std::uint32_t i = 0; i < timeline_.threads.size(); ++i) write_thread(i);
    for (const QueueLength& length : queue_lengths(timeline_))
      write_samples("length of " + queue_name(recording_, length.row), kCount, length.samples);
    const std::vector<Sample> memory = memory_in_use(timeline_);
    if (!memory.empty()) write_samples("bytes of blocks in use", kBytes, memory);
    return output_.flush();
  }

 private:
  std::uint64_t new_track() noexcept { return ++tracks_; }

  // Perfetto shows times of the day by REALTIME, and lays traces of the system beside this one by BOOTTIME. The latter is not
  // recorded; it is as far from MONOTONIC as now, unless the machine slept since.
  void write_clock() {
    const auto add_clock = [](pbf_writer& snapshot, BuiltinClock clock, std::int64_t time) {
      pbf_writer entry(snapshot, field::kClocks);
      entry.add_uint32(field::kClockId, clock);
      entry.add_uint64(field::kClockTime, static_cast<std::uint64_t>(std::max<std::int64_t>(time, 0)));
    };
    shared_.packet([&](pbf_writer& packet) {
      pbf_writer snapshot(packet, field::kClockSnapshot);
      add_clock(snapshot, kMonotonic, recording_.began_ns);
      add_clock(snapshot, kBoottime, recording_.began_ns + boottime_offset());
      if (recording_.wall_ns > 0) add_clock(snapshot, kRealtime, recording_.wall_ns);
      snapshot.add_enum(field::kPrimaryClock, kMonotonic);
    });
  }

  template <class Fill>
  std::uint64_t write_track(Fill fill) {
    const std::uint64_t uuid = new_track();
    shared_.packet([&](pbf_writer& packet) {
      pbf_writer track(packet, field::kTrackDescriptor);
      track.add_uint64(field::kUuid, uuid);
      fill(track);
    });
    return uuid;
  }
  std::uint64_t write_child(std::uint64_t parent, const std::string& name) {
    return write_track([&](pbf_writer& track) {
      track.add_uint64(field::kParentUuid, parent);
      track.add_string(field::kTrackName, name);
    });
  }
  std::uint64_t write_counter(std::uint64_t parent, const std::string& name, Unit unit) {
    return write_track([&](pbf_writer& track) {
      if (parent != 0) track.add_uint64(field::kParentUuid, parent);
      track.add_string(field::kTrackName, name);
      pbf_writer counter(track, field::kCounter);
      counter.add_enum(field::kUnit, unit);
    });
  }
  void write_process(const ProcessTimeline& process) {
    process_tracks_.push_back(write_track([&](pbf_writer& track) {
      pbf_writer descriptor(track, field::kProcess);
      descriptor.add_int32(field::kPid, process.pid);
      descriptor.add_string(field::kProcessName, utf8(process.name));
    }));
  }
  void write_samples(const std::string& name, Unit unit, const std::vector<Sample>& samples) {
    const std::uint64_t track = write_counter(0, name, unit);
    for (const Sample& sample : samples) {
      shared_.event(sample.time, kCounterSample, track,
                    [&](pbf_writer& event) { event.add_int64(field::kCounterValue, sample.value); });
    }
  }

  void group_holds() {
    holds_.resize(timeline_.threads.size());
    for (const Hold& hold : timeline_.holds) holds_[hold.thread][hold.lock].push_back(&hold);
  }

  void write_thread(std::uint32_t index) {
    const ThreadTimeline& thread = timeline_.threads[index];
    const ProcessTimeline& process = timeline_.process_of(thread);
    const std::uint64_t track = write_track([&](pbf_writer& track) {
      pbf_writer descriptor(track, field::kThread);
      descriptor.add_int32(field::kThreadPid, process.pid);
      descriptor.add_int64(field::kTid, thread.thread);
      descriptor.add_string(field::kThreadName, short_name(thread, process));
    });
    lanes_.assign(1, Lane{track, {}});
    for (std::uint16_t lane = 1; lane < thread.lanes; ++lane)
      lanes_.push_back({write_child(track, "at the same time"), {}});
    Sequence sequence(output_, 2 + index, track);
    if (thread.lost > 0) write_lost(sequence, thread);
    next_moment_ = 0;
    for (const Slice& slice : thread.slices) {
      advance(sequence, thread, slice.begin);
      write_slice(sequence, slice);
    }
    advance(sequence, thread, std::numeric_limits<std::int64_t>::max());
    for (const auto& [lock, holds] : holds_[index]) write_holds(sequence, track, lock, holds);
  }
  static std::string short_name(const ThreadTimeline& thread, const ProcessTimeline& process) {
    if (!thread.name.empty()) return utf8(thread.name);
    if (thread.thread == process.pid) return utf8(process.name);
    return "thread " + std::to_string(thread.thread);
  }

  void write_instant(Sequence& sequence, std::int64_t time, const std::string& name) {
    write_instant(sequence, time, name, [](pbf_writer&) {});
  }
  template <class Fill>
  void write_instant(Sequence& sequence, std::int64_t time, const std::string& name, Fill fill) {
    sequence.event(time, kInstant, 0, [&](pbf_writer& event) {
      event.add_uint64(field::kCategoryIids, kMomentCategory);
      event.add_string(field::kName, name);
      fill(event);
    });
  }
  void write_lost(Sequence& sequence, const ThreadTimeline& thread) {
    std::int64_t first = timeline_.ended;
    if (!thread.slices.empty()) first = thread.slices.front().begin;
    if (!thread.moments.empty()) first = std::min(first, thread.moments.front().time);
    write_instant(sequence, first, std::to_string(thread.lost) + " events were lost");
  }

  // What ends and happens up to `time`, in its order.
  void advance(Sequence& sequence, const ThreadTimeline& thread, std::int64_t time) {
    for (;;) {
      Lane* first = nullptr;
      for (Lane& lane : lanes_) {
        if (!lane.open.empty() && (first == nullptr || lane.open.back()->end < first->open.back()->end))
          first = &lane;
      }
      const std::int64_t end = first != nullptr ? first->open.back()->end : time;
      const std::int64_t until = std::min(end, time);
      if (next_moment_ < thread.moments.size() && thread.moments[next_moment_].time <= until) {
        write_moment(sequence, thread, thread.moments[next_moment_++]);
      } else if (first != nullptr && end <= time) {
        write_end(sequence, *first);
      } else {
        return;
      }
    }
  }

  void write_slice(Sequence& sequence, const Slice& slice) {
    Lane& lane = lanes_[slice.lane];
    const std::uint64_t name = sequence.intern(static_cast<std::uint64_t>(slice.kind), slice_name_key(slice),
                                               [&] { return slice_name(recording_, slice); });
    sequence.packet([&](pbf_writer& packet) {
      packet.add_uint64(field::kTimestamp,
                        static_cast<std::uint64_t>(std::max<std::int64_t>(slice.begin, 0)));
      pbf_writer event(packet, field::kTrackEvent);
      event.add_enum(field::kType, kSliceBegin);
      if (slice.lane != 0) event.add_uint64(field::kTrackUuid, lane.track);
      event.add_uint64(field::kCategoryIids, static_cast<std::uint64_t>(slice.kind) + 1);
      event.add_uint64(field::kNameIid, name);
      write_details(event, slice);
      if (slice.link != Slice::kNoLink) write_flows(event, slice);
    });
    lane.open.push_back(&slice);
  }
  void write_details(pbf_writer& event, const Slice& slice) {
    switch (slice.kind) {
      case SliceKind::kPut:
      case SliceKind::kGet:
      case SliceKind::kPublish:
      case SliceKind::kRead:
        annotate(event, kByteCount, slice.value);
        annotate(event, kSequence, slice.object & 0xffffffffu);
        break;
      case SliceKind::kTask:
        annotate(event, kSequence, slice.object & 0xffffffffu);
        annotate(event, kPool, queue_name(recording_, slice.row()));
        break;
      case SliceKind::kCopy: annotate(event, kByteCount, slice.value); break;
      case SliceKind::kRange:
      case SliceKind::kWait: break;
    }
    if (slice.unfinished) annotate(event, kUnfinished, true);
  }
  // A reader ends a flow of its own: a flow that ends twice is none.
  void write_flows(pbf_writer& event, const Slice& slice) {
    if (is_put(slice)) {
      const SliceRef put = timeline_.links[slice.link].put;
      for (std::uint32_t i = slice.link; i < timeline_.links.size() && timeline_.links[i].put == put; ++i)
        event.add_fixed64(field::kFlowIds, std::uint64_t{i} + 1);
    } else if (!ends_flow_late(slice)) {
      event.add_fixed64(field::kTerminatingFlowIds, std::uint64_t{slice.link} + 1);
    }
  }
  static bool is_put(const Slice& slice) noexcept {
    return slice.kind == SliceKind::kPut || slice.kind == SliceKind::kPublish;
  }
  // A get that began to look before the put began: its flow ends where it ends.
  bool ends_flow_late(const Slice& slice) const {
    return slice.link != Slice::kNoLink && !is_put(slice) &&
           slice.begin <= timeline_.at(timeline_.links[slice.link].put).begin;
  }
  struct Lane {
    std::uint64_t track = 0;
    std::vector<const Slice*> open;
  };
  void write_end(Sequence& sequence, Lane& lane) {
    const Slice& slice = *lane.open.back();
    lane.open.pop_back();
    sequence.event(slice.end, kSliceEnd, &lane == lanes_.data() ? 0 : lane.track, [&](pbf_writer& event) {
      if (ends_flow_late(slice)) event.add_fixed64(field::kTerminatingFlowIds, std::uint64_t{slice.link} + 1);
    });
  }

  void write_moment(Sequence& sequence, const ThreadTimeline& thread, const Moment& moment) {
    switch (moment.kind) {
      case EventKind::kLocked:
        if (moment.value == 1)
          write_instant(sequence, moment.time,
                        "takes over " + lock_name(recording_, static_cast<std::uint32_t>(moment.object)) +
                            " from a process that died");
        break;
      case EventKind::kStarted: write_instant(sequence, moment.time, "process begins"); break;
      case EventKind::kGone:
        write_instant(sequence, moment.time, "process " + std::to_string(moment.object) + " is gone",
                      [&](pbf_writer& event) { annotate(event, kInOrder, moment.value == 1); });
        break;
      case EventKind::kForked: write_instant(sequence, moment.time, "forks"); break;
      case EventKind::kOverBudget:
        write_instant(sequence, moment.time, "memory is over the budget", [&](pbf_writer& event) {
          annotate(event, kByteCount, moment.object);
          annotate(event, kAllowed, moment.value);
        });
        break;
      case EventKind::kCounter: write_program_counter(sequence, thread, moment); break;
      default: break;  // parts of counters and of holds
    }
  }
  void write_program_counter(Sequence& sequence, const ThreadTimeline& thread, const Moment& moment) {
    const auto value = std::bit_cast<double>(moment.value);
    if (!std::isfinite(value)) return;
    std::uint64_t& track = counters_[{thread.process, moment.object}];
    if (track == 0)
      track = write_counter(process_tracks_[thread.process], utf8(recording_.name(moment.object)), kNoUnit);
    sequence.event(moment.time, kCounterSample, track,
                   [&](pbf_writer& event) { event.add_double(field::kDoubleCounterValue, value); });
  }
  // Holds need not nest in what the thread does, nor in each other: each lock has a track of its own.
  void write_holds(Sequence& sequence, std::uint64_t parent, std::uint32_t lock,
                   const std::vector<const Hold*>& holds) {
    const std::string name = "holds " + lock_name(recording_, lock);
    const std::uint64_t track = write_child(parent, name);
    for (const Hold* hold : holds) {
      sequence.event(hold->begin, kSliceBegin, track, [&](pbf_writer& event) {
        event.add_uint64(field::kCategoryIids, kLockCategory);
        event.add_string(field::kName, name);
        if (hold->unfinished) annotate(event, kUnfinished, true);
      });
      sequence.end(hold->end, track);
    }
  }

  const Timeline& timeline_;
  const Recording& recording_;
  Output output_;
  Sequence shared_;  // descriptions of tracks, and what belongs to no thread
  std::uint64_t tracks_ = 0;
  std::vector<std::uint64_t> process_tracks_;
  std::map<std::pair<std::size_t, std::uint64_t>, std::uint64_t> counters_;  // by process and name
  std::vector<std::map<std::uint32_t, std::vector<const Hold*>>> holds_;     // by thread, and lock
  // Of the thread that is being written.
  std::vector<Lane> lanes_;
  std::size_t next_moment_ = 0;
};

}  // namespace

Status write_perfetto(const Timeline& timeline, int fd) { return TraceWriter(timeline, fd).write(); }

Status write_perfetto(const Recording& recording, const std::string& path) {
  const os::Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file.valid()) return Status::system("open", errno, path);
  return write_perfetto(timeline_of(recording), file.get());
}

}  // namespace forklift::inline abi_0_1::inspect
