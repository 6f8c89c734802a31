// Where the time of a recording went: of each thread, of each function of tasks, at queues and locks, and along the critical
// path; and up to three sentences about what matters most.
//
//   const Breakdown breakdown = breakdown_of(recording);
//   for (const std::string& sentence : breakdown.sentences) puts(sentence.c_str());
//
// It is complete in itself: it refers neither to the recording nor to the program.
//
// Thread safety: as a struct.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "inspect/timeline.h"

namespace forklift::inline abi_0_1::inspect {

// What a thread does at a moment: exactly one of these.
enum class Share : std::uint8_t {
  kStarting,        // from the beginning of its process to its first task, wait for work, put or get
  kWaitingForWork,  // for a message or a task, outside of a task
  kWorking,         // in a task or a range, and in nothing below
  kCopying,         // bytes into, within or out of the arena
  kPassing,         // in a put or a get, but neither copying nor waiting
  kWaitingForRoom,  // in a full queue
  kWaitingForLocks,
  kWaitingOther,  // in a task for a message; for an event, a barrier, a process, ...
  kUnknown        // nothing was recorded: it computes outside of tasks, or sleeps in other calls
};
inline constexpr std::size_t kShares = 9;
const char* name_of(Share share) noexcept;

// How long a thread waited at one place.
struct PlaceTime {
  std::string noun;  // as RecordedPlace; empty: not recorded
  std::string text;
  std::int64_t ns = 0;
};
struct ThreadTime {
  std::size_t thread = 0;  // in Timeline::threads
  pid_t pid = 0;
  pid_t tid = 0;
  std::string name;  // "loader", "loader, thread 12"
  bool service = false;
  std::optional<std::uint32_t> pool;  // whose tasks it ran
  std::int64_t lifetime_ns = 0;       // the sum of what follows
  std::array<std::int64_t, kShares> ns{};
  std::vector<PlaceTime> waits;  // the longest first

  std::int64_t operator[](Share share) const noexcept { return ns[static_cast<std::size_t>(share)]; }
  std::int64_t waiting_ns() const noexcept {
    return (*this)[Share::kWaitingForWork] + (*this)[Share::kWaitingForRoom] +
           (*this)[Share::kWaitingForLocks] + (*this)[Share::kWaitingOther];
  }
};

struct TaskTimes {
  std::string name;
  std::uint64_t count = 0;       // that ended
  std::uint64_t unfinished = 0;  // that did not, and count in nothing below
  std::int64_t total_ns = 0;
  std::int64_t median_ns = 0;
  std::int64_t p99_ns = 0;
  std::int64_t most_ns = 0;
};
struct SlowTask {
  std::string name;
  std::string process;
  std::int64_t begin = 0;
  std::int64_t ns = 0;
  bool unfinished = false;
};

struct QueueTimes {
  std::uint32_t row = 0;
  std::string name;
  bool labelled = false;  // the recording says that it is a queue of the program
  std::uint64_t puts = 0;
  std::uint64_t gets = 0;
  std::uint64_t bytes = 0;  // that were put
  std::int64_t most = 0;    // messages in it
  double mean = 0;
  std::int64_t full_ns = 0;          // while at least one thread waited for room
  std::int64_t empty_ns = 0;         // while at least one thread waited for a message
  std::int64_t transit_ns = 0;       // median from a put's beginning to its get's end
  std::vector<std::size_t> writers;  // in Timeline::threads
  std::vector<std::size_t> readers;
};

struct LockTimes {
  std::uint32_t index = 0;
  std::string name;
  std::uint64_t holds = 0;
  std::int64_t held_ns = 0;
  std::int64_t waited_ns = 0;         // the sum of all threads' waits
  std::vector<std::size_t> waiting;   // threads that waited, in Timeline::threads
  std::optional<std::size_t> holder;  // the thread that held it longest
  std::int64_t holder_ns = 0;
};

// A part of the critical path: what the program waited for at that time.
struct PathSegment {
  std::size_t thread = 0;  // in Timeline::threads
  std::string process;
  std::string what;  // "train", "own code", "waits for Lock 3", "wakes up"
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
struct PathShare {
  std::string process;
  std::string what;
  std::int64_t ns = 0;
};

struct Breakdown {
  std::int64_t duration_ns = 0;
  std::vector<ThreadTime> threads;     // as in the timeline
  std::vector<TaskTimes> tasks;        // the longest total first
  std::vector<SlowTask> slowest;       // at most ten, of all functions
  std::vector<QueueTimes> queues;      // by row
  std::vector<LockTimes> locks;        // the most waited for first
  std::vector<PathSegment> path;       // by time, without gaps
  std::vector<PathShare> path_shares;  // the path's sums, the longest first
  std::vector<std::string> sentences;  // at most three; none where nothing matters
  std::uint64_t lost = 0;              // events that are missing
};

Breakdown breakdown_of(const Timeline& timeline);
inline Breakdown breakdown_of(const Recording& recording) { return breakdown_of(timeline_of(recording)); }

}  // namespace forklift::inline abi_0_1::inspect
