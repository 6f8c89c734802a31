// A recording in the form in which it is shown: what each thread did as slices that nest, which get took which put, how
// long queues were.
//
//   const Timeline timeline = timeline_of(recording);
//   for (const ThreadTimeline& thread : timeline.threads)
//     for (const Slice& slice : thread.slices) ... slice_name(timeline, slice) ...
//
// A recording is not trusted: events may be out of order, unknown, or longer than the recording; rings lose events. All times
// here lie within the recording, whatever its events say.
//
// It refers to the recording, which must outlive it. It needs some twice the memory of the recording's events.
//
// Thread safety: as a struct.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "inspect/recording.h"

namespace forklift::inline abi_0_1::inspect {

// In the order in which slices of the same time contain each other.
enum class SliceKind : std::uint8_t {
  kTask,
  kRange,
  kPut,
  kGet,
  kPublish,
  kRead,
  kCopy,
  kWait
};

struct Slice {
  static constexpr std::uint32_t kNoLink = std::numeric_limits<std::uint32_t>::max();

  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::uint64_t object = 0;      // as in trace::Event
  std::uint64_t value = 0;       // likewise
  std::uint32_t link = kNoLink;  // of a get or a read: its link; of a put: its first one
  std::uint16_t depth = 0;       // slices around it
  std::uint16_t lane =
      0;  // not 0: it overlaps slices of an earlier lane without lying in them, as coroutines' ranges do
  SliceKind kind = SliceKind::kTask;
  bool unfinished = false;  // it had no end when the recording, or the thread, ended

  std::int64_t duration() const noexcept { return end - begin; }
  std::uint32_t row() const noexcept { return static_cast<std::uint32_t>(object >> 32); }
};

struct Moment {
  std::int64_t time = 0;
  std::uint64_t object = 0;
  std::uint64_t value = 0;
  trace::EventKind kind = trace::EventKind::kNone;
};

struct ProcessTimeline {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string name;  // never empty
  bool service = false;
  bool left_in_order = true;
  bool began_here = false;  // within the recording
  bool ended_here = false;
  std::int64_t began = 0;  // its life within the recording
  std::int64_t ended = 0;
};

// All that was recorded of one thread, also where it had several rings.
struct ThreadTimeline {
  std::size_t process = 0;  // in Timeline::processes
  pid_t thread = 0;
  std::string name;  // empty: its process's main thread
  std::uint64_t lost = 0;
  std::uint16_t lanes = 1;
  std::vector<Slice> slices;    // by their beginning, the outer one first
  std::vector<Moment> moments;  // by time; without the beginnings of slices
};

struct SliceRef {
  std::uint32_t thread = 0;
  std::uint32_t slice = 0;
  friend bool operator==(const SliceRef&, const SliceRef&) = default;
  friend bool operator<(const SliceRef& one, const SliceRef& other) noexcept {
    return one.thread != other.thread ? one.thread < other.thread : one.slice < other.slice;
  }
};
// A message's way. Of a topic's message there is one for each reader.
struct Link {
  SliceRef put;
  SliceRef get;
};

// From a lock's acquisition to its release. The holds of a thread need not nest.
struct Hold {
  std::uint32_t thread = 0;  // in Timeline::threads
  std::uint32_t lock = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool taken_over = false;  // from a process that died
  bool unfinished = false;
};

struct Sample {
  std::int64_t time = 0;
  std::int64_t value = 0;
};
struct QueueLength {
  std::uint32_t row = 0;
  std::vector<Sample> samples;  // by time; each value holds until the next one
};

struct Timeline {
  const Recording* recording = nullptr;
  std::int64_t began = 0;
  std::int64_t ended = 0;
  std::vector<ProcessTimeline> processes;
  std::vector<ThreadTimeline> threads;
  std::vector<Link> links;    // by put, then in the order of the gets
  std::vector<Hold> holds;    // by their beginning
  std::uint64_t unknown = 0;  // events of kinds that are not known here

  const ProcessTimeline& process_of(const ThreadTimeline& thread) const { return processes[thread.process]; }
  const Slice& at(SliceRef ref) const { return threads[ref.thread].slices[ref.slice]; }
  std::int64_t duration() const noexcept { return ended - began; }
};

Timeline timeline_of(const Recording& recording);

// Puts minus gets of each queue that has any. A queue begins with as many messages as make no later length negative.
std::vector<QueueLength> queue_lengths(const Timeline& timeline);
// Bytes of blocks in use, likewise. Empty: no block was allocated or given back.
std::vector<Sample> memory_in_use(const Timeline& timeline);

}  // namespace forklift::inline abi_0_1::inspect
