// The tables of wait sets and of their watches in shared memory. docs/layout.md describes the same bytes in prose.
//
// A set belongs to one process, which waits on it. A watch says that the notifications of one event mark one member of
// one set. The watches of an event are found by its place: they are in the list of the bucket that its offset belongs
// to, with those of other events.
//
// Invariants (ledger's lock held; `audit` checks each of them)
//  W1. A set's row, a watch's row is in use or in its free list.
//  W2. A watch's row in use is in the list of its event's bucket, once; no other row is in a list.
//  W3. A watch's set is in use, and has an owner.
//  W4. An event that has a watch is marked as watched. (One that has none may be: a look into the table for nothing.)
//
// Readers of a bucket take no lock (Watches::tell). Therefore each change stores a row's words before the row comes into
// a list, and takes it out of the list before anything else of it changes.
//
// Words marked [ledger] change through the arena's redo records, under its lock, only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sync/event_count.h"
#include "sync/word.h"

namespace forklift::inline abi_0_1::watch {

using sync::Word;

inline std::uint64_t load(const Word& word) noexcept { return word.load(std::memory_order_acquire); }

inline constexpr std::uint32_t kMarkWords = 64;
inline constexpr std::uint32_t kMembers = kMarkWords * 64;  // of one set, at most
inline constexpr std::uint32_t kBuckets = 4096;

struct SetTable {
  Word rows_used;  // [ledger]
  Word rows_free;  // [ledger] row index + 1
  Word reserved[6];
};
static_assert(sizeof(SetTable) == 64);

struct alignas(64) SetRow {
  Word meta;     // [ledger] {generation:32, in use:1}
  Word next;     // [ledger] free list: row index + 1
  Word owner;    // [ledger] as a lease's holder
  Word address;  // of the socket that makes the set a descriptor (os/local_socket.h); 0: it has none
  // 1: nothing was sent to the socket since its owner emptied it. Whoever marks a member takes the 1 and sends a byte.
  Word armed;
  Word undelivered;        // 1: a byte could not be sent; the owner looks now and then
  sync::EventCount event;  // notified after a member was marked
  Word spinner;
  Word summary;  // a bit for each word of marks that may have a bit
  Word unused[6];
  Word marks[kMarkWords];  // a bit for each member whose event was notified
};
static_assert(sizeof(SetRow) == 640);

struct WatchTable {
  Word rows_used;  // [ledger]
  Word rows_free;  // [ledger] row index + 1
  Word reserved[6];
  Word buckets[kBuckets];  // [ledger] list of watches: row index + 1
};
static_assert(sizeof(WatchTable) == 64 + kBuckets * 8);

struct alignas(64) WatchRow {
  Word meta;    // [ledger] {generation:32, in use:1}
  Word next;    // [ledger] free list: row index + 1
  Word link;    // [ledger] the bucket's list: row index + 1
  Word event;   // [ledger] offset of the event from the control segment's base
  Word target;  // [ledger] {row index of the set:32, member:32}
  Word unused[3];
};
static_assert(sizeof(WatchRow) == 64);

}  // namespace forklift::inline abi_0_1::watch
