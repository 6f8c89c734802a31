// The control segment's first page and the plan of what lies behind it. docs/layout.md describes both in
// prose.
//
// The segment is one sparse memory file, mapped whole by every process of the domain and never unmapped: all
// locks live here, and all tables whose rows keep their type for ever.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "sync/robust_mutex.h"
#include "sync/word.h"
#include "trace/tracer.h"

namespace forklift::inline abi_0_1::domain {

inline constexpr std::uint64_t kMagic = 0x31304b4c54465246ULL;  // "FRFTLK01"
// Raised with every change of a structure that lies in shared memory. Checked when joining.
inline constexpr std::uint32_t kLayoutVersion = 21;

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
  kSegments,
  kMemoryPools,
  kPieces,
  kWaitSets,
  kWatches,
  kServices,
  kWaits,
  kTraces,
  kCount
};
inline constexpr std::size_t kRegions = static_cast<std::size_t>(Region::kCount);

struct Extent {
  std::uint64_t offset;
  std::uint64_t bytes;
};

inline constexpr std::uint32_t kSlotCount = 4096;

// The states of a slot: FREE -> NASCENT (claimed, its process does not run yet) -> LIVE -> REAPING -> FREE
// with the next generation. Every step is one store of the state word. The process of a LIVE or NASCENT slot
// whose byte is unlocked is dead, unless it only closed its descriptors (Domain::process_has_left).
enum class SlotState : std::uint8_t {
  kFree = 0,
  kNascent = 1,
  kLive = 2,
  kReaping = 3
};

struct alignas(64) Slot {
  sync::Word state;    // {generation:32, unused:23, clean:1, SlotState:8}
  sync::Word pid;      // 0 while nascent
  sync::Word joined;   // in clock ticks since boot; a process with this pid that began later is another
  sync::Word service;  // 1: of a process that serves the domain's users and ends after them
  sync::Word name[4];  // for people, padded with zeros; all zero: it has none
};
static_assert(sizeof(Slot) == 64);

// Which memory of the data segment is to lie in transparent huge pages.
enum class HugePageUse : std::uint8_t {
  kWhereAdvised = 0,  // large blocks, where the kernel's setting for shared memory is advise or more
  kAlways = 1,        // also where that setting is `never`
  kNever = 2
};

struct Header {
  std::uint64_t magic;
  std::uint32_t layout_version;
  std::uint32_t mutex_bytes;  // sizeof(pthread_mutex_t): the C libraries of all members must agree on it
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
  sync::Word huge_pages;  // HugePageUse
  trace::Tracer::Switch trace;
  alignas(64) sync::RobustMutex reap_mutex;
  sync::Word prefault;  // bytes of free memory that stay warm on request, beside what stays anyway
};
static_assert(sizeof(Header) <= 4096);

// The sizes of all parts, derived from the limits of this process.
struct Plan {
  std::array<Extent, kRegions> regions;
  std::uint64_t control_bytes;
  std::uint64_t data_bytes;
};
// The smallest usable data segment.
inline constexpr std::uint64_t kSmallestSegment = std::uint64_t{512} << 10;
struct PlanLimits {
  std::uint64_t address_space = UINT64_MAX;  // RLIMIT_AS
  std::uint64_t file_size = UINT64_MAX;      // RLIMIT_FSIZE
  std::uint64_t segment = UINT64_MAX;        // the user's limit for the data segment
};
Plan make_plan(const PlanLimits& limits);
// All sizes follow from that of the data segment, a power of two: a process that joins checks the header
// against them.
Plan plan_for(std::uint64_t data_bytes);

}  // namespace forklift::inline abi_0_1::domain
