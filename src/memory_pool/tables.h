// The tables of memory pools and of their pieces in shared memory. docs/layout.md describes the same bytes in
// prose.
//
// Invariants (arena lock held; `audit` checks each of them)
//  M1. A pool's row is in use, or in the free list. One in use has an owner, or pieces.
//  M2. A pool's `pieces` is the number of piece rows in use that name it; `bytes` of the table is the sum of the
//      bytes of the pools in use.
//  M3. A piece's row in use has leases (its count is the number of lease rows that name it), or it is in the list
//      of its pool, or both. `listed` says whether it is in that list. A pool without an owner has no list.
//  M4. A piece lies within its pool.
//
// A pool is behind a descriptor, or, with a handle, in the memory of its owner (pools.h).
//
// Words marked [ledger] change through the arena's redo records, under its lock, only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sync/word.h"

namespace forklift::inline abi_0_1::memory_pool {

using sync::Word;

// For words that the ledger's lock guards, or that do not change while their object exists.
inline std::uint64_t load(const Word& word) noexcept { return word.load(std::memory_order_relaxed); }

struct PoolTable {
  Word rows_used;  // [ledger]
  Word rows_free;  // [ledger] row index + 1
  Word bytes;      // [ledger] of all pools
  Word broker;     // how many brokers have begun; the broker's to change
  Word reserved[4];
};
static_assert(sizeof(PoolTable) == 64);

struct alignas(64) PoolRow {
  Word meta;       // [ledger] {generation:32, in use:1}
  Word pieces;     // [ledger] rows of pieces that name it
  Word next;       // [ledger] free list: row index + 1
  Word bytes;      // [ledger]
  Word device[2];  // [ledger] the device's UUID, its 16 bytes in order
  Word owner;      // [ledger] as a lease's holder; 0: it has given the pool up, or is dead
  Word returned;   // [ledger] list of pieces that nobody holds any more: row index + 1
  Word handle[8];  // [ledger] the 64 bytes by which others open it; all zero: it is behind a descriptor
};
static_assert(sizeof(PoolRow) == 128);

struct PieceTable {
  Word rows_used;  // [ledger]
  Word rows_free;  // [ledger] row index + 1
  Word reserved[6];
};
static_assert(sizeof(PieceTable) == 64);

struct alignas(64) PieceRow {
  Word meta;    // [ledger] {generation:32, in use:1}
  Word count;   // [ledger] lease rows that name it
  Word next;    // [ledger] free list, or the pool's list: row index + 1
  Word pool;    // [ledger] {generation:32, index:32}
  Word offset;  // [ledger] of the first byte, in the pool
  Word bytes;   // [ledger]
  Word listed;  // [ledger] 1: it is in the pool's list
  Word reserved;
};
static_assert(sizeof(PieceRow) == 64);

}  // namespace forklift::inline abi_0_1::memory_pool
