// Topics, the shared memory of Broadcast and Latest. docs/layout.md describes the same bytes in prose.
//
// A topic is a ring of slots, one message each, that stay after they were read. Writers have a robust lock;
// readers have none: each keeps its own position. Two words say what is there, `oldest` and `tail`; a put is
// committed by the store of tail, a message is dropped by the store of oldest, *before* anything that it
// consists of is touched. Numbers of messages are 64 bits and never wrap.
//
// Invariants
//  R1. Messages with oldest <= seq < tail are on the topic, message seq in slot seq mod capacity; nothing
//      else is. tail - oldest <= capacity.
//  R2. A lease whose holder is topic {topic, seq} belongs to that message iff R1 holds for seq. Only a put in
//      progress (seq == tail) and a drop in progress (seq < oldest) leave strays, under the lock; its
//      recovery sweeps them.
//  R3. The ring's block is held by the topic itself.
//  R4. A reader's place is free iff its owner is 0. A live reader's position is at most tail.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sync/event_count.h"
#include "sync/label.h"
#include "sync/robust_mutex.h"
#include "sync/word.h"

namespace forklift::inline abi_0_1::topic {

using sync::Word;

inline constexpr std::uint32_t kMostReaders = 128;
inline constexpr std::uint32_t kSmallestSlot = 128;
inline constexpr std::uint32_t kLargestSlot = 8 * 1024;
inline constexpr std::uint32_t kLargestRing = 1U << 20;  // slots

// What happens to a reader that is behind by the ring's capacity when the next message comes.
enum class WhenSlow : std::uint8_t {
  kDropOldest = 0,  // it misses the oldest messages, and learns how many
  kWait = 1,        // the writer waits for it
  kDisconnect = 2   // it is unsubscribed
};

// What precedes a message's handles and bytes in its slot.
struct SlotHeader {
  std::uint64_t sequence;  // must be the one that is wanted
  std::uint32_t bytes;     // inline: payload bytes behind the handles
  std::uint16_t handles;   // inline
  std::uint8_t codec;
  std::uint8_t spilled;  // 1: one handle, of a block that holds {SpillHeader, handles, payload}
  std::uint64_t tag;
  std::uint64_t unused;
};
static_assert(sizeof(SlotHeader) == 32);

// One reader's place. It alone changes its position while it lives.
struct ReaderPlace {
  alignas(64) Word owner;  // Holder::process of its process; 0: free
  Word position;           // the next message that it will read
  Word unused[6];
};
static_assert(sizeof(ReaderPlace) == 64);

struct TopicRow {
  // What does not change while the topic lives.
  alignas(64) Word meta;  // {generation:32, in use:1}
  Word count;             // lease rows naming this topic
  Word next;              // free list: row index + 1
  Word capacity;          // slots of the ring
  Word slot_bytes;
  Word keep;   // how many messages stay for readers to come
  Word flags;  // as a channel's
  Word when_slow;

  alignas(64) Word ring_offset;  // of the ring, in the data segment
  Word ring_block;               // {generation:32, block:32}
  Word ring_lease;
  Word finished;      // 1: nothing more will be put
  Word readers_used;  // no place at or above it has an owner
  Word broken;        // 1 while what a dead owner of the lock left is not repaired
  Word unused0[2];

  alignas(64) sync::RobustMutex mutex;

  alignas(64) Word tail;  // messages ever put
  Word oldest;            // messages ever dropped
  Word put_cpu;           // processor of the last writer, + 1
  Word unused1[5];

  alignas(64) sync::EventCount items;  // a message has come, or the topic is finished
  Word item_spinner;                   // until when (CLOCK_MONOTONIC, ns) one waiting reader spins
  Word unused2;
  sync::EventCount space;  // a reader has come, gone on or left
  Word space_spinner;
  Word unused3;

  sync::Label label;  // cleared with the making of a topic

  ReaderPlace readers[kMostReaders];
};
static_assert(sizeof(TopicRow) == 384 + kMostReaders * 64);

struct TopicTable {
  Word rows_used;
  Word rows_free;  // row index + 1
  Word unused[62];
};
static_assert(sizeof(TopicTable) == 512);

}  // namespace forklift::inline abi_0_1::topic
