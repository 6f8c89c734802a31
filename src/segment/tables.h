// The table of named segments in shared memory. docs/layout.md describes the same bytes in prose.
//
// Invariants
//  G1. A row is in use (its count is the number of lease rows that name it) or in the free list.
//  G2. `bytes` of the table is the sum of the file sizes of the rows in use.
//  G3. A file of the domain exists only while its row is in use, with `file` other than kNone. The row comes
//      first and goes last, so whoever gives back the last lease finds what there is to unlink.
//
// Words marked [ledger] change through the arena's redo records, under its lock, only. `file` belongs to the
// process that makes the segment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sync/word.h"

namespace forklift::inline abi_0_1::segment {

using sync::Word;

inline constexpr std::size_t kFolderBytes = 128;

struct SegmentTable {
  Word rows_used;             // [ledger]
  Word rows_free;             // [ledger] row index + 1
  Word bytes;                 // [ledger] of all files
  char folder[kFolderBytes];  // where they are, with a zero behind it; written when the domain is made
  char reserved[104];
};
static_assert(sizeof(SegmentTable) == 256);

enum class File : std::uint64_t {
  kNone = 0,   // there is none, or one of this name that is not ours
  kMaking = 1  // there may be one
};

struct alignas(64) SegmentRow {
  Word meta;          // [ledger] {generation:32, in use:1}
  Word count;         // [ledger] lease rows that name it
  Word next;          // [ledger] free list: row index + 1
  Word bytes;         // [ledger] of the data
  Word head;          // [ledger] {pid in the file's name or 0:32, bytes of the file before the data:32}
  Word file;          // File
  Word handed;        // [ledger] when it was last handed over, in ns; 0: the lease below does not exist
  Word handed_lease;  // [ledger] row of the lease that Holder::handed_over() has
};
static_assert(sizeof(SegmentRow) == 64);

inline std::uint64_t head_bytes(const SegmentRow& row) noexcept {
  return row.head.load(std::memory_order_relaxed) & 0xffffffff;
}
inline std::uint64_t file_bytes(const SegmentRow& row) noexcept {
  return row.bytes.load(std::memory_order_relaxed) + head_bytes(row);
}
inline std::uint32_t pid_in_name(const SegmentRow& row) noexcept {
  return static_cast<std::uint32_t>(row.head.load(std::memory_order_relaxed) >> 32);
}

}  // namespace forklift::inline abi_0_1::segment
