// Rows of a table in shared memory that belong to threads, one each: who owns a row, and how a thread gets its own.
//
//   struct Row { Word owner; ... };                         // its first word; 0: free
//   Row* row = claim_thread_row(rows, used, owner);         // once in a thread's life
//
// Rows are dense: a thread takes a free one, or that of a thread of its process that has ended, before the table grows.
// The owner's word is {unused:3, generation:27, slot:12, thread:22} of the thread's process and itself; this header knows
// of the first two only that they tell processes apart.
//
// Thread and process safety: any number of threads may claim. A thread that dies on the way leaves a free row behind.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <span>

#include "sync/word.h"

namespace forklift::inline abi_0_1::sync {

inline constexpr unsigned kOwnerSlotShift = 22, kOwnerGenerationShift = 34;
inline constexpr std::uint64_t kOwnerThreadMask = (std::uint64_t{1} << kOwnerSlotShift) - 1;
inline constexpr std::uint32_t kOwnerSlotMask =
    (1U << (kOwnerGenerationShift - kOwnerSlotShift)) - 1;  // of slots there are fewer than that
inline constexpr std::uint32_t kOwnerGenerationMask = (1U << 27) - 1;

// The part of an owner's word that all threads of a process share.
constexpr std::uint64_t owner_process(std::uint32_t slot, std::uint32_t generation) noexcept {
  return std::uint64_t{generation & kOwnerGenerationMask} << kOwnerGenerationShift | std::uint64_t{slot}
                                                                                         << kOwnerSlotShift;
}
constexpr std::uint32_t owner_thread(std::uint64_t owner) noexcept {
  return static_cast<std::uint32_t>(owner & kOwnerThreadMask);
}
constexpr std::uint32_t owner_slot(std::uint64_t owner) noexcept {
  return static_cast<std::uint32_t>(owner >> kOwnerSlotShift) & kOwnerSlotMask;
}
constexpr std::uint32_t owner_generation(std::uint64_t owner) noexcept {
  return static_cast<std::uint32_t>(owner >> kOwnerGenerationShift) & kOwnerGenerationMask;
}

// Has this thread of the calling process ended?
inline bool thread_has_ended(std::uint32_t thread) noexcept {
  return ::syscall(SYS_tgkill, ::getpid(), static_cast<pid_t>(thread), 0) != 0 && errno == ESRCH;
}

// Of how many rows of its own process a thread asks whether their threads have ended, before it takes a further row.
inline constexpr std::uint64_t kMostOwnerProbes = 16;

// The row of `owner`: the one that it has, a free one, one of a thread of this process that has ended, or a further
// one; nullptr: the table is full. `used` counts the rows that were ever taken.
template <class Row>
Row* claim_thread_row(std::span<Row> rows, Word& used, std::uint64_t owner) noexcept {
  const auto take = [owner](Row& row, std::uint64_t from) {
    return row.owner.compare_exchange_strong(from, owner);
  };
  const std::span<Row> known =
      rows.first(std::min<std::uint64_t>(used.load(std::memory_order_acquire), rows.size()));
  for (Row& row : known) {
    if (row.owner.load(std::memory_order_relaxed) == owner) return &row;
  }
  for (Row& row : known) {
    if (row.owner.load(std::memory_order_relaxed) == 0 && take(row, 0)) return &row;
  }
  std::uint64_t probes = 0;
  for (std::size_t i = 0; i < known.size() && probes < kMostOwnerProbes; ++i) {
    Row& row = known[(i + owner) % known.size()];
    const std::uint64_t seen = row.owner.load(std::memory_order_relaxed);
    if ((seen & ~kOwnerThreadMask) != (owner & ~kOwnerThreadMask)) continue;
    ++probes;
    if (thread_has_ended(owner_thread(seen)) && take(row, seen)) return &row;
  }
  // A row that was counted and whose taker died before it took it is free for the next thread.
  while (used.load(std::memory_order_relaxed) < rows.size()) {
    const std::uint64_t next = used.fetch_add(1);
    if (next < rows.size() && take(rows[next], 0)) return &rows[next];
  }
  return nullptr;
}

}  // namespace forklift::inline abi_0_1::sync
