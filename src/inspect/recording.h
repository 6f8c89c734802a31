// What was recorded of a program: the events of each of its threads, and the names of what they are about.
//
//   for (const RecordedThread& thread : recording.threads)
//     for (const trace::Event& event : thread.events) ...
//
// It is complete in itself: it refers to no memory of the program, which may be gone by now.
//
// Thread safety: as a struct.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trace/event.h"

namespace forklift::inline abi_0_1::inspect {

struct RecordedProcess {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string name;
  bool service = false;       // it serves the others
  std::int64_t began_ns = 0;  // 0: before the recording, or unknown
  std::int64_t ended_ns = 0;  // 0: after the recording, or unknown
  bool left_in_order = true;  // false: it was killed, or ended without leaving
};

struct RecordedThread {
  pid_t pid = 0;
  pid_t thread = 0;
  std::string name;                  // empty: the process's main thread
  std::vector<trace::Event> events;  // in the order of their `time`; kThread is not among them
  std::uint64_t lost = 0;            // written and overwritten before they were read
};

// What a wait is for.
struct RecordedPlace {
  std::string
      noun;  // "message", "room", "lock", "condition", "event", "semaphore", "barrier", "task", "process", ...
  std::string text;  // "a message in queue \"frames\"", "Lock 3"
};

struct Recording {
  std::uint64_t domain = 0;
  std::int64_t began_ns = 0;  // CLOCK_MONOTONIC
  std::int64_t ended_ns = 0;
  std::int64_t wall_ns = 0;  // CLOCK_REALTIME at began_ns
  std::vector<RecordedProcess> processes;
  std::vector<RecordedThread> threads;
  std::vector<std::string> names;               // of tasks, ranges, counters: by the number that an event has
  std::map<std::uint32_t, std::string> queues;  // by row: `queue "frames"`, `queue 3`
  std::map<std::uint32_t, std::string> topics;
  std::map<std::uint32_t, std::string> pools;  // by the row of their channel of tasks: "pool of process 12"
  std::map<std::uint32_t, std::string> locks;  // by index: `Lock "frames"`
  std::map<std::pair<std::uint64_t, std::uint64_t>, RecordedPlace>
      places;  // by a kWait's object and value's low byte

  const std::string& name(std::uint64_t number) const noexcept {
    static const std::string unknown = "?";
    return number < names.size() ? names[number] : unknown;
  }
};

}  // namespace forklift::inline abi_0_1::inspect
