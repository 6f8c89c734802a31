// The control segment's first page and the plan of what lies behind it. docs/layout.md is the prose twin.
//
// The segment is one sparse memory file, mapped whole by every process of the domain and never unmapped: all
// locks live here, and all tables whose rows keep their type for ever.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "sync/robust_mutex.h"
#include "sync/word.h"

namespace forklift::domain {

inline constexpr std::uint64_t kMagic = 0x31304b4c54465246ULL;  // "FRFTLK01"
// Raised with every change of a structure that lies in shared memory. Checked when joining.
inline constexpr std::uint32_t kLayoutVersion = 6;

// The parts of the control segment. The domain hands out their addresses and knows nothing of their contents.
enum class Region : std::uint32_t {
  kSlots,
  kLocks,
  kArena,
  kBlocks,
  kLeases,
  kChannels,
  kChunks,
  kTopics,
  kNames,
  kCount
};
inline constexpr std::size_t kRegions = static_cast<std::size_t>(Region::kCount);

struct Extent {
  std::uint64_t offset;
  std::uint64_t bytes;
};

inline constexpr std::uint32_t kSlotCount = 4096;

// What a slot is. FREE -> NASCENT (claimed, its process not yet there) -> LIVE -> REAPING -> FREE with the
// next generation. Every step is one store of the state word. LIVE and NASCENT slots whose byte is unlocked
// are dead.
enum class SlotState : std::uint8_t {
  kFree = 0,
  kNascent = 1,
  kLive = 2,
  kReaping = 3
};

struct alignas(64) Slot {
  sync::Word state;       // {generation:32, unused:23, clean:1, SlotState:8}
  sync::Word pid;         // 0 while nascent
  sync::Word start_time;  // clock ticks since boot, with the pid names the process
  sync::Word reserved[5];
};
static_assert(sizeof(Slot) == 64);

struct Header {
  std::uint64_t magic;
  std::uint32_t layout_version;
  std::uint32_t mutex_bytes;  // sizeof(pthread_mutex_t): two C libraries must agree on it
  std::uint64_t domain_id;    // random, never 0
  std::uint64_t control_bytes;
  std::uint64_t data_bytes;  // of data segment 0; its upper half is the private range
  std::uint64_t page_bytes;
  std::uint64_t pid_namespace;
  std::uint64_t user;
  std::array<Extent, kRegions> regions;
  sync::Word ready;       // 1 once every layer has laid out its region
  sync::Word slots_used;  // no slot at or above this index was ever claimed
  sync::Word budget;      // bytes that may be committed; 0: derive it from the machine's memory
  alignas(64) sync::RobustMutex reap_mutex;
};
static_assert(sizeof(Header) <= 4096);

// How large everything is made, from the address space that this process may use.
struct Plan {
  std::array<Extent, kRegions> regions;
  std::uint64_t control_bytes;
  std::uint64_t data_bytes;
};
// The smallest data segment with which anything can be done.
inline constexpr std::uint64_t kSmallestSegment = std::uint64_t{512} << 10;
struct PlanLimits {
  std::uint64_t address_space = UINT64_MAX;  // RLIMIT_AS
  std::uint64_t file_size = UINT64_MAX;      // RLIMIT_FSIZE
  std::uint64_t segment = UINT64_MAX;        // what the user wants the data segment to have at most
};
Plan make_plan(const PlanLimits& limits);
// Everything follows from the size of the data segment, a power of two: whoever joins checks the header by
// it.
Plan plan_for(std::uint64_t data_bytes);

}  // namespace forklift::domain
