// Recordings made by hand, for tests of what is made of recordings. Times are in microseconds from the recording's beginning.
#pragma once

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "inspect/recording.h"

namespace forklift::test {

using inspect::RecordedProcess;
using inspect::RecordedThread;
using inspect::Recording;
using trace::Event;
using trace::EventKind;

inline constexpr std::int64_t kBegan = 1'000'000'000'000;
constexpr std::int64_t at_us(std::int64_t microseconds) noexcept { return kBegan + microseconds * 1000; }

class RecordingBuilder {
 public:
  explicit RecordingBuilder(std::int64_t microseconds) {
    recording_.domain = 7;
    recording_.began_ns = kBegan;
    recording_.ended_ns = at_us(microseconds);
    recording_.wall_ns = 1'700'000'000'000'000'000;
    recording_.names = {"", "train", "load", "epoch"};
  }
  RecordedProcess& process(pid_t pid, std::string name, pid_t parent = 1) {
    RecordedProcess process;
    process.pid = pid;
    process.parent = parent;
    process.name = std::move(name);
    recording_.processes.push_back(process);
    return recording_.processes.back();
  }
  // The main thread of a process. Its events follow.
  RecordingBuilder& thread(pid_t pid) { return thread(pid, pid, {}); }
  RecordingBuilder& thread(pid_t pid, pid_t thread, std::string name) {
    RecordedThread recorded;
    recorded.pid = pid;
    recorded.thread = thread;
    recorded.name = std::move(name);
    recording_.threads.push_back(std::move(recorded));
    return *this;
  }
  RecordingBuilder& span(EventKind kind, std::int64_t from, std::int64_t to, std::uint64_t object,
                         std::uint64_t value) {
    recording_.threads.back().events.push_back({at_us(from), (to - from) * 1000, kind, object, value});
    return *this;
  }
  RecordingBuilder& moment(EventKind kind, std::int64_t time, std::uint64_t object, std::uint64_t value) {
    return span(kind, time, time, object, value);
  }
  RecordingBuilder& put(std::int64_t from, std::int64_t to, std::uint32_t row, std::uint32_t sequence,
                        std::uint64_t bytes = 100) {
    return span(EventKind::kPut, from, to, trace::row_and_sequence(row, sequence), bytes);
  }
  RecordingBuilder& get(std::int64_t from, std::int64_t to, std::uint32_t row, std::uint32_t sequence,
                        std::uint64_t bytes = 100) {
    return span(EventKind::kGet, from, to, trace::row_and_sequence(row, sequence), bytes);
  }
  RecordingBuilder& task(std::int64_t from, std::int64_t to, std::uint32_t number, std::uint64_t name,
                         std::uint32_t pool = 9) {
    moment(EventKind::kTaskBegan, from, trace::row_and_sequence(pool, number), name);
    return span(EventKind::kTask, from, to, trace::row_and_sequence(pool, number), name);
  }
  // `kind`: as place() was told. `how`: 0 a sleep, 1 a spin, 2 not ended.
  RecordingBuilder& wait(std::int64_t from, std::int64_t to, std::uint64_t object, std::uint64_t kind = 1,
                         std::uint64_t how = 0) {
    return span(EventKind::kWait, from, to, object, kind | how << 8);
  }
  void place(std::uint64_t object, std::uint64_t kind, std::string noun, std::string text) {
    recording_.places[{object, kind}] = {std::move(noun), std::move(text)};
  }
  void queue(std::uint32_t row, const std::string& label) {
    recording_.queues[row] = "queue \"" + label + '"';
    place(row * 100, 1, "message", "a message in queue \"" + label + '"');
    place(row * 100 + 1, 2, "room", "room in queue \"" + label + '"');
  }
  Recording& operator*() noexcept { return recording_; }
  Recording* operator->() noexcept { return &recording_; }

 private:
  Recording recording_;
};

// Events that no program makes: of any kind and time, with few numbers, so that some of them belong together.
inline Recording wild_recording(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::int64_t limit) { return static_cast<std::int64_t>(random()) % limit; };
  RecordingBuilder built(10'000);
  for (pid_t pid = 10; pid < 14; ++pid) {
    RecordedProcess& process = built.process(pid, "p", pid - 1);
    process.began_ns = below(2) == 0 ? 0 : at_us(below(12'000) - 1000);
    process.ended_ns = below(2) == 0 ? 0 : at_us(below(12'000) - 1000);
    process.left_in_order = below(2) == 0;
    built.thread(pid, pid + static_cast<pid_t>(below(2)), "t");
    for (int i = 0; i < 400; ++i) {
      const std::int64_t begin = below(12'000) - 1000;
      const std::int64_t length = below(10) == 0 ? below(20'000) - 1000 : below(20);
      built.span(
          static_cast<EventKind>(below(46)), begin, begin + length,
          trace::row_and_sequence(static_cast<std::uint32_t>(below(3)), static_cast<std::uint32_t>(below(9))),
          static_cast<std::uint64_t>(below(3) | below(3) << 8));
    }
  }
  for (std::uint64_t object = 0; object < 9; ++object) {
    const char* const nouns[] = {"message", "room", "lock", "process", "event"};
    built.place(object, object % 3, nouns[below(5)], "queue 1");
  }
  built->queues[1] = "queue 1";
  built->locks[2] = "queue 1";
  return *built;
}

}  // namespace forklift::test
