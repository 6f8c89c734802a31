// What a trace says: one event of one thread.
//
// A span has a duration, and `time` is its beginning; it is written when it ends. A moment has none. The events of a
// thread lie in the order in which they were written, so a span comes behind what happened within it.
#pragma once

#include <cstdint>

namespace forklift::inline abi_0_1::trace {

// What is switched on and off together. The bits of the switch (Header::trace).
enum class Category : std::uint8_t {
  kLife,      // processes and forks, budgets: rare, and on by default
  kMessages,  // put and get
  kWaits,
  kLocks,
  kMemory,  // blocks, copies
  kTasks,   // of pools
  kRanges   // of the program
};
constexpr std::uint64_t bit(Category category) noexcept {
  return std::uint64_t{1} << static_cast<unsigned>(category);
}
inline constexpr std::uint64_t kEverything = (std::uint64_t{1} << 7) - 1;
inline constexpr std::uint64_t kByDefault = bit(Category::kLife);

// Numbers in shared memory. A kind's second column says what `object` and `value` are.
enum class EventKind : std::uint8_t {
  kNone = 0,
  // Spans.
  kPut = 1,      // {channel:32, sequence:32}; bytes
  kGet = 2,      // likewise: the span is the taking, without a wait before it
  kPublish = 3,  // {topic:32, sequence:32}; bytes
  kRead = 4,     // likewise
  kWait = 5,     // offset of the event in the control segment, or a pid; {WaitKind:8, 1 for a spin:8}
  kTask = 6,     // {index of the pool's channel of tasks:32, number:32}; name
  kCopy = 7,     // CopyWay; bytes
  kRange = 8,    // 0; name
  // Moments.
  kThread = 32,      // {pid:32, thread:32}; process word: the ring's later events are this thread's
  kTaskBegan = 33,   // as kTask
  kLocked = 34,      // index of the lock; 1: taken over from a process that died, 2: shared, to read
  kUnlocked = 35,    // index of the lock; 2: shared
  kAllocated = 36,   // block; bytes
  kReleased = 37,    // block; bytes
  kStarted = 38,     // own pid; parent's pid. When: Tracer::begin_process
  kGone = 39,        // pid; 1: it left in good order. By the process that gave back what it held
  kForked = 40,      // 0; 0: this thread is about to fork
  kOverBudget = 41,  // bytes that were refused; 0
  kRangeBegan = 42,  // 0; name
  kCounter = 43,     // name; a double's bits
  kNamed = 44,       // own pid; name of the process. While somebody records
};

enum class CopyWay : std::uint64_t {
  kIntoArena = 0,
  kOutOfArena = 1,
  kWithinArena = 2
};

struct Event {
  std::int64_t time = 0;      // CLOCK_MONOTONIC, ns
  std::int64_t duration = 0;  // ns, less than 2^48
  EventKind kind = EventKind::kNone;
  std::uint64_t object = 0;
  std::uint64_t value = 0;

  std::int64_t end() const noexcept { return time + duration; }
  // Of kPut, kGet, kPublish, kRead: of the channel or topic; of kTask: of the pool's channel.
  std::uint32_t row() const noexcept { return static_cast<std::uint32_t>(object >> 32); }
  std::uint32_t sequence() const noexcept { return static_cast<std::uint32_t>(object); }
};
// The value of kPut and kGet in a ring: several messages under one lock are one event there.
inline constexpr unsigned kCountShift = 48;
constexpr std::uint64_t bytes_and_count(std::uint64_t bytes, std::uint64_t count) noexcept {
  const std::uint64_t most = (std::uint64_t{1} << kCountShift) - 1;
  return count << kCountShift | (bytes < most ? bytes : most);
}
constexpr std::uint64_t row_and_sequence(std::uint32_t row, std::uint32_t sequence) noexcept {
  return std::uint64_t{row} << 32 | sequence;
}

}  // namespace forklift::inline abi_0_1::trace
